/* SPDX-License-Identifier: MIT */
/* Replays and drops dead records. Decides which may be applied now and in which order, and is a
 * step: one page, one transaction.
 *
 * A replay applies the records itself, in the sink's database, with the code and the rules that
 * apply them when Kafka hands them out. Nothing goes to the topic a second time, so its other
 * readers are not bothered, and there is no moment in which a record is neither dead nor applied:
 * the vote, the total and the record's move to dead_history are one COMMIT. Whoever is killed
 * anywhere leaves all of a page done or none of it; whoever comes second (an operator, a retry)
 * waits for the record's lock and then finds it gone, or its event in the log.
 *
 * Order: by topic, partition and offset. A record that stays dead holds back the later ones of its
 * key, and so does an older one of that key which was not selected. A replay of what is held
 * (filter.held; see held.h) looks at nothing else, and only what is refused holds back the rest.
 *
 * A late vote counts like any other: it is the newest row of its content. Every event is a change
 * of one voter's mind, so the total is their sum, whatever the order they are applied in; between
 * the death of a vote and its replay the total lacks it, and may even be below 0. Who asks for a
 * voter's last vote asks by gmt_create, which is the event's own time. Where events need not be
 * changes (consumer.votes_from = anyone) a late vote that is older than its voter's newest is
 * stale, as the consumer would.
 *
 * One thread at a time. */
#ifndef CONSUMER_DEAD_DEAD_H
#define CONSUMER_DEAD_DEAD_H

#include "common/buf.h"
#include "common/err.h"
#include "consumer/apply/sink_ops.h"
#include "consumer/ingest/record.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct apply;

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
enum dead_decision { DEAD_APPLIED, DEAD_DUPLICATE, DEAD_STALE, DEAD_DROPPED };

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

/* What the engine needs of a database beside a sink (sink_ops.h). Where a call belongs to a
 * transaction it is the sink's, and RC_RETRY and RC_FATAL end it. */
struct dead_store {
    void *ctx;

    /* Locks the next records behind `after`, in the order of topic, partition and offset, at most
     * rows_max, and calls on_item for each. Those that the filter does not select are among them
     * when `others` is set, at least where they stand before a selected one with their key. In a
     * transaction. */
    enum rc (*lock_page)(void *ctx, const struct dead_filter *filter,
                         const struct dead_cursor *after, size_t rows_max, bool others,
                         enum rc (*on_item)(void *item_ctx, const struct dead_item *item,
                                            struct err *err),
                         void *item_ctx, struct err *err);

    /* Writes why a record is dead now. In a transaction. */
    enum rc (*write_reason)(void *ctx, int64_t id, const char *reason_class, const char *reason,
                            size_t reason_len, struct err *err);

    /* Moves the records into dead_history. value, if not NULL, is what was applied instead of the
     * payload. In a transaction. */
    enum rc (*decide)(void *ctx, const int64_t *ids, size_t count, enum dead_decision decision,
                      const void *value, size_t value_len, struct err *err);

    /* How many of the ids are dead. Outside of a transaction. */
    enum rc (*count_ids)(void *ctx, const int64_t *ids, size_t count, size_t *left,
                         struct err *err);
};

/* The keys that must wait in a replay because a record of theirs stays dead. A key is known by 64
 * bits of it: two that meet there wait for each other, which costs a second replay and breaks
 * nothing. */
struct dead_keys {
    struct dead_wait *slots; /* open addressing */
    size_t size;             /* a power of two, or 0 */
    size_t count;
};

/* A key, and the first record that stays in front of its others. */
struct dead_wait {
    uint64_t key; /* 0: a free slot */
    int64_t id;
};

/* A zeroed dead_keys is empty. */
void dead_keys_done(struct dead_keys *keys);

/* The 64 bits of an item's key, which belong to its topic and partition; 0: it has no key, and thus
 * no order. */
uint64_t dead_key_of(const struct dead_item *item);

/* The record that the key waits for, or 0. */
int64_t dead_keys_find(const struct dead_keys *keys, uint64_t key);

/* Notes the key; of several records the first counts. RC_FATAL: no memory. */
enum rc dead_keys_add(struct dead_keys *keys, uint64_t key, int64_t id, struct err *err);

enum dead_outcome {
    DEAD_IS_APPLIED,
    DEAD_IS_DUPLICATE, /* its event was in the log before */
    DEAD_IS_STALE,     /* it repeats its voter's last vote or is older; see apply_keep_lasts() */
    DEAD_IS_DROPPED,
    DEAD_STAYS, /* it cannot be applied: see the reason */
    DEAD_WAITS, /* an older record of its key stays dead: see behind */
};

/* What became of one selected record. */
struct dead_result {
    enum dead_outcome outcome;
    int64_t id;
    struct dead_cursor place;
    const char *reason_class; /* of DEAD_STAYS; "refused": the database does not take it */
    const char *reason;
    int64_t behind; /* of DEAD_WAITS: the id of the older record */
};

/* Called once for each selected record, after its COMMIT; result is borrowed for the call. */
typedef void (*dead_on_result)(void *ctx, const struct dead_result *result);

struct dead_config {
    const struct sink *sink;
    const struct dead_store *store;
    const struct dead_filter *filter; /* with `held` it names a topic and a partition */
    bool drop;                        /* not replay */
    enum record_rule rule;
    bool keep_lasts;   /* replay: skip stale votes */
    const void *value; /* replay: bytes instead of the payload, for a filter of one id; or NULL */
    size_t value_len;
    uint64_t records_max; /* 0: all that the filter selects */
    dead_on_result on_result;
    void *ctx;
};

/* A record of the page in hand. */
struct dead_entry {
    struct dead_result result;
    bool selected;
    uint64_t key;
    size_t vote; /* of DEAD_IS_APPLIED: its place in votes */
    bool news;   /* of DEAD_STAYS: the reason is not the one it has */
    size_t class_at;
    size_t reason_at; /* in bytes, ended by a zero byte, as the class */
};

struct dead {
    struct dead_config config;
    struct apply *apply;
    struct dead_keys keys; /* that wait, of the pages before */
    struct dead_cursor cursor;
    struct dead_entry *entries; /* DEAD_PAGE_ROWS of them, as the others */
    struct vote_row *votes;
    int64_t *ids;
    int64_t begin_day; /* of the log, while a page is in hand */
    size_t entry_count;
    size_t vote_count;
    size_t value_bytes;  /* of the page's records */
    struct buf bytes;    /* reasons */
    bool full;           /* the rest of what was read is for the next page */
    bool commit_unknown; /* the page's COMMIT may have worked */
    size_t singly;       /* so many pages take one record: the database refused one of them */
    int64_t refused_id;  /* this one; 0: none */
    struct err refused;
    uint64_t handled; /* selected records of the pages before */
};

/* The config's pointers are borrowed for the life of dead. RC_FATAL: no memory. */
enum rc dead_init(struct dead *dead, const struct dead_config *config, struct err *err);
void dead_done(struct dead *dead);

/* One page. *more is false when nothing is left to do. RC_RETRY: nothing of the page was done, or
 * nobody knows; call again. RC_REJECT: the database refuses to write what became of it. */
enum rc dead_step(struct dead *dead, bool *more, struct err *err);

#endif
