/* SPDX-License-Identifier: MIT */
#include "producer/vote/vote_csv.h"

#include "common/id.h"
#include "common/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define SHOWN_BYTES 40 /* of a bad value in a reason */

static const char *const names[] = {
    [VOTE_CSV_VOTER] = "voter_id",
    [VOTE_CSV_CONTENT] = "content_id",
    [VOTE_CSV_VOTING] = "voting",
};

struct field {
    char *text;
    size_t len;
};

void vote_csv_init(struct vote_csv *csv)
{
    memset(csv, 0, sizeof(*csv));
}

__attribute__((format(printf, 3, 4))) static enum vote_csv_found fail_line(
    struct vote_csv *csv, enum vote_csv_found found, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(csv->reason, sizeof(csv->reason), format, args);
    va_end(args);
    /* The reason quotes the input and goes to a terminal or a log. */
    utf8_clean(csv->reason);
    return found;
}

static struct field trim_field(char *text, size_t len)
{
    while (len > 0 && (text[len - 1] == ' ' || text[len - 1] == '\t'))
        len--;
    while (len > 0 && (*text == ' ' || *text == '\t')) {
        text++;
        len--;
    }
    return (struct field){text, len};
}

/* Reads a quoted value, in which "" is one quote, and unquotes it in place. *at becomes the
 * position of the comma or the end after it. */
static bool split_quoted(struct vote_csv *csv, size_t *at, struct field *field)
{
    char *out = csv->text + *at;
    bool closed = false;

    *field = (struct field){out, 0};
    for (++*at; *at < csv->len && !closed; ++*at) {
        if (csv->text[*at] != '"') {
            out[field->len++] = csv->text[*at];
        } else if (*at + 1 < csv->len && csv->text[*at + 1] == '"') {
            out[field->len++] = '"';
            ++*at;
        } else {
            closed = true;
        }
    }
    while (*at < csv->len && (csv->text[*at] == ' ' || csv->text[*at] == '\t'))
        ++*at;
    return closed && (*at == csv->len || csv->text[*at] == ',');
}

/* The number of fields of the line; VOTE_CSV_COLUMNS_MAX + 1 if it has too many, 0 if its quotes
 * are wrong. */
static size_t split_fields(struct vote_csv *csv, struct field fields[VOTE_CSV_COLUMNS_MAX + 1])
{
    size_t count = 0;
    size_t at = 0;

    for (;;) {
        size_t begin;

        while (at < csv->len && (csv->text[at] == ' ' || csv->text[at] == '\t'))
            at++;
        begin = at;
        if (at < csv->len && csv->text[at] == '"') {
            if (!split_quoted(csv, &at, &fields[count]))
                return 0;
        } else {
            while (at < csv->len && csv->text[at] != ',')
                at++;
            fields[count] = trim_field(csv->text + begin, at - begin);
        }
        if (++count > VOTE_CSV_COLUMNS_MAX || at == csv->len)
            return count;
        at++;
    }
}

static int limit_shown(const struct field *field)
{
    return (int)(field->len < SHOWN_BYTES ? field->len : SHOWN_BYTES);
}

static bool has_column(const struct vote_csv *csv, enum vote_csv_column column)
{
    for (size_t i = 0; i < csv->column_count; i++)
        if (csv->columns[i] == column)
            return true;
    return false;
}

static bool add_column(struct vote_csv *csv, const struct field *field)
{
    for (size_t i = 0; i < VOTE_CSV_COLUMNS_MAX; i++) {
        enum vote_csv_column column = (enum vote_csv_column)i;

        if (strlen(names[i]) != field->len || memcmp(names[i], field->text, field->len) != 0)
            continue;
        if (has_column(csv, column))
            return false;
        csv->columns[csv->column_count++] = column;
        return true;
    }
    return false;
}

/* Skips U+FEFF, which spreadsheets write before UTF-8. */
static void skip_mark(struct vote_csv *csv)
{
    if (csv->len < 3 || memcmp(csv->text, "\xef\xbb\xbf", 3) != 0)
        return;
    csv->len -= 3;
    memmove(csv->text, csv->text + 3, csv->len);
}

static enum vote_csv_found read_header(struct vote_csv *csv)
{
    struct field fields[VOTE_CSV_COLUMNS_MAX + 1];
    size_t count;
    bool good;

    skip_mark(csv);
    count = split_fields(csv, fields);
    good = !csv->long_line && count > 0 && count <= VOTE_CSV_COLUMNS_MAX;
    for (size_t i = 0; good && i < count; i++)
        good = add_column(csv, &fields[i]);
    if (good && has_column(csv, VOTE_CSV_VOTER) && has_column(csv, VOTE_CSV_CONTENT))
        return VOTE_CSV_MORE;
    return fail_line(
        csv, VOTE_CSV_NO_HEADER,
        "the first line must name the columns voter_id, content_id and optionally voting; "
        "it is \"%.*s\"",
        (int)(csv->len < SHOWN_BYTES ? csv->len : SHOWN_BYTES), csv->text);
}

static bool read_value(enum vote_csv_column column, const struct field *field, int64_t *value)
{
    if (column != VOTE_CSV_VOTING)
        return id_parse_number(field->text, field->len, value);
    if (field->len != 1 || (*field->text != '0' && *field->text != '1'))
        return false;
    *value = *field->text - '0';
    return true;
}

static enum vote_csv_found read_vote(struct vote_csv *csv, struct vote_csv_vote *vote)
{
    struct field fields[VOTE_CSV_COLUMNS_MAX + 1];
    int64_t values[VOTE_CSV_COLUMNS_MAX] = {[VOTE_CSV_VOTING] = 1};
    size_t count = split_fields(csv, fields);

    if (count == 0)
        return fail_line(csv, VOTE_CSV_BAD,
                         "a quoted value has no closing quote before the end or the comma");
    if (count != csv->column_count)
        return fail_line(csv, VOTE_CSV_BAD, "expected %zu columns, found %zu%s", csv->column_count,
                         count, count > VOTE_CSV_COLUMNS_MAX ? " or more" : "");
    for (size_t i = 0; i < count; i++) {
        enum vote_csv_column column = csv->columns[i];

        if (read_value(column, &fields[i], &values[column]))
            continue;
        return fail_line(csv, VOTE_CSV_BAD, "%s must be %s, not \"%.*s\"", names[column],
                         column == VOTE_CSV_VOTING ? "0 or 1" : "a number, " ID_NUMBER_RANGE,
                         limit_shown(&fields[i]), fields[i].text);
    }
    *vote = (struct vote_csv_vote){
        .voter_id = values[VOTE_CSV_VOTER],
        .content_id = values[VOTE_CSV_CONTENT],
        .voting = (uint8_t)values[VOTE_CSV_VOTING],
    };
    return VOTE_CSV_VOTE;
}

/* Reads the line in csv->text, which is complete and has no end of line. */
static enum vote_csv_found read_line(struct vote_csv *csv, struct vote_csv_vote *vote)
{
    csv->line++;
    if (csv->len > 0 && csv->text[csv->len - 1] == '\r')
        csv->len--;
    if (csv->column_count == 0)
        return read_header(csv);
    if (csv->long_line)
        return fail_line(csv, VOTE_CSV_BAD, "longer than %d bytes", VOTE_CSV_LINE_BYTES_MAX);
    if (trim_field(csv->text, csv->len).len == 0)
        return VOTE_CSV_MORE;
    return read_vote(csv, vote);
}

/* Only the beginning of a long line is kept. */
static void add_to_line(struct vote_csv *csv, const char *bytes, size_t len)
{
    size_t room = VOTE_CSV_LINE_BYTES_MAX - csv->len;

    csv->long_line |= len > room;
    len = len < room ? len : room;
    memcpy(csv->text + csv->len, bytes, len);
    csv->len += len;
}

static void reset_line(struct vote_csv *csv)
{
    csv->len = 0;
    csv->long_line = false;
}

enum vote_csv_found vote_csv_feed(struct vote_csv *csv, const char *bytes, size_t len, size_t *used,
                                  struct vote_csv_vote *vote)
{
    size_t at = 0;

    while (at < len) {
        const char *end = memchr(bytes + at, '\n', len - at);
        size_t more = end ? (size_t)(end - (bytes + at)) : len - at;
        enum vote_csv_found found;

        add_to_line(csv, bytes + at, more);
        at += more;
        if (!end)
            break;
        at++;
        found = read_line(csv, vote);
        reset_line(csv);
        if (found == VOTE_CSV_MORE)
            continue;
        *used = at;
        return found;
    }
    *used = at;
    return VOTE_CSV_MORE;
}

enum vote_csv_found vote_csv_end(struct vote_csv *csv, struct vote_csv_vote *vote)
{
    enum vote_csv_found found = VOTE_CSV_MORE;

    if (csv->len > 0 || csv->long_line || csv->line == 0)
        found = read_line(csv, vote);
    reset_line(csv);
    return found;
}
