/* SPDX-License-Identifier: MIT */
#include "producer/http/json_split.h"

#include <string.h>

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

void json_split_blanks(struct json_split *split)
{
    while (split->at < split->len && is_blank(split->body[split->at]))
        split->at++;
}

/* The position after the closing quote, or the end of the body. */
static size_t find_string_end(const struct json_split *split, size_t at)
{
    for (at++; at < split->len && split->body[at] != '"'; at++)
        at += split->body[at] == '\\';
    return at + 1;
}

static char find_next(struct json_split *split, char close, struct json_piece *piece)
{
    size_t depth = 0;
    size_t at = split->at;

    while (at < split->len) {
        char c = split->body[at];

        if (depth == 0 && (c == ',' || c == close)) {
            *piece = (struct json_piece){split->at, at - split->at};
            split->at = at + 1;
            return c;
        }
        if (c == '{' || c == '[')
            depth++;
        else if ((c == '}' || c == ']') && depth > 0)
            depth--;
        at = c == '"' ? find_string_end(split, at) : at + 1;
    }
    return 0;
}

char json_split_next(struct json_split *split, struct json_piece *piece)
{
    return find_next(split, ']', piece);
}

enum rc json_split_count(struct json_split split, size_t items_max, const char *noun, size_t *count,
                         struct request_fault *fault)
{
    struct json_piece piece;
    char end = ',';

    json_split_blanks(&split);
    for (*count = 0; end == ','; ++*count) {
        if (*count > items_max)
            break;
        end = json_split_next(&split, &piece);
        if (end == 0) {
            request_fault_set(fault, REQUEST_FAULT_NOT_JSON, "the body ends inside its array");
            return RC_REJECT;
        }
    }
    if (*count == 1 && piece.len == 0)
        *count = 0;
    if (*count == 0 || *count > items_max) {
        request_fault_set(fault, REQUEST_FAULT_OUT_OF_RANGE, "an array must hold 1 to %zu %s",
                          items_max, noun);
        request_fault_at(fault, "");
        return RC_REJECT;
    }
    json_split_blanks(&split);
    if (split.at < split.len) {
        request_fault_set(fault, REQUEST_FAULT_NOT_JSON,
                          "the body continues after the array, at byte %zu", split.at);
        return RC_REJECT;
    }
    return RC_OK;
}

bool json_split_member(const char *object, size_t len, const char *name, struct json_piece *value)
{
    struct json_split split = {.body = object, .len = len};
    struct json_piece member;
    char end = ',';

    json_split_blanks(&split);
    split.at++; /* the '{' */
    while (end == ',') {
        size_t behind;

        json_split_blanks(&split);
        end = find_next(&split, '}', &member);
        if (end == 0 || member.len < strlen(name) + 2)
            continue;
        behind = find_string_end(&split, member.at);
        if (behind - member.at != strlen(name) + 2 ||
            memcmp(object + member.at + 1, name, strlen(name)) != 0)
            continue;
        split.at = behind;
        json_split_blanks(&split);
        split.at++; /* the ':' */
        json_split_blanks(&split);
        value->at = split.at;
        value->len = member.at + member.len - split.at;
        while (value->len > 0 && is_blank(object[value->at + value->len - 1]))
            value->len--;
        return true;
    }
    return false;
}
