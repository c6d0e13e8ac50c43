/* SPDX-License-Identifier: MIT */
#include "outbox/relay/exact/position_record.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VERSION 1
#define NUMBER_SIZE 24

void position_record_key(char key[POSITION_KEY_SIZE], const struct lane_settings *lane,
                         const struct settings *settings)
{
    if (lane->transactional_id[0])
        snprintf(key, POSITION_KEY_SIZE, "%s", lane->transactional_id);
    else
        snprintf(key, POSITION_KEY_SIZE, "tallybox-relay-%s-%s", settings->mysql.database,
                 lane->table);
}

void position_record_done(struct position_record *record)
{
    buf_done(&record->position.before);
    buf_done(&record->seqs);
    memset(record, 0, sizeof(*record));
}

void position_record_reset(struct position_record *record)
{
    const struct buf before = record->position.before;
    const struct buf seqs = record->seqs;

    memset(record, 0, sizeof(*record));
    record->position.before = before;
    record->seqs = seqs;
    buf_reset(&record->position.before);
    buf_reset(&record->seqs);
}

bool position_record_copy(struct position_record *to, const struct position_record *from)
{
    bool copied = stream_position_copy(&to->position, &from->position);

    to->epoch = from->epoch;
    to->number = from->number;
    to->first = from->first;
    to->row = from->row;
    memcpy(to->terms, from->terms, sizeof(to->terms));
    to->term_count = from->term_count;
    to->maker = from->maker;
    to->rows = from->rows;
    to->emptied = from->emptied;
    to->begun = from->begun;
    to->saved = from->saved;
    to->saved_by_gtid = from->saved_by_gtid;
    buf_reset(&to->seqs);
    buf_put(&to->seqs, from->seqs.data, from->seqs.len);
    return copied && !to->seqs.failed && !from->seqs.failed;
}

bool position_record_is_same(const struct position_record *a, const struct position_record *b)
{
    return a->epoch == b->epoch && a->number == b->number && a->maker == b->maker;
}

void position_record_end_term(struct position_record *record)
{
    const struct position_term term = {record->epoch, record->first, record->row};

    if (record->term_count == POSITION_TERMS_MAX) {
        memmove(record->terms, record->terms + 1,
                (POSITION_TERMS_MAX - 1) * sizeof(record->terms[0]));
        record->term_count--;
    }
    record->terms[record->term_count++] = term;
}

/* A row keeps its number in a term, also when it is read again. */
enum position_cover position_record_cover(const struct position_record *last, int64_t epoch,
                                          uint64_t term, uint64_t row)
{
    if (last->epoch < epoch || (last->epoch == epoch && last->first < term))
        return POSITION_BEFORE;
    if (last->epoch == epoch && last->first == term)
        return row <= last->row ? POSITION_PASSED : POSITION_BEFORE;
    for (size_t i = last->term_count; i-- > 0;)
        if (last->terms[i].epoch == epoch && last->terms[i].first == term)
            return row <= last->terms[i].last ? POSITION_PASSED : POSITION_RETURNS;
    return POSITION_UNKNOWN;
}

/* The text of @@gtid_executed has line ends, which mean nothing. */
static void put_line(struct buf *text, const char *name, const char *value, size_t len)
{
    buf_text_put(text, name);
    buf_char(text, '=');
    for (size_t i = 0; i < len; i++)
        if (value[i] != '\n')
            buf_char(text, value[i]);
    buf_char(text, '\n');
}

static void put_text(struct buf *text, const char *name, const char *value)
{
    put_line(text, name, value, strlen(value));
}

void position_record_put(struct buf *text, const struct position_record *record)
{
    const struct stream_position *position = &record->position;

    buf_print(text,
              "version=%d\nepoch=%" PRId64 "\nnumber=%" PRIu64 "\nmaker=%" PRIu64 "\nby_gtid=%d\n",
              VERSION, record->epoch, record->number, record->maker, position->by_gtid ? 1 : 0);
    put_line(text, "gtids", position->before.data, position->before.len);
    put_text(text, "file", position->file);
    buf_print(text, "offset=%" PRIu64 "\n", position->offset);
    put_text(text, "gtid", position->gtid);
    buf_print(text, "rows_done=%" PRIu64 "\ntime=%" PRId64 "\n", position->rows_done,
              position->time_s);
    put_text(text, "server", position->server);
    buf_print(text, "begun=%d\nsaved=%" PRIu64 "\nsaved_by_gtid=%d\n", record->begun ? 1 : 0,
              record->saved, record->saved_by_gtid ? 1 : 0);
    buf_print(text, "first=%" PRIu64 "\nrow=%" PRIu64 "\nterms=", record->first, record->row);
    for (size_t i = 0; i < record->term_count; i++)
        buf_print(text, "%s%" PRId64 ":%" PRIu64 ":%" PRIu64, i > 0 ? "," : "",
                  record->terms[i].epoch, record->terms[i].first, record->terms[i].last);
    buf_print(text, "\nemptied=%d\nrows=%" PRIu64 "\nseqs=", record->emptied ? 1 : 0, record->rows);
    buf_hex(text, record->seqs.data, record->seqs.len);
    buf_char(text, '\n');
    if (position->before.failed || record->seqs.failed)
        text->failed = true;
}

static bool read_number(struct bytes value, uint64_t *number)
{
    char text[NUMBER_SIZE];
    char *end;

    if (value.len == 0 || value.len >= sizeof(text) || value.data[0] < '0' || value.data[0] > '9')
        return false;
    memcpy(text, value.data, value.len);
    text[value.len] = '\0';
    errno = 0;
    *number = strtoull(text, &end, 10);
    return errno == 0 && *end == '\0';
}

static bool read_signed(struct bytes value, int64_t *number)
{
    uint64_t all = 0;

    if (!read_number(value, &all) || all > INT64_MAX)
        return false;
    *number = (int64_t)all;
    return true;
}

static bool read_flag(struct bytes value, bool *flag)
{
    uint64_t number = 0;

    if (!read_number(value, &number) || number > 1)
        return false;
    *flag = number == 1;
    return true;
}

static bool read_text(struct bytes value, char *text, size_t size)
{
    if (value.len >= size || memchr(value.data, '\0', value.len))
        return false;
    memcpy(text, value.data, value.len);
    text[value.len] = '\0';
    return true;
}

static int digit_of(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool read_hex(struct bytes value, struct buf *bytes)
{
    if (value.len % 2 != 0)
        return false;
    for (size_t i = 0; i < value.len; i += 2) {
        int high = digit_of(value.data[i]);
        int low = digit_of(value.data[i + 1]);

        if (high < 0 || low < 0)
            return false;
        buf_char(bytes, (char)(unsigned char)(high * 16 + low));
    }
    return true;
}

/* Takes the text before the next separator. */
static struct bytes take_part(struct bytes *text, char separator)
{
    const char *end = text->len > 0 ? memchr(text->data, separator, text->len) : NULL;
    const struct bytes part = {text->data, end ? (size_t)(end - text->data) : text->len};
    const size_t taken = end ? part.len + 1 : part.len;

    text->data += taken;
    text->len -= taken;
    return part;
}

/* EPOCH:FIRST:LAST, with commas between them. */
static bool read_terms(struct bytes value, struct position_record *record)
{
    while (value.len > 0) {
        struct bytes text = take_part(&value, ',');
        struct position_term *term = &record->terms[record->term_count];

        if (record->term_count == POSITION_TERMS_MAX ||
            !read_signed(take_part(&text, ':'), &term->epoch) ||
            !read_number(take_part(&text, ':'), &term->first) || !read_number(text, &term->last))
            return false;
        record->term_count++;
    }
    return true;
}

static bool name_is(struct bytes name, const char *text)
{
    return name.len == strlen(text) && memcmp(name.data, text, name.len) == 0;
}

/* What a record must have. */
struct found {
    uint64_t version;
    bool epoch;
    bool number;
    bool place;
};

static bool read_position_field(struct stream_position *position, struct bytes name,
                                struct bytes value, struct found *found)
{
    if (name_is(name, "by_gtid"))
        return found->place = read_flag(value, &position->by_gtid);
    if (name_is(name, "gtids")) {
        buf_put(&position->before, value.data, value.len);
        return !position->before.failed;
    }
    if (name_is(name, "file"))
        return read_text(value, position->file, sizeof(position->file));
    if (name_is(name, "offset"))
        return read_number(value, &position->offset);
    if (name_is(name, "gtid"))
        return read_text(value, position->gtid, sizeof(position->gtid));
    if (name_is(name, "rows_done"))
        return read_number(value, &position->rows_done);
    if (name_is(name, "time"))
        return read_signed(value, &position->time_s);
    if (name_is(name, "server"))
        return read_text(value, position->server, sizeof(position->server));
    return true;
}

static bool read_field(struct position_record *record, struct bytes name, struct bytes value,
                       struct found *found)
{
    if (name_is(name, "version"))
        return read_number(value, &found->version);
    if (name_is(name, "epoch"))
        return found->epoch = read_signed(value, &record->epoch);
    if (name_is(name, "number"))
        return found->number = read_number(value, &record->number);
    if (name_is(name, "first"))
        return read_number(value, &record->first);
    if (name_is(name, "row"))
        return read_number(value, &record->row);
    if (name_is(name, "terms"))
        return read_terms(value, record);
    if (name_is(name, "maker"))
        return read_number(value, &record->maker);
    if (name_is(name, "emptied"))
        return read_flag(value, &record->emptied);
    if (name_is(name, "begun"))
        return read_flag(value, &record->begun);
    if (name_is(name, "saved"))
        return read_number(value, &record->saved);
    if (name_is(name, "saved_by_gtid"))
        return read_flag(value, &record->saved_by_gtid);
    if (name_is(name, "rows"))
        return read_number(value, &record->rows);
    if (name_is(name, "seqs"))
        return read_hex(value, &record->seqs) && !record->seqs.failed;
    return read_position_field(&record->position, name, value, found);
}

enum rc position_record_read(struct position_record *record, struct bytes text, struct err *err)
{
    const char *at = text.data;
    const char *end = text.data + text.len;
    struct found found = {0};

    while (at < end) {
        const char *line_end = memchr(at, '\n', (size_t)(end - at));
        const char *equals = line_end ? memchr(at, '=', (size_t)(line_end - at)) : NULL;

        if (!equals)
            return err_fail(err, RC_FATAL, 0, "byte %zu begins no line `name=value`",
                            (size_t)(at - text.data));
        if (!read_field(record, (struct bytes){at, (size_t)(equals - at)},
                        (struct bytes){equals + 1, (size_t)(line_end - equals - 1)}, &found))
            return err_fail(err, RC_FATAL, 0, "%.*s has no valid value", (int)(equals - at), at);
        at = line_end + 1;
    }
    if (found.version != VERSION)
        return err_fail(err, RC_FATAL, 0, "version %" PRIu64 " is not %d", found.version, VERSION);
    if (!found.epoch || !found.number || !found.place)
        return err_fail(err, RC_FATAL, 0, "epoch, number or by_gtid is missing");
    return RC_OK;
}
