/* SPDX-License-Identifier: MIT */
#include "common/config/lane_texts.h"

#include "common/text.h"

#include <regex.h>
#include <stdio.h>
#include <string.h>

#define LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
#define SHOWN_MAX 60
#define REASON_SIZE 128
#define REGEX_PARTS_MAX 1000

/* All characters are of the set, which has no zero byte. */
static bool has_only(const char *text, size_t len, const char *set)
{
    for (size_t i = 0; i < len; i++)
        if (text[i] == '\0' || !strchr(set, text[i]))
            return false;
    return true;
}

static bool is_word(const char *text, size_t len, const char *set)
{
    return len > 0 && len < LANE_HEADER_NAME_SIZE && has_only(text, len, set);
}

/* Takes blanks from both ends. */
static const char *trim(const char *text, size_t *len)
{
    while (*len > 0 && strchr(" \t", text[*len - 1]))
        --*len;
    while (*len > 0 && strchr(" \t", *text)) {
        text++;
        --*len;
    }
    return text;
}

/* A part without a header has the column's name. */
static bool read_part(const char *part, size_t len, struct lane_header *header)
{
    const char *colon = memchr(part, ':', len);
    size_t column_len = colon ? (size_t)(colon - part) : len;
    size_t name_len = colon ? len - column_len - 1 : len;
    const char *column = trim(part, &column_len);
    const char *name = trim(colon ? colon + 1 : part, &name_len);

    if (!is_word(column, column_len, LETTERS "_") || !is_word(name, name_len, LETTERS "._-"))
        return false;
    snprintf(header->column, sizeof(header->column), "%.*s", (int)column_len, column);
    snprintf(header->name, sizeof(header->name), "%.*s", (int)name_len, name);
    return true;
}

/* The relay or the retry queue makes these; see row_record.c and kafka_handler.c. */
static bool is_reserved(const char *name)
{
    static const char *const names[] = {"id", "seq", "lane", "original_timestamp"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return strncmp(name, "ce_", 3) == 0 || strncmp(name, "tallybox-", 9) == 0;
}

bool lane_header_next(const char **rest, struct lane_header *header)
{
    size_t len;
    const char *part = list_next(rest, ',', &len);

    return part && read_part(part, len, header);
}

static bool is_there(const char *list, const char *until, const char *name)
{
    struct lane_header header;

    while (list < until && lane_header_next(&list, &header))
        if (strcmp(header.name, name) == 0)
            return true;
    return false;
}

static enum rc check_headers(const char *list, struct err *err)
{
    const char *rest = list;
    size_t count = 0;
    size_t len;

    for (const char *part; (part = list_next(&rest, ',', &len));) {
        struct lane_header header;

        if (!read_part(part, len, &header))
            return err_fail(err, RC_FATAL, 0,
                            "\"%.*s\" is not a column and its header; expected "
                            "column,column:header with letters, digits and _ (in a header also . "
                            "and -), %d at most",
                            len > SHOWN_MAX ? SHOWN_MAX : (int)len, part,
                            LANE_HEADER_NAME_SIZE - 1);
        if (is_reserved(header.name))
            return err_fail(err, RC_FATAL, 0,
                            "the header \"%s\" is one of the relay's own (id, seq, lane, "
                            "original_timestamp, ce_..., tallybox-...): give another name, as "
                            "%s:NAME",
                            header.name, header.column);
        if (is_there(list, part, header.name))
            return err_fail(err, RC_FATAL, 0, "the header \"%s\" is there twice", header.name);
        if (++count > LANE_HEADERS_MAX)
            return err_fail(err, RC_FATAL, 0, "has more than %d columns", LANE_HEADERS_MAX);
    }
    return RC_OK;
}

/* A regular expression as regcomp() makes it: {3} and + copy what they repeat. */
struct expansion {
    size_t sizes[SETTING_TEXT_SIZE]; /* of the open groups, in parts of one character */
    size_t depth;
    size_t last; /* of the part that a repetition would repeat */
};

static void add_part(struct expansion *expansion, size_t size)
{
    expansion->last = size;
    expansion->sizes[expansion->depth] += size;
}

/* at is behind "[". Returns the first byte behind "]". */
static const char *skip_set(const char *at)
{
    at += *at == '^';
    at += *at == ']';
    while (*at && *at != ']') {
        char kind = *at == '[' ? at[1] : '\0';
        char end[3] = {kind, ']', '\0'};
        const char *stop = kind && strchr(":.=", kind) ? strstr(at + 2, end) : NULL;

        at = stop ? stop + 2 : at + 1;
    }
    return at + (*at == ']');
}

/* Reads the digits; a number that is too great is only kept great. */
static size_t read_bound(const char **at)
{
    size_t number = 0;

    for (; **at >= '0' && **at <= '9'; (*at)++)
        if (number <= REGEX_PARTS_MAX)
            number = number * 10 + (size_t)(**at - '0');
    return number;
}

/* at is behind "{". */
static size_t read_bounds(const char **at)
{
    size_t count = read_bound(at);

    if (**at == ',') {
        size_t most;

        (*at)++;
        most = read_bound(at);
        count = most > count ? most : count + 1;
    }
    *at += **at == '}';
    return count;
}

static void repeat_part(struct expansion *expansion, size_t count)
{
    size_t size = expansion->last * count;

    if (count < 2)
        return;
    expansion->sizes[expansion->depth] -= expansion->last;
    add_part(expansion, size);
}

static void take_regex_char(struct expansion *expansion, const char **at)
{
    char c = *(*at)++;

    if (c == '\\' && **at)
        (*at)++;
    if (c == '[')
        *at = skip_set(*at);
    if (c == '{') {
        repeat_part(expansion, read_bounds(at));
    } else if (c == '+') {
        repeat_part(expansion, 2);
    } else if (c == '(') {
        expansion->sizes[++expansion->depth] = 0;
    } else if (c == ')' && expansion->depth > 0) {
        size_t size = expansion->sizes[expansion->depth--] + 1;

        add_part(expansion, size);
    } else if (c != '*' && c != '?') {
        add_part(expansion, 1);
    }
}

/* Tried: regcomp() takes 1 GB of memory in a second for ((((.{255}){255}){255}){255}). */
static bool has_few_parts(const char *regex)
{
    struct expansion expansion = {.depth = 0};

    for (const char *at = regex; *at;) {
        take_regex_char(&expansion, &at);
        if (expansion.sizes[expansion.depth] > REGEX_PARTS_MAX)
            return false;
    }
    return true;
}

enum rc lane_regex_check(const char *regex, struct err *err)
{
    regex_t compiled;
    char reason[REASON_SIZE];
    int code;

    if (strlen(regex) >= SETTING_TEXT_SIZE)
        return err_fail(err, RC_FATAL, 0,
                        "a regular expression of %zu bytes is too long; expected %d at most",
                        strlen(regex), SETTING_TEXT_SIZE - 1);
    if (!has_few_parts(regex))
        return err_fail(err, RC_FATAL, 0,
                        "\"%.60s\" takes too much memory: its repetitions, as {255} and +, make "
                        "more than %d parts of it",
                        regex, REGEX_PARTS_MAX);
    code = regcomp(&compiled, regex, REG_EXTENDED);
    if (code == 0) {
        regfree(&compiled);
        return RC_OK;
    }
    regerror(code, &compiled, reason, sizeof(reason));
    return err_fail(err, RC_FATAL, 0, "\"%.60s\" is not a POSIX extended regular expression: %s",
                    regex, reason);
}

static enum rc check_topic(const char *topic, struct err *err)
{
    for (const char *at = topic; *at; at++) {
        if (*at == '$' && at[1] >= '0' && at[1] <= '9')
            at++;
        else if (*at == '$' && strncmp(at + 1, LANE_ROUTED_VALUE, strlen(LANE_ROUTED_VALUE)) == 0)
            at += strlen(LANE_ROUTED_VALUE);
        else if (!has_only(at, 1, LETTERS "._-"))
            return err_fail(err, RC_FATAL, 0,
                            "\"%.60s\" is not a topic at \"%.20s\"; expected letters, digits and "
                            "._-, $" LANE_ROUTED_VALUE ", and $0 to $9",
                            topic, at);
    }
    return RC_OK;
}

enum rc lane_text_check(const char *key, const char *text, struct err *err)
{
    static const struct {
        const char *key;
        enum rc (*check)(const char *, struct err *);
    } checks[] = {{"header_columns", check_headers},
                  {"topic", check_topic},
                  {"topic_regex", lane_regex_check}};

    for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]); i++)
        if (strcmp(checks[i].key, key) == 0)
            return checks[i].check(text, err);
    return err_fail(err, RC_FATAL, 0, "has no kind");
}

size_t lane_topic_group_max(const char *topic)
{
    size_t group_max = 0;

    for (const char *at = strchr(topic, '$'); at; at = strchr(at + 1, '$'))
        if (at[1] >= '0' && at[1] <= '9' && (size_t)(at[1] - '0') > group_max)
            group_max = (size_t)(at[1] - '0');
    return group_max;
}

bool settings_lane_column(const struct lane_settings *lane, const char *field,
                          char column[SETTING_NAME_SIZE])
{
    const char *map = lane->columns;
    size_t field_len = strlen(field);
    size_t len;

    for (const char *pair; (pair = list_next(&map, ',', &len));) {
        if (len <= field_len || pair[field_len] != '=' || memcmp(pair, field, field_len) != 0)
            continue;
        snprintf(column, SETTING_NAME_SIZE, "%.*s", (int)(len - field_len - 1),
                 pair + field_len + 1);
        return true;
    }
    snprintf(column, SETTING_NAME_SIZE, "%s", field);
    return false;
}

/* Rows of such a lane are the same from its table and from the log. */
static bool has_plain_rows(const struct lane_settings *lane)
{
    return !lane->columns[0] && !lane->header_columns[0] &&
           strcmp(lane->empty_payload, LANE_EMPTY_VALUE) == 0;
}

bool lane_may_leave_log(const struct lane_settings *lane)
{
    return strcmp(lane->source, LANE_SOURCE_BINLOG) == 0 && strcmp(lane->from_table, "yes") == 0 &&
           strcmp(lane->exactly_once, "yes") != 0 && lane->keep_ms >= 0 && has_plain_rows(lane);
}

void lane_put_uses(char text[LANE_USES_SIZE], const struct lane_settings *lane, bool ordered)
{
    const char *rows = "stay in the table, because keep_ids_max is 0";

    if (lane->keep_ms < 0)
        rows = "stay in the table, because keep_ms is -1";
    else if (ordered)
        rows = "are deleted after keep_ms";
    else if (lane->keep_ids_max > 0)
        rows = "are deleted after keep_ms, and earlier above keep_ids_max";
    snprintf(text, LANE_USES_SIZE,
             "published rows %s; when the server has purged its log, the lane %s; `tallybox relay "
             "replay` reads the %s",
             rows, ordered && lane_may_leave_log(lane) ? "goes on from the table" : "stops",
             ordered && lane->keep_ms >= 0 && has_plain_rows(lane) ? "table" : "log");
}
