/* SPDX-License-Identifier: MIT */
/* Replays and drops dead records. The engine decides which records may be applied now and in which
 * order. A step handles one page in one transaction.
 *
 * A replay applies the records itself, in the sink's database, with the code and the rules of the
 * consumer. It publishes nothing to Kafka, so other readers of the topic see no repeats. The vote,
 * the total and the move of the record to dead_history are one COMMIT, so a record is always either
 * dead or applied. If the process is killed, a page is done completely or not at all. If two
 * processes handle the same record, the second one waits for the lock on it and then finds that the
 * record is gone or that its event is in the log.
 *
 * Order: by topic, partition and offset. A record that stays dead blocks the later records of its
 * key, and so does an older record of that key that was not selected. A replay of held votes
 * (filter.held; see held.h) reads only held records, and only refused ones block their key.
 *
 * A late vote counts like any other: it becomes the newest row of its content. Every event is a
 * change by one voter, so the total is the sum of the events in any order. Between the death of a
 * vote and its replay the total lacks that vote and may even be below 0. A query for a voter's last
 * vote must sort by gmt_create, the time of the event. If events need not be changes
 * (consumer.votes_from = anyone), a late vote that is older than its voter's newest vote is stale,
 * as in the consumer.
 *
 * One thread at a time. */
#ifndef CONSUMER_DEAD_DEAD_H
#define CONSUMER_DEAD_DEAD_H

#include "common/buf.h"
#include "common/err.h"
#include "consumer/apply/sink_ops.h"
#include "consumer/dead/dead_admin.h"
#include "consumer/ingest/record.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct apply;

#define DEAD_PAGE_ROWS 250
#define DEAD_PAGE_BYTES ((size_t)16 << 20)

/* A page reads no more than this of a key. A vote's key is shorter. */
#define DEAD_KEY_BYTES_MAX 1024

/* A record of a page, as replay and drop need it. The pointers belong to the store and are valid
 * during the call. */
struct dead_item {
    int64_t id;
    const char *topic;
    int32_t partition;
    int64_t offset;
    bool selected;     /* by the filter; other records are read for their keys */
    const void *key;   /* NULL: none; DEAD_KEY_BYTES_MAX bytes at most */
    size_t key_len;    /* the full length */
    const void *value; /* NULL: none, or not selected; VOTE_EVENT_BYTES_MAX bytes at most */
    size_t value_len;  /* the full length */
    const char *reason_class;
    const char *reason;
};

/* How a record left dead_record. */
enum dead_decision {
    DEAD_DECISION_APPLIED,
    DEAD_DECISION_DUPLICATE,
    DEAD_DECISION_STALE,
    DEAD_DECISION_DROPPED
};

/* What the engine needs of a database in addition to a sink (sink_ops.h). A call that must be made
 * in a transaction uses the transaction of the sink; RC_RETRY and RC_FATAL end it. */
struct dead_store {
    void *ctx;

    /* Locks the next records after `after`, in the order of topic, partition and offset, at most
     * rows_max, and calls on_item for each. If `others` is set, the records include those that the
     * filter does not select, at least where they precede a selected record with the same key. In a
     * transaction. */
    enum rc (*lock_page)(void *ctx, const struct dead_filter *filter,
                         const struct dead_cursor *after, size_t rows_max, bool others,
                         enum rc (*on_item)(void *item_ctx, const struct dead_item *item,
                                            struct err *err),
                         void *item_ctx, struct err *err);

    /* Replaces the reason of a dead record. In a transaction. */
    enum rc (*write_reason)(void *ctx, int64_t id, const char *reason_class, const char *reason,
                            size_t reason_len, struct err *err);

    /* Moves the records into dead_history. A value that is not NULL was applied instead of the
     * payload. In a transaction. */
    enum rc (*decide)(void *ctx, const int64_t *ids, size_t count, enum dead_decision decision,
                      const void *value, size_t value_len, struct err *err);

    /* Counts how many of the ids are still dead. Outside of a transaction. */
    enum rc (*count_ids)(void *ctx, const int64_t *ids, size_t count, size_t *left,
                         struct err *err);
};

/* The keys that must wait during a replay because one of their records stays dead. A key is
 * represented by 64 bits of a hash. Two keys with the same hash wait for each other, which costs a
 * second replay and is harmless otherwise. */
struct dead_keys {
    struct dead_wait *slots; /* open addressing */
    size_t size;             /* a power of two, or 0 */
    size_t count;
};

/* A key and the first of its records that stays dead. */
struct dead_wait {
    uint64_t key; /* 0: a free slot */
    int64_t id;
};

/* A zeroed dead_keys is empty. */
void dead_keys_done(struct dead_keys *keys);

/* Hashes topic, partition and key of an item. 0: the record has no key, and therefore no order. */
uint64_t dead_key_of(const struct dead_item *item);

/* Returns the id of the record that the key waits for, or 0. */
int64_t dead_keys_find(const struct dead_keys *keys, uint64_t key);

/* Adds the key unless it is present: the first record of a key counts. RC_FATAL: no memory. */
enum rc dead_keys_add(struct dead_keys *keys, uint64_t key, int64_t id, struct err *err);

struct dead_config {
    const struct sink *sink;
    const struct dead_store *store;
    const struct dead_filter *filter; /* if `held` is set, it names a topic and a partition */
    bool drop;                        /* drop instead of replay */
    enum record_rule rule;
    bool keep_lasts;   /* replay: skip stale votes */
    const void *value; /* replay: bytes that replace the payload, for a filter of one id; or NULL */
    size_t value_len;
    uint64_t records_max; /* 0: no limit */
    dead_on_result on_result;
    void *ctx;
};

/* A record of the current page. */
struct dead_entry {
    struct dead_result result;
    bool selected;
    uint64_t key;
    size_t vote;        /* of DEAD_OUTCOME_APPLIED: its index in votes */
    bool reason_is_new; /* of DEAD_OUTCOME_STAYS: the reason differs from the stored one */
    size_t class_at;
    size_t reason_at; /* in bytes, ended by a zero byte; class_at likewise */
};

struct dead {
    struct dead_config config;
    struct apply *apply;
    struct dead_keys keys; /* keys that wait because of earlier pages */
    struct dead_cursor cursor;
    struct dead_entry *entries; /* DEAD_PAGE_ROWS of them, as in votes and ids */
    struct vote_row *votes;
    int64_t *ids;
    int64_t begin_day; /* beginning of the log, as the current page read it */
    size_t entry_count;
    size_t vote_count;
    size_t value_bytes;  /* of all records of the page */
    struct buf bytes;    /* reasons */
    bool full;           /* the page takes no more of the records that were read */
    bool commit_unknown; /* the COMMIT of the page may have worked */
    /* number of pages that still take one record each, to find the one that the database refused */
    size_t singly;
    int64_t refused_id; /* the record that the database refused; 0: none */
    struct err refused;
    uint64_t handled;            /* selected records up to `reported` */
    uint64_t session;            /* of the sink, as of the last page; 0: none */
    struct dead_cursor reported; /* the end of the last page of which the results were reported */
};

/* The config's pointers are borrowed for the life of dead. RC_FATAL: no memory. */
enum rc dead_init(struct dead *dead, const struct dead_config *config, struct err *err);
void dead_done(struct dead *dead);

/* Handles one page. *more is false if nothing is left to do. RC_RETRY: nothing of the page was
 * done, or the result of the COMMIT is unknown; call again. After a new connection it begins with
 * the first record again, so that the order of a key also holds if the database lost earlier pages.
 * RC_REJECT: the database refuses to store the outcome. */
enum rc dead_step(struct dead *dead, bool *more, struct err *err);

#endif
