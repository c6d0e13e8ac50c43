/* SPDX-License-Identifier: MIT */
#include "outbox/adopt/java_regex.h"

#include "common/config/lane_texts.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define GROUPS_MAX 9 /* that a replacement can name */
#define NAME_SIZE 64

/* Groups as Java counts them; POSIX counts also those that Java does not capture. */
struct groups {
    char names[GROUPS_MAX + 1][NAME_SIZE]; /* "" without one */
    int posix[GROUPS_MAX + 1];
    int count;
    int posix_count;
};

static enum rc refuse(const char *at, const char *what, struct err *err)
{
    return err_fail(err, RC_REJECT, 0, "POSIX has no %s, as at \"%.40s\"", what, at);
}

/* at is behind "(?<". */
static enum rc take_name(struct groups *groups, const char **at, struct err *err)
{
    size_t len = 0;

    while (isalnum((unsigned char)(*at)[len]))
        len++;
    if (len == 0 || len >= NAME_SIZE || (*at)[len] != '>')
        return refuse(*at, "look-behind", err);
    memcpy(groups->names[groups->count], *at, len);
    groups->names[groups->count][len] = '\0';
    *at += len + 1;
    return RC_OK;
}

/* at is behind "(". */
static enum rc take_group(struct groups *groups, const char **at, struct buf *out, struct err *err)
{
    buf_char(out, '(');
    groups->posix_count++;
    if (strncmp(*at, "?:", 2) == 0) {
        *at += 2;
        return RC_OK;
    }
    if (groups->count == GROUPS_MAX)
        return refuse(*at, "more than 9 groups for a replacement", err);
    groups->posix[++groups->count] = groups->posix_count;
    if (**at != '?')
        return RC_OK;
    if ((*at)[1] != '<')
        return refuse(*at, "groups with flags or look-ahead", err);
    *at += 2;
    return take_name(groups, at, err);
}

/* at is behind the backslash. */
static enum rc take_escape(const char **at, struct buf *out, struct err *err)
{
    char c = **at;

    switch (c) {
    case 'd':
        buf_text_put(out, "[0-9]");
        break;
    case 'w':
        buf_text_put(out, "[A-Za-z0-9_]");
        break;
    case 'W':
        buf_text_put(out, "[^A-Za-z0-9_]");
        break;
    case 'D':
        buf_text_put(out, "[^0-9]");
        break;
    default:
        if (c == '\0' || isalnum((unsigned char)c))
            return refuse(*at - 1, "such an escape", err);
        if (strchr(".[]{}()*+?|^$\\", c))
            buf_char(out, '\\');
        buf_char(out, c);
    }
    (*at)++;
    return RC_OK;
}

/* at is behind "[". Sets are the same in both without backslashes, && and sets inside. */
static enum rc take_set(const char **at, struct buf *out, struct err *err)
{
    buf_char(out, '[');
    if (**at == '^')
        buf_char(out, *(*at)++);
    do {
        if (!**at)
            return refuse(*at, "set without an end", err);
        if (**at == '\\' || **at == '[' || strncmp(*at, "&&", 2) == 0)
            return refuse(*at, "such a part of a set", err);
        buf_char(out, *(*at)++);
    } while (**at != ']');
    buf_char(out, *(*at)++);
    return RC_OK;
}

static enum rc translate_regex(const char *regex, struct groups *groups, struct buf *out,
                               struct err *err)
{
    enum rc rc = RC_OK;

    for (const char *at = regex; *at && rc == RC_OK;) {
        char c = *at++;

        if (c == '(')
            rc = take_group(groups, &at, out, err);
        else if (c == '\\')
            rc = take_escape(&at, out, err);
        else if (c == '[')
            rc = take_set(&at, out, err);
        else
            buf_char(out, c);
        if (rc == RC_OK && strchr("*+?}", c) && (*at == '?' || *at == '+'))
            rc = refuse(at - 1, "lazy or possessive repetition", err);
    }
    return rc;
}

/* Reads the digits or the name behind $. Returns Java's number of the group, or -1. */
static int find_group(const struct groups *groups, const char **at)
{
    if (isdigit((unsigned char)**at)) {
        int number = *(*at)++ - '0';

        return number <= groups->count ? number : -1;
    }
    for (int i = 1; i <= groups->count; i++) {
        size_t len = strlen(groups->names[i]);

        if (len > 0 && **at == '{' && strncmp(*at + 1, groups->names[i], len) == 0 &&
            (*at)[len + 1] == '}') {
            *at += len + 2;
            return i;
        }
    }
    return -1;
}

static enum rc translate_replacement(const char *replacement, const struct groups *groups,
                                     struct buf *out, struct err *err)
{
    for (const char *at = replacement; *at;) {
        char c = *at++;
        int group;

        if (c == '\\' && *at == '$')
            return err_fail(err, RC_REJECT, 0, "the replacement makes a topic with a $");
        if (c == '\\' && *at) {
            buf_char(out, *at++);
            continue;
        }
        if (c != '$') {
            buf_char(out, c);
            continue;
        }
        group = find_group(groups, &at);
        if (group < 0 || groups->posix[group] > GROUPS_MAX)
            return err_fail(err, RC_REJECT, 0,
                            "the replacement names a group that the regular expression does not "
                            "have, as at \"%.40s\"",
                            at - 1);
        buf_print(out, "$%d", groups->posix[group]);
    }
    return RC_OK;
}

enum rc java_regex_translate(const char *regex, const char *replacement, struct buf *posix,
                             struct buf *topic, struct err *err)
{
    struct groups groups = {0};
    enum rc rc = translate_regex(regex, &groups, posix, err);

    if (rc == RC_OK)
        rc = translate_replacement(replacement, &groups, topic, err);
    if (rc != RC_OK)
        return rc;
    return lane_regex_check(buf_text(posix), err) == RC_OK ? RC_OK : RC_REJECT;
}
