/* SPDX-License-Identifier: MIT */
/* What the relay's engines need from the world: a table to read, a broker to send to, deletes, and
 * leases. Adapters fill these structs and decide nothing; tests and the simulation fill them with
 * models. Each struct of ops is used by one thread at a time; calls block no longer than their
 * adapter's time-outs.
 *
 * Unless said otherwise: RC_RETRY and RC_REJECT: try again later; RC_FATAL: people must act, and
 * trying again now and then shows whether they did. */
#ifndef OUTBOX_RELAY_RELAY_OPS_H
#define OUTBOX_RELAY_RELAY_OPS_H

#include "common/err.h"
#include "outbox/relay/relay_row.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Both ends belong to it. */
struct seq_range {
    int64_t from;
    int64_t to;
};

/* One row, borrowed for the call. False ends the reading. */
typedef bool (*source_on_row)(void *ctx, const struct relay_row *row);

/* Transactions that have written something and are open, as the server numbers them; 0, 0 when
 * there is none. known is false where the account may not see other people's transactions, or
 * cannot at this moment. */
struct source_writers {
    uint64_t oldest;
    uint64_t newest;
    bool known;
    int64_t asked_ms; /* by our clock: they were looked at after this moment */
};

struct source_look {
    int64_t oldest_seq; /* 0 when the table is empty */
    int64_t oldest_age_ms;
    int64_t newest_seq; /* of the rows above `above`; 0: there is none */
};

/* Signs that the table gives its seqs out again: TRUNCATE, or a lowered AUTO_INCREMENT. */
struct source_restart {
    int64_t next_seq; /* the table's next AUTO_INCREMENT value; 0: the server does not tell */
    int64_t low_seq;  /* the lowest row below `below`; 0: there is none */
};

/* Nodes of a cluster, other than the server that is read from, which write to its tables. */
struct source_nodes {
    char what[80]; /* the kind of cluster, for people; "": there are none */
};

/* The table of one lane. */
struct source {
    void *ctx;
    /* A reader begins with nothing in its hands: what it finds from now on is of the database that
     * is there now, and of no other (see lane_origin_lost()). May be NULL. */
    enum rc (*begin)(void *ctx, struct err *err);
    /* Committed rows of all the ranges (ascending, disjoint), in the order of seq, in one snapshot,
     * rows_max at most. */
    enum rc (*read)(void *ctx, const struct seq_range *ranges, size_t count, size_t rows_max,
                    source_on_row on_row, void *on_row_ctx, struct err *err);
    /* Looks for rows in the ranges past every snapshot, with locks: busy when an open transaction
     * has a row there, found when a committed one is there. */
    enum rc (*probe)(void *ctx, const struct seq_range *ranges, size_t count, bool *busy,
                     bool *found, struct err *err);
    enum rc (*writers)(void *ctx, struct source_writers *writers, struct err *err);
    /* For metrics. Reads nothing below from, and for newest_seq nothing at or below above: rows
     * that were deleted may still stand there for as long as an old snapshot is open. */
    enum rc (*look)(void *ctx, int64_t from, int64_t above, struct source_look *look,
                    struct err *err);
    /* Looks for rows below `below`, which may pass every deleted row that is still there; for none
     * when it is 0. */
    enum rc (*restart)(void *ctx, int64_t below, struct source_restart *restart, struct err *err);
    /* Are there such nodes? Neither writers nor probe sees their open transactions. May be NULL:
     * there are none. */
    enum rc (*nodes)(void *ctx, struct source_nodes *nodes, struct err *err);
};

/* Ranges deleted with one call. */
#define DELETER_RANGES_MAX 512

#define ORDERING_KEY_SIZE 513
#define MOVE_REASON_SIZE 256

/* A row on its way into the retry queue. */
struct relay_move {
    int64_t seq;
    uint64_t key;                         /* the relay's number for its key */
    const char *topic;                    /* "": it has none; lives as long as the lane */
    char ordering_key[ORDERING_KEY_SIZE]; /* see ordering_key.h */
    char reason[MOVE_REASON_SIZE];        /* why it was refused; "": it follows one that was */
};

/* A key that may have tasks in the retry queue. */
struct lane_key {
    uint64_t key;
    char ordering_key[ORDERING_KEY_SIZE];
    bool left; /* it has */
};

/* Anything but RC_OK ends the call and is what it returns. */
typedef enum rc (*deleter_on_key)(void *ctx, const char *ordering_key, struct err *err);

struct deleter_ops {
    void *ctx;
    /* Deletes the rows of these ranges while owner holds the lane with this epoch; fenced says that
     * he does not. Doing it twice is harmless. */
    enum rc (*delete_ranges)(void *ctx, const struct seq_range *ranges, size_t count, int64_t epoch,
                             bool *fenced, struct err *err);
    /* Makes these rows of the table tasks of the retry queue, in their order and all of them or
     * none, in a transaction that commits only while owner holds the lane with this epoch. A row
     * that is gone is passed over: doing it twice is harmless. */
    enum rc (*move_rows)(void *ctx, const struct relay_move *moves, size_t count, int64_t epoch,
                         bool *fenced, struct err *err);
    /* Every key that has tasks of this lane there, each once, keys_max at most. */
    enum rc (*load_keys)(void *ctx, size_t keys_max, deleter_on_key on_key, void *on_key_ctx,
                         struct err *err);
    /* Which of these keys still have tasks there, whatever their state. */
    enum rc (*keys_left)(void *ctx, struct lane_key *keys, size_t count, struct err *err);
};

/* Topics of one producer. */
#define BROKER_TOPICS_MAX 1024

/* What became of a record that was sent. RC_REJECT: the broker refuses it. err is NULL with
 * RC_OK. */
typedef void (*broker_on_report)(void *ctx, uint64_t ticket, enum rc rc, const struct err *err);

/* A producer, made when it is first needed. */
struct broker {
    void *ctx;
    /* Sees that the topic exists. RC_REJECT and RC_FATAL: it does not and cannot be made. */
    /* topic_index names it for caches, always the same and below BROKER_TOPICS_MAX; the name lives
     * as long as the ops are used. Nothing is under way. */
    enum rc (*topic_open)(void *ctx, const char *topic, size_t topic_index, struct err *err);
    /* Takes a copy of row on its way.
     * RC_RETRY: no room now, poll reports first. RC_REJECT: this row is refused.
     * RC_FATAL: the producer is finished, reset it. */
    enum rc (*send)(void *ctx, const char *topic, size_t topic_index, const struct relay_row *row,
                    uint64_t ticket, struct err *err);
    /* Hands on the reports that came in. RC_FATAL: the producer is finished. Other codes than RC_OK
     * tell of trouble for health and log; nothing is to be done. */
    enum rc (*poll)(void *ctx, broker_on_report on_report, void *on_report_ctx, struct err *err);
    /* Gives up everything under way, which is then reported as RC_RETRY or as what it was. */
    void (*purge)(void *ctx);
    /* Throws the producer away: nothing sent before is reported any more. */
    void (*reset)(void *ctx);
};

#define LEASE_OWNER_SIZE 129

#define LEASES_MAX 64 /* of one process that compete together */

/* A lease that ends later from now than this many of its lengths is implausible: it was written
 * before the database's clock was set back.
 * Invariant: an implausible lease is not taken, it is shortened to end one length from now, and
 * expires like any other. A holder that lives renews it within a third of its length by the clock
 * as it is now, which is plausible again; so no second holder begins while the first one may
 * believe in its lease. A dead holder's lease ends a length later. */
#define LEASE_LENGTHS_MAX 2

struct lease_view {
    char owner[LEASE_OWNER_SIZE]; /* "" when free */
    int64_t epoch;
    int64_t length_ms; /* as its owner wrote it; 0: unknown */
    int64_t left_ms;   /* <= 0 when it ran out */
};

/* What other processes see of what is held. */
struct lease_status {
    int64_t diverted_keys;
    char diverted_reason[256];
};

/* weight: of its share, >= 1. */
typedef enum rc (*lease_on_instance)(void *ctx, const char *name, int64_t weight, struct err *err);

struct lease_store {
    void *ctx;
    /* Says that this instance lives and lengthens every lease it owns by lease_ms. */
    enum rc (*beat)(void *ctx, int64_t lease_ms, struct err *err);
    /* The leases of these lanes, or shards, at one moment, each made when it was not there. */
    enum rc (*read)(void *ctx, const char *const *lanes, size_t count, struct lease_view *views,
                    struct err *err);
    /* Every instance that serves the same lanes and has beaten within lease_ms, by name; a
     * heartbeat of later than twice lease_ms from now is from before the clock was set back, and
     * does not count. */
    enum rc (*instances)(void *ctx, int64_t lease_ms, lease_on_instance on_instance,
                         void *on_instance_ctx, struct err *err);
    /* Takes it if it is still free or run out, with a new epoch. */
    enum rc (*take)(void *ctx, const char *lane, int64_t lease_ms, bool *taken, int64_t *epoch,
                    struct err *err);
    /* Makes the lease end length_ms from now, where it has this epoch and is implausible. */
    enum rc (*shorten)(void *ctx, const char *lane, int64_t epoch, int64_t length_ms,
                       struct err *err);
    enum rc (*put_status)(void *ctx, const char *lane, int64_t epoch,
                          const struct lease_status *status, struct err *err);
    enum rc (*release)(void *ctx, const char *lane, int64_t epoch, struct err *err);
    /* This instance ends: it is no longer counted. */
    enum rc (*remove_instance)(void *ctx, struct err *err);
};

#endif
