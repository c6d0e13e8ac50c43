/* SPDX-License-Identifier: MIT */
/* One row of an outbox table, its ordering key in two forms, and a batch that owns the bytes of
 * many rows.
 *
 * The ordering key of a row has two forms: the text of retry_task.ordering_key, and the 64-bit hash
 * that the relay uses for the same key. The text is the topic, a slash, and the aggregateid. An
 * aggregateid that is not UTF-8 text, contains a NUL byte, or starts with "hex:" or "hash:" is
 * written as "hex:" and hexadecimal digits. One that does not fit is written as "hash:" and the
 * hash of the whole key.
 *
 * A batch has a fixed array of rows and one arena; both are allocated once and reused. One thread
 * at a time uses a batch; the functions on keys are pure, any thread. */
#ifndef OUTBOX_RELAY_RELAY_ROW_H
#define OUTBOX_RELAY_RELAY_ROW_H

#include "common/buf.h"
#include "common/err.h"
#include "common/id.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A value of a column. data is NULL for SQL NULL. */
struct bytes {
    const char *data;
    size_t len;
};

#define ORDERING_KEY_SIZE 513

#define ROW_CREATED_UNKNOWN INT64_MIN /* as UTC_UNKNOWN_MS */

/* Bounds of the columns besides the payload. A longer column makes no record. */
#define ROW_TEXT_BYTES_MAX 1024 /* of id, aggregatetype, aggregateid and type */
#define ROW_HEADERS_BYTES_MAX 65535

/* Bound of the bytes of a row that is read, besides its payload: an adapter reads one character of
 * four bytes more than ROW_TEXT_BYTES_MAX characters of each text. */
#define ROW_EXTRA_BYTES_MAX (4 * 4 * (ROW_TEXT_BYTES_MAX + 1) + ROW_HEADERS_BYTES_MAX)

struct relay_row {
    int64_t seq;           /* in its lane: the table's, or the number in a stream */
    int64_t table_seq;     /* of the table's column seq, for the header; 0: there is none */
    int64_t created_ms;    /* since 1970, or ROW_CREATED_UNKNOWN */
    int64_t read_ms;       /* the database's clock when the row was read, since 1970 */
    int64_t epoch;         /* of the lane's lease, read in the same snapshot as the row */
    uint64_t size;         /* bytes of aggregateid and payload: of the record's key and value */
    uint64_t headers_size; /* bytes of headers and extras */
    bool oversize;  /* a column exceeds its bound: it makes no record. From a table payload and
                       headers were not read then; from a stream they are here */
    bool cut;       /* from a stream: it is larger than a batch, so the payload was left out */
    bool id_padded; /* id is a CHAR column, which drops blanks at the end */
    struct bytes id;
    struct bytes aggregate_type;
    struct bytes aggregate_id;
    struct bytes type;
    struct bytes payload;
    struct bytes headers;
    struct bytes extras; /* further columns as headers: see relay_extra_put() */
};

struct stream_position;

struct relay_batch {
    struct relay_row *rows;
    size_t count;
    size_t rows_max;
    char *arena;
    size_t arena_used;
    size_t arena_size;
    int64_t epoch; /* of the lease under which the rows were read */
    uint64_t scan; /* number of the full scan that read the rows; see reader.h */
    size_t next;   /* index of the first row that the sender has not handled */
    /* Of a lane that publishes exactly once, else NULL: the position behind the batch, which the
     * sender may take, and the number of the last row before it. */
    struct stream_position *after;
    int64_t after_row;
    int64_t
        emptied_row; /* of the same: the row behind which the table was emptied last; -1: none */
};

/* Allocates an empty batch for up to rows_max rows and arena_size bytes. The system assigns memory
 * to pages of the arena when they are first written. Returns RC_FATAL when memory is exhausted; the
 * batch is then zeroed. */
enum rc relay_batch_init(struct relay_batch *batch, size_t rows_max, size_t arena_size,
                         struct err *err);

/* Frees the memory. A zeroed batch is allowed. */
void relay_batch_done(struct relay_batch *batch);

/* Empties the batch and keeps its memory. */
void relay_batch_reset(struct relay_batch *batch);

/* Appends a copy of row and of its bytes. Returns false, and leaves the batch unchanged, when the
 * row does not fit. An empty batch accepts any row of up to arena_size bytes. */
bool relay_batch_add(struct relay_batch *batch, const struct relay_row *row);

/* Removes the rows that were added last, so that `count` stay. */
void relay_batch_cut(struct relay_batch *batch, size_t count);

/* Sorts the rows by seq, ascending. */
void relay_batch_sort(struct relay_batch *batch);

/* Returns the number of arena bytes that a copy of row needs. */
size_t relay_row_bytes(const struct relay_row *row);

/* Returns a copy of row in one allocation with its bytes, which the caller frees with free(), or
 * NULL when memory is exhausted. */
struct relay_row *relay_row_copy(const struct relay_row *row);

/* Appends a header to the bytes of the extras of a row: name and value stand in them, so that
 * they are copied with the row and need nothing else. value.data is NULL for SQL NULL. */
void relay_extra_put(struct buf *extras, const char *name, struct bytes value);

/* Returns the number of bytes that relay_extra_put() appends. */
size_t relay_extra_size(const char *name, struct bytes value);

/* Takes the first header of the extras, which relay_extra_put() made; both are borrowed from them.
 * False: there is none left. */
bool relay_extra_next(struct bytes *extras, const char **name, struct bytes *value);

/* Returns the event id as it is published, borrowed from row or written into uuid: an id of 16
 * bytes that is not printable ASCII is a UUID in binary form and becomes its text; any other id
 * stays as it is. With id_padded up to four bytes may be missing at the end: they were blanks,
 * unless the rest is printable text. */
struct bytes relay_row_id(const struct relay_row *row, char uuid[ID_TEXT_SIZE]);

/* Returns RC_OK when the key and the value of a record have together at most row_bytes_max bytes,
 * which is relay.row_bytes_max. The relay and the handler `kafka` both use it, so that no record
 * above the limit is published through the retry queue. RC_REJECT: err has both numbers. */
enum rc relay_check_size(uint64_t bytes, int64_t row_bytes_max, struct err *err);

/* Returns RC_OK when a record can be made of the row's columns. RC_REJECT: err names a column that
 * is too long, an id that is not printable text, or the size. Does not read the headers column. */
enum rc relay_row_check(const struct relay_row *row, int64_t row_bytes_max, struct err *err);

/* Returns the hash of the key, never 0. topic_hash is the FNV-1a hash of the topic's name, or
 * HASH_START when the row has no topic. */
uint64_t ordering_key_hash_of_row(uint64_t topic_hash, struct bytes aggregate_id);

/* Writes the text of the key, terminated by NUL. An empty topic means that the row has none. */
void ordering_key_make_text(char key[ORDERING_KEY_SIZE], const char *topic,
                            struct bytes aggregate_id);

/* Returns ordering_key_hash_of_row() of a key that ordering_key_make_text() wrote. For any other
 * text the result is a hash without meaning, never 0. */
uint64_t ordering_key_hash_of_text(const char *key);

/* Writes the row's aggregateid as printable ASCII for the log, cut off to size bytes with its NUL.
 */
void relay_row_name_key(const struct relay_row *row, char *name, size_t size);

#endif
