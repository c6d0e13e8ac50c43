/* SPDX-License-Identifier: MIT */
#include "outbox/relay/relay_row.h"

#include "common/hash.h"
#include "common/text.h"

#include <assert.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEX "hex:"
#define HASH "hash:"

/* A longer run of blanks at the end of a random UUID is too rare to guess. */
#define BLANKS_MAX 4

static struct bytes copy_bytes(char **place, struct bytes bytes)
{
    char *copy = *place;

    if (!bytes.data)
        return bytes;
    memcpy(copy, bytes.data, bytes.len);
    *place += bytes.len;
    /* An empty value gets a pointer, too, because NULL means SQL NULL. */
    return (struct bytes){copy, bytes.len};
}

/* Copies row, and its relay_row_bytes() bytes to place. */
static void copy_row(struct relay_row *copy, char *place, const struct relay_row *row)
{
    *copy = *row;
    copy->id = copy_bytes(&place, row->id);
    copy->aggregate_type = copy_bytes(&place, row->aggregate_type);
    copy->aggregate_id = copy_bytes(&place, row->aggregate_id);
    copy->type = copy_bytes(&place, row->type);
    copy->payload = copy_bytes(&place, row->payload);
    copy->headers = copy_bytes(&place, row->headers);
    copy->extras = copy_bytes(&place, row->extras);
}

static int compare_rows(const void *a, const void *b)
{
    const struct relay_row *left = a;
    const struct relay_row *right = b;

    return (left->seq > right->seq) - (left->seq < right->seq);
}

static const char digits[] = "0123456789abcdef";

static bool has_prefix(struct bytes bytes, const char *word)
{
    size_t len = strlen(word);

    return bytes.len >= len && memcmp(bytes.data, word, len) == 0;
}

static bool is_plain_text(struct bytes id)
{
    if (id.len == 0)
        return true;
    return utf8_fits(id.data, id.len) && !memchr(id.data, '\0', id.len) && !has_prefix(id, HEX) &&
           !has_prefix(id, HASH);
}

static uint64_t hash_topic(const char *topic, size_t len)
{
    return len == 0 ? HASH_START : hash_bytes(HASH_START, topic, len);
}

static bool is_printable_ascii(struct bytes bytes)
{
    for (size_t i = 0; i < bytes.len; i++)
        if (bytes.data[i] < ' ' || bytes.data[i] > '~')
            return false;
    return true;
}

/* utf8_prints() accepts the ends of lines and tabs. */
static bool is_printable(struct bytes bytes)
{
    for (size_t i = 0; i < bytes.len; i++)
        if ((unsigned char)bytes.data[i] < ' ')
            return false;
    return bytes.len == 0 || utf8_prints(bytes.data, bytes.len);
}

static enum rc check_text(struct bytes text, const char *column, struct err *err)
{
    return text.len <= ROW_TEXT_BYTES_MAX
               ? RC_OK
               : err_fail(err, RC_REJECT, 0, "%s is longer than %d bytes", column,
                          ROW_TEXT_BYTES_MAX);
}

static enum rc check_id(const struct relay_row *row, struct err *err)
{
    char uuid[ID_TEXT_SIZE];

    /* The usual ids are ASCII; each row passes here. */
    if (is_printable_ascii(row->id) || is_printable(relay_row_id(row, uuid)))
        return RC_OK;
    return err_fail(err, RC_REJECT, 0,
                    "id is neither printable text nor a UUID of 16 bytes; consumers could not "
                    "compare its %zu bytes",
                    row->id.len);
}

static unsigned hex_value(char c)
{
    const char *at = memchr(digits, c, sizeof(digits) - 1);

    return at ? (unsigned)(at - digits) : 0;
}

enum rc relay_batch_init(struct relay_batch *batch, size_t rows_max, size_t arena_size,
                         struct err *err)
{
    memset(batch, 0, sizeof(*batch));
    batch->rows_max = rows_max;
    batch->arena_size = arena_size;
    batch->rows = calloc(rows_max, sizeof(*batch->rows));
    batch->arena = malloc(arena_size);
    if (batch->rows && batch->arena)
        return RC_OK;
    relay_batch_done(batch);
    return err_fail(err, RC_FATAL, 0, "out of memory for a batch of %zu rows, %zu bytes", rows_max,
                    arena_size);
}

void relay_batch_done(struct relay_batch *batch)
{
    free(batch->rows);
    free(batch->arena);
    memset(batch, 0, sizeof(*batch));
}

void relay_batch_reset(struct relay_batch *batch)
{
    batch->count = 0;
    batch->next = 0;
    batch->arena_used = 0;
}

size_t relay_row_bytes(const struct relay_row *row)
{
    return row->id.len + row->aggregate_type.len + row->aggregate_id.len + row->type.len +
           row->payload.len + row->headers.len + row->extras.len;
}

bool relay_batch_add(struct relay_batch *batch, const struct relay_row *row)
{
    size_t bytes = relay_row_bytes(row);

    if (batch->count == batch->rows_max || bytes > batch->arena_size - batch->arena_used)
        return false;
    copy_row(&batch->rows[batch->count++], batch->arena + batch->arena_used, row);
    batch->arena_used += bytes;
    return true;
}

void relay_batch_cut(struct relay_batch *batch, size_t count)
{
    while (batch->count > count)
        batch->arena_used -= relay_row_bytes(&batch->rows[--batch->count]);
}

void relay_batch_sort(struct relay_batch *batch)
{
    /* The rows are in order unless some were read from gaps. */
    for (size_t i = 1; i < batch->count; i++) {
        if (batch->rows[i - 1].seq > batch->rows[i].seq) {
            qsort(batch->rows, batch->count, sizeof(*batch->rows), compare_rows);
            return;
        }
    }
}

struct relay_row *relay_row_copy(const struct relay_row *row)
{
    struct relay_row *copy = malloc(sizeof(*copy) + relay_row_bytes(row));

    if (copy)
        copy_row(copy, (char *)(copy + 1), row);
    return copy;
}

/* Before each header of the extras; the name has a zero byte at its end. */
struct extra {
    uint32_t name_size;
    uint32_t value_len;
};

#define EXTRA_NULL UINT32_MAX

size_t relay_extra_size(const char *name, struct bytes value)
{
    return sizeof(struct extra) + strlen(name) + 1 + value.len;
}

void relay_extra_put(struct buf *extras, const char *name, struct bytes value)
{
    struct extra extra = {(uint32_t)strlen(name) + 1,
                          value.data ? (uint32_t)value.len : EXTRA_NULL};

    assert(value.len < EXTRA_NULL);
    buf_put(extras, &extra, sizeof(extra));
    buf_put(extras, name, extra.name_size);
    if (value.data && value.len > 0)
        buf_put(extras, value.data, value.len);
}

bool relay_extra_next(struct bytes *extras, const char **name, struct bytes *value)
{
    struct extra extra;
    size_t len;

    if (extras->len == 0)
        return false;
    assert(extras->len >= sizeof(extra));
    memcpy(&extra, extras->data, sizeof(extra));
    len = extra.value_len == EXTRA_NULL ? 0 : extra.value_len;
    assert(extras->len - sizeof(extra) >= extra.name_size + len);
    *name = extras->data + sizeof(extra);
    *value = (struct bytes){extra.value_len == EXTRA_NULL ? NULL : *name + extra.name_size, len};
    extras->data = *name + extra.name_size + len;
    extras->len -= sizeof(extra) + extra.name_size + len;
    return true;
}

struct bytes relay_row_id(const struct relay_row *row, char uuid[ID_TEXT_SIZE])
{
    size_t len_min = row->id_padded ? ID_BYTES - BLANKS_MAX : ID_BYTES;
    struct id id;

    if (is_printable_ascii(row->id) || row->id.len > ID_BYTES || row->id.len < len_min)
        return row->id;
    /* The bytes of a UUID without its last blanks are no printable text, but by a chance of one in
     * millions. */
    if (row->id.len < ID_BYTES && is_printable(row->id))
        return row->id;
    memset(id.bytes, ' ', ID_BYTES);
    memcpy(id.bytes, row->id.data, row->id.len);
    id_format(&id, uuid);
    return (struct bytes){uuid, ID_TEXT_SIZE - 1};
}

enum rc relay_check_size(uint64_t bytes, int64_t row_bytes_max, struct err *err)
{
    if (bytes <= (uint64_t)row_bytes_max)
        return RC_OK;
    return err_fail(err, RC_REJECT, 0,
                    "key and value have %" PRIu64 " bytes, relay.row_bytes_max is %" PRId64, bytes,
                    row_bytes_max);
}

enum rc relay_row_check(const struct relay_row *row, int64_t row_bytes_max, struct err *err)
{
    enum rc rc = check_text(row->id, "id", err);

    if (rc == RC_OK)
        rc = check_text(row->aggregate_type, "aggregatetype", err);
    if (rc == RC_OK)
        rc = check_text(row->aggregate_id, "aggregateid", err);
    if (rc == RC_OK)
        rc = check_text(row->type, "type", err);
    if (rc == RC_OK)
        rc = check_id(row, err);
    if (rc == RC_OK && row->headers_size > ROW_HEADERS_BYTES_MAX)
        rc = err_fail(err, RC_REJECT, 0, "headers have %" PRIu64 " bytes, %d at most are allowed",
                      row->headers_size, ROW_HEADERS_BYTES_MAX);
    return rc == RC_OK ? relay_check_size(row->size, row_bytes_max, err) : rc;
}

uint64_t ordering_key_hash_of_row(uint64_t topic_hash, struct bytes aggregate_id)
{
    uint64_t key = hash_bytes(topic_hash, aggregate_id.data, aggregate_id.len);

    return key + (key == 0);
}

void ordering_key_make_text(char key[ORDERING_KEY_SIZE], const char *topic,
                            struct bytes aggregate_id)
{
    size_t len_max = ORDERING_KEY_SIZE - 1;
    size_t used = (size_t)snprintf(key, ORDERING_KEY_SIZE, "%s/", topic);
    bool plain = is_plain_text(aggregate_id);

    if (plain && used + aggregate_id.len <= len_max) {
        if (aggregate_id.len > 0)
            memcpy(key + used, aggregate_id.data, aggregate_id.len);
        key[used + aggregate_id.len] = '\0';
        return;
    }
    if (plain || used + strlen(HEX) + 2 * aggregate_id.len > len_max) {
        snprintf(key + used, ORDERING_KEY_SIZE - used, HASH "%016" PRIx64,
                 ordering_key_hash_of_row(hash_topic(topic, strlen(topic)), aggregate_id));
        return;
    }
    memcpy(key + used, HEX, strlen(HEX));
    used += strlen(HEX);
    for (size_t i = 0; i < aggregate_id.len; i++) {
        unsigned char byte = (unsigned char)aggregate_id.data[i];

        key[used++] = digits[byte >> 4];
        key[used++] = digits[byte & 15];
    }
    key[used] = '\0';
}

uint64_t ordering_key_hash_of_text(const char *key)
{
    size_t len = strcspn(key, "/");
    uint64_t topic = hash_topic(key, len);
    const char *id = key + len + (key[len] == '/');
    struct bytes bytes = {id, strlen(id)};
    char raw[ORDERING_KEY_SIZE];

    if (has_prefix(bytes, HASH)) {
        uint64_t hash = strtoull(id + strlen(HASH), NULL, 16);

        return hash + (hash == 0);
    }
    if (!has_prefix(bytes, HEX))
        return ordering_key_hash_of_row(topic, bytes);
    id += strlen(HEX);
    len = strlen(id) / 2;
    if (len > sizeof(raw))
        len = sizeof(raw);
    for (size_t i = 0; i < len; i++)
        raw[i] = (char)(hex_value(id[2 * i]) << 4 | hex_value(id[2 * i + 1]));
    return ordering_key_hash_of_row(topic, (struct bytes){raw, len});
}

void relay_row_name_key(const struct relay_row *row, char *name, size_t size)
{
    size_t len = row->aggregate_id.len < size ? row->aggregate_id.len : size - 1;

    for (size_t i = 0; i < len; i++) {
        char c = row->aggregate_id.data[i];

        name[i] = c >= ' ' && c < 0x7f ? c : '?';
    }
    name[len] = '\0';
}
