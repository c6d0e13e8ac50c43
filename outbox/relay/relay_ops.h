/* SPDX-License-Identifier: MIT */
/* The ops of the relay: the interfaces through which its engines read the outbox table, send to the
 * broker, and delete and divert rows. Adapters fill these structs and decide nothing; flow tests
 * and the simulation fill them with fakes. One thread at a time uses a struct of ops. A call blocks
 * no longer than the time-outs of its adapter. The ops of leases are in outbox/lease/lease_ops.h.
 *
 * Unless a comment says otherwise, a caller repeats a call that returned RC_RETRY or RC_REJECT
 * later. RC_FATAL means that an operator has to act; the caller repeats the call at long intervals
 * to find out whether the cause was removed. */
#ifndef OUTBOX_RELAY_RELAY_OPS_H
#define OUTBOX_RELAY_RELAY_OPS_H

#include "common/err.h"
#include "outbox/relay/relay_row.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A range of seqs that includes both ends. */
struct seq_range {
    int64_t from;
    int64_t to;
};

/* Receives one row, borrowed for the call. Returns false to end the reading. */
typedef bool (*source_on_row)(void *ctx, const struct relay_row *row);

/* The oldest and the newest number of the server's open transactions that have written; 0 and 0
 * when there is none. known is false when the account may not see the transactions of other
 * accounts, or when the server cannot list them at this moment. */
struct source_writers {
    uint64_t oldest;
    uint64_t newest;
    bool known;
    int64_t asked_ms; /* local clock: the server was queried at or after this time */
};

struct source_look {
    int64_t oldest_seq; /* 0 when the table is empty */
    int64_t oldest_age_ms;
    int64_t newest_seq; /* highest row above `above`; 0: there is none */
};

/* Shows whether the table assigns seqs a second time: after TRUNCATE, or when its AUTO_INCREMENT
 * was lowered. */
struct source_restart {
    int64_t next_seq; /* the table's next AUTO_INCREMENT value; 0: unknown */
    int64_t low_seq;  /* the lowest row below `below`; 0: there is none */
};

/* Other nodes of the server's cluster that write to its tables. */
struct source_nodes {
    char what[80]; /* kind of the cluster, for the log; empty: there are no such nodes */
};

/* The outbox table of one lane. */
struct source {
    void *ctx;
    /* Records the identity of the present database. The reader calls it when the lane holds no row;
     * all later rows must come from this database (see lane_origin_lost()). May be NULL. */
    enum rc (*begin)(void *ctx, struct err *err);
    /* Passes the committed rows of all ranges to on_row, in the order of seq, from one snapshot, at
     * most rows_max of them. The ranges are ascending and disjoint. */
    enum rc (*read)(void *ctx, const struct seq_range *ranges, size_t count, size_t rows_max,
                    source_on_row on_row, void *on_row_ctx, struct err *err);
    /* Searches the ranges with a locking read, which sees more than a snapshot. Sets busy when an
     * open transaction has a row there, and found when a committed row is there. */
    enum rc (*probe)(void *ctx, const struct seq_range *ranges, size_t count, bool *busy,
                     bool *found, struct err *err);
    /* Lists the open transactions that have written. */
    enum rc (*writers)(void *ctx, struct source_writers *writers, struct err *err);
    /* Reads the oldest and the newest row, for metrics. It reads no row below from, and for
     * newest_seq no row at or below above: while an old snapshot is open, the server keeps deleted
     * rows there, and passing them costs time. */
    enum rc (*look)(void *ctx, int64_t from, int64_t above, struct source_look *look,
                    struct err *err);
    /* Reads next_seq, and low_seq unless below is 0. The search for low_seq may pass every deleted
     * row that the server still keeps. */
    enum rc (*restart)(void *ctx, int64_t below, struct source_restart *restart, struct err *err);
    /* Reads whether other nodes write. Neither writers nor probe sees their open transactions. May
     * be NULL: there are none. */
    enum rc (*nodes)(void *ctx, struct source_nodes *nodes, struct err *err);
};

/* Ranges of one call of delete_ranges. */
#define DELETER_RANGES_MAX 512

#define MOVE_REASON_SIZE 256

/* A row to be moved into the retry queue. In the lane of a table, which has its rows until they are
 * moved, the adapter reads the row's bytes there, by seq. */
struct relay_move {
    int64_t seq;
    struct relay_row *row;                /* of a stream lane: a copy with its bytes; else NULL */
    uint64_t key;                         /* ordering_key_hash_of_row() of its key */
    const char *topic;                    /* empty: none; valid as long as the lane */
    char ordering_key[ORDERING_KEY_SIZE]; /* see relay_row.h */
    char reason[MOVE_REASON_SIZE];        /* of the refusal; empty: it follows a refused row */
    uint64_t term; /* of a lane that publishes exactly once: number of the first record of its term
                    * (exact/position_record.h); else 0 */
};

/* A key that may have tasks in the retry queue. */
struct lane_key {
    uint64_t key;
    char ordering_key[ORDERING_KEY_SIZE];
    bool left; /* whether it has tasks there */
};

/* Receives one key. Any result but RC_OK ends the call of load_keys, which then returns it. */
typedef enum rc (*diverter_on_key)(void *ctx, const char *ordering_key, struct err *err);

struct deleter_ops {
    void *ctx;
    /* Checks that this instance holds the lane's lease with this epoch, then deletes the rows of
     * the ranges. If the check fails, deletes nothing and sets fenced. The lease may end between
     * check and deletion, which is harmless: the rows are in Kafka. Repeating the call is
     * harmless, too. */
    enum rc (*delete_ranges)(void *ctx, const struct seq_range *ranges, size_t count, int64_t epoch,
                             bool *fenced, struct err *err);
};

/* The diverter's ops, used by the deleter's thread. */
struct diverter_ops {
    void *ctx;
    /* Moves these rows from the table into the retry queue as tasks, in their order, in one
     * transaction that commits only if this instance holds the lane's lease with this epoch;
     * otherwise moves nothing and sets fenced. Skips a row that is not in the table any more, so
     * repeating the call is harmless. If the moves have copies of their rows, all of them have:
     * the tasks are made of these bytes, the table is not used, and a row is skipped if it has an
     * active task already. RC_FATAL: among others, a copy is oversize, so it has no payload. */
    enum rc (*move_rows)(void *ctx, const struct relay_move *moves, size_t count, int64_t epoch,
                         bool *fenced, struct err *err);
    /* Passes every key that has tasks of this lane in the retry queue to on_key, each once, at most
     * keys_max of them. */
    enum rc (*load_keys)(void *ctx, size_t keys_max, diverter_on_key on_key, void *on_key_ctx,
                         struct err *err);
    /* Sets `left` of each key: whether it has tasks in the retry queue, in any state. */
    enum rc (*keys_left)(void *ctx, struct lane_key *keys, size_t count, struct err *err);
};

/* Topics of one producer. */
#define BROKER_TOPICS_MAX 1024

/* Receives the result of one sent record: RC_OK: acknowledged; RC_REJECT: refused by the broker;
 * otherwise: not acknowledged. err is NULL with RC_OK. */
typedef void (*broker_on_report)(void *ctx, uint64_t ticket, enum rc rc, const struct err *err);

struct position_record;

/* Of the producer of a lane that publishes exactly once. */
enum broker_claim {
    BROKER_UNCLAIMED, /* there is none: claim has to be called before anything is sent */
    BROKER_CLAIMED,
    BROKER_FENCED, /* a later producer with the same transactional id has ended it */
};

/* A Kafka producer. The adapter creates it when it is first needed, or by claim if that is set. */
struct broker {
    void *ctx;
    /* Makes sure that the topic exists. RC_REJECT and RC_FATAL: it does not exist and cannot be
     * created. topic_index is the topic's constant index in caches, below BROKER_TOPICS_MAX. The
     * name stays valid as long as the ops are used. No record may be in flight. */
    enum rc (*topic_open)(void *ctx, const char *topic, size_t topic_index, struct err *err);
    /* Copies the row into the producer's queue; the report of its result carries ticket.
     * RC_RETRY: the queue is full, call poll first. RC_REJECT: the row is refused.
     * RC_FATAL: the producer has failed and must be reset. */
    enum rc (*send)(void *ctx, const char *topic, size_t topic_index, const struct relay_row *row,
                    uint64_t ticket, struct err *err);
    /* Passes the reports that have arrived to on_report. RC_FATAL: the producer has failed and must
     * be reset. RC_RETRY and RC_REJECT describe a problem for the log; the caller need not act. */
    enum rc (*poll)(void *ctx, broker_on_report on_report, void *on_report_ctx, struct err *err);
    /* Cancels all records in flight. Each is then reported with RC_RETRY or with its result. */
    void (*purge)(void *ctx);
    /* Destroys the producer. Records that were sent before are not reported any more. */
    void (*reset)(void *ctx);
    /* The following are set for a lane that publishes in Kafka transactions (exact/commits.h), else
     * NULL. What is sent belongs to the transaction that the next commit ends; reset aborts it.
     * claim makes a new producer, which fences all older ones of the lane and ends their
     * transactions, and then reads the last record that was committed into *last, an empty one.
     * epoch: of the lease. If the record is of a later one, none is fenced, and there is no
     * producer. RC_RETRY: try again later. RC_FATAL: an operator has to act. There is none then. */
    enum rc (*claim)(void *ctx, int64_t epoch, struct position_record *last, bool *found,
                     struct err *err);
    enum broker_claim (*claimed)(void *ctx);
    /* Commits the record with all that was sent and acknowledged since the last commit; nothing may
     * be in flight. RC_REJECT: the producer is fenced. After any result but RC_OK it is unknown
     * whether all is committed; the producer has to be reset. */
    enum rc (*commit)(void *ctx, const struct position_record *record, struct err *err);
};

#endif
