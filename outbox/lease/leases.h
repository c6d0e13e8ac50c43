/* SPDX-License-Identifier: MIT */
/* Keeps the leases of all lanes, or shards, of this process: beats, takes free ones up to a fair
 * share, gives surplus ones up cleanly, and tells each until when it may be worked on. The
 * database's clock decides who holds one; how long we may believe it is measured on our own, from
 * before the beat was sent. One thread, but for struct leased. */
#ifndef OUTBOX_LEASE_LEASES_H
#define OUTBOX_LEASE_LEASES_H

#include "common/backoff.h"
#include "common/condition.h"
#include "common/err.h"
#include "common/log.h"
#include "common/metrics.h"
#include "outbox/relay/relay_ops.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LEASES_INSTANCES_MAX 256

/* What one instance at a time works on: an outbox table, or a shard of the retry queue. The thread
 * that keeps the leases writes it, but for the fields that are the holder's. Any thread may ask. */
struct leased {
    const char *name;            /* in the database: of the outbox table, or of the shard */
    const char *label;           /* in the log */
    atomic_llong valid_until_ms; /* 0: not held */
    atomic_llong epoch;
    atomic_bool leaving; /* finish what is in hand, begin nothing more */
    atomic_bool idle;    /* the holder's: nothing is in hand */
    atomic_bool strange; /* set by anyone: what it was leased from is not there any more */

    void (*wake)(void *ctx);                          /* the lease has changed; may be NULL */
    void (*news)(void *ctx, struct lease_news *news); /* for other processes; may be NULL */
    void *ctx;
    struct metric *held; /* may be NULL, as the next */
    struct metric *told_epoch;
};

struct lease {
    struct leased *leased;
    bool held;
    int64_t epoch;
    int64_t leave_ms;        /* when it was asked to leave */
    int64_t shortened_epoch; /* of another owner's lease that was implausible; 0: there is none */
    int64_t shortened_left_ms;
    struct lease_view view;
    struct lease_news told;
};

struct leases {
    struct lease list[LEASES_MAX];
    const char *names[LEASES_MAX]; /* of theirs */
    struct lease_view views[LEASES_MAX];
    size_t count;
    struct lease_store store;
    const char *word;     /* "lane" or "shard", in the log */
    enum log_level level; /* of what is taken and given */
    const char *name;     /* of this instance */
    int64_t lease_ms;
    int64_t beat_at_ms;
    bool beaten;                  /* in this step */
    struct condition store_state; /* the database, as the renewals find it */
    struct condition clock;       /* fails while a lease ends implausibly late */
    struct backoff backoff;
    uint64_t rng;

    size_t instances;
    size_t me; /* my place among them, or instances when I am not listed */
    size_t held[LEASES_INSTANCES_MAX];
    int64_t weights[LEASES_INSTANCES_MAX];
};

/* Everything is borrowed for the life of leases. */
void leases_init(struct leases *leases, const char *role, const char *word, const char *name,
                 const struct lease_store *store, int64_t lease_ms, uint64_t seed);
void leases_done(struct leases *leases);

#define LEASES_GROUP_SIZE 32

/* A name that all instances share which list these lanes, in any order: only they compete. */
void leases_group(char group[LEASES_GROUP_SIZE], const char *const *lanes, size_t count);
void leases_add(struct leases *leases, struct leased *leased);

/* Returns whether the leases cannot be renewed or end implausibly, and the reason in err then. Any
 * thread. */
bool leases_failing(struct leases *leases, struct err *err);

/* A loop_step. */
int64_t leases_step(void *leases, int64_t now_ms);

/* For a clean stop, from the thread that runs all steps then. leases_leave() asks each to
 * finish; when leases_left() is true, or time is up, leases_release() gives all of them back. */
void leases_leave(struct leases *leases, int64_t now_ms);
bool leases_left(const struct leases *leases);
void leases_release(struct leases *leases);

/* The epoch of the lease when it is held at this time, else 0. Any thread. */
int64_t leased_epoch(const struct leased *leased, int64_t now_ms);

#endif
