/* SPDX-License-Identifier: MIT */
/* What `tallybox dead` knows of dead records. Pure data. */
#ifndef CONSUMER_DEAD_DEAD_ROW_H
#define CONSUMER_DEAD_DEAD_ROW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DEAD_PAGE_ROWS 250
#define DEAD_PAGE_BYTES ((size_t)16 << 20)

/* Of a key or a payload in a page only so much is read: what is longer is no vote. */
#define DEAD_KEY_BYTES_MAX 1024

#define DEAD_NUMBER_ANY (-1)

/* Which records are meant; all conditions must hold. The pointers are borrowed. */
struct dead_filter {
    const int64_t *ids;
    size_t id_count;          /* 0: any */
    const char *topic;        /* NULL: any, as with the other texts */
    int64_t partition;        /* or DEAD_NUMBER_ANY, as with the times */
    const char *reason_class; /* "decode" */
    const char *key;
    bool held;        /* only those whose cause may pass (held.h) */
    int64_t since_ms; /* they died at or behind it, ms since 1970 */
    int64_t until_ms; /* and before it */
    int64_t id_max;   /* 0: any; those that die later do not belong to it */
};

/* A place in the order of topic, partition and offset; topic "" is before all. */
struct dead_cursor {
    char topic[250];
    int32_t partition;
    int64_t offset;
};

/* A record of a page, as replay and drop need it; pointers belong to the store for the call. */
struct dead_item {
    int64_t id;
    const char *topic;
    int32_t partition;
    int64_t offset;
    bool selected;     /* by the filter; the others are there for their keys */
    const void *key;   /* NULL: none; DEAD_KEY_BYTES_MAX bytes at most */
    size_t key_len;    /* as it is */
    const void *value; /* NULL: none, or not selected; VOTE_EVENT_BYTES_MAX bytes at most */
    size_t value_len;  /* as it is */
    const char *reason_class;
    const char *reason;
};

/* How a record left dead_record. */
enum dead_decision { DEAD_APPLIED, DEAD_DUPLICATE, DEAD_ASIDE, DEAD_DROPPED };

/* A record as list and show print it; pointers belong to the store for the call. */
struct dead_view {
    int64_t id;
    const char *topic;
    int32_t partition;
    int64_t offset;
    const void *key; /* NULL: none */
    size_t key_len;
    const void *value; /* NULL: none, or not asked for */
    size_t value_len;  /* as it is; meaningless when has_value is not set */
    bool has_value;
    const char *headers; /* JSON: [[name, base64 or null], ...]; NULL: not asked for */
    int64_t time_ms;     /* of the record; DEAD_NUMBER_ANY: none */
    const char *reason_class;
    const char *reason;
    int64_t died_ms;
    const char *decision; /* NULL: it is dead */
    int64_t decided_ms;
    const char *decided_by;
    const void *applied_value; /* mended bytes that were applied instead; NULL: none */
    size_t applied_len;
};

#endif
