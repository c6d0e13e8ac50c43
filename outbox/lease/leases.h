/* SPDX-License-Identifier: MIT */
/* Renews the leases of all lanes, or shards, that this process competes for: sends heartbeats,
 * takes free leases up to a fair share, drains and releases surplus ones, and stores in
 * each struct leased until when its holder may work. The clock of the database decides which
 * instance holds a lease.
 *
 * Invariant: a holder's own limit (valid_until_ms) is measured by this process's clock from before
 * its heartbeat was sent, and therefore passes before the lease expires in the database. Mutant:
 * lease-believed.
 *
 * One thread, the lease thread, calls all functions, except where a function says "any thread".
 */
#ifndef OUTBOX_LEASE_LEASES_H
#define OUTBOX_LEASE_LEASES_H

#include "common/backoff.h"
#include "common/condition.h"
#include "common/err.h"
#include "common/log.h"
#include "common/metrics.h"
#include "outbox/lease/lease_ops.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LEASES_INSTANCES_MAX 256

/* The lease of one outbox table, or of one shard of the retry queue, as this process sees it. The
 * lease thread writes all fields except idle, which the holder writes, and origin_lost, which any
 * thread may set. Any thread may read the atomic fields. */
struct leased {
    const char *name;            /* in the database: of the outbox table, or of the shard */
    const char *label;           /* in the log */
    atomic_llong valid_until_ms; /* own clock; 0: not held */
    atomic_llong epoch;
    atomic_bool draining;     /* the holder finishes items in flight and starts none */
    atomic_bool idle;         /* written by the holder: it has no item in flight */
    atomic_bool other_source; /* as lease_view.other_source */
    atomic_bool origin_lost;  /* the rows in flight are of a database that was replaced */

    void (*wake)(void *ctx); /* called after each change; may be NULL */
    void (*status)(void *ctx,
                   struct lease_status *status); /* fills what is stored with the lease; or NULL */
    void *ctx;
    struct metric *held_metric; /* both metrics may be NULL */
    struct metric *epoch_metric;
};

struct lease {
    struct leased *leased;
    bool held;
    int64_t epoch;
    int64_t drain_ms;        /* when the drain started */
    int64_t shortened_epoch; /* of another owner's lease that was shortened; 0: none */
    int64_t shortened_left_ms;
    struct lease_view view;
    struct lease_status status_stored;
};

struct leases {
    struct lease list[LEASES_MAX];
    const char *names[LEASES_MAX]; /* names[i] is list[i].leased->name */
    struct lease_view views[LEASES_MAX];
    size_t count;
    struct lease_store store;
    const char *log_key;  /* "lane" or "shard": the key in log events */
    enum log_level level; /* of lease_taken, lease_released and lease_lost */
    const char *name;     /* of this instance */
    int64_t lease_ms;
    int64_t beat_at_ms;
    bool beaten;                  /* the heartbeat of this step succeeded */
    struct condition store_state; /* whether the database renews the leases */
    struct condition clock;       /* fails while a lease ends implausibly late */
    struct backoff backoff;
    uint64_t rng;

    size_t instances;
    size_t me; /* index of this instance; SIZE_MAX when it is not listed */
    size_t held[LEASES_INSTANCES_MAX];
    int64_t weights[LEASES_INSTANCES_MAX];
};

/* Borrows every parameter until leases_done(), except store, which is copied. role names the
 * process in conditions, log_key the leased object in log events, name this instance. seed starts
 * the rng of the backoff. Cannot fail. */
void leases_init(struct leases *leases, const char *role, const char *log_key, const char *name,
                 const struct lease_store *store, int64_t lease_ms, uint64_t seed);
void leases_done(struct leases *leases);

/* For an owner of several leases structs, which logs for all of them: taken and lost leases are
 * logged at debug level, and the state of the database not at all. After leases_init(). */
void leases_log_less(struct leases *leases);

#define LEASES_GROUP_SIZE 32

/* Writes a name made from the set of these texts, one for each lane, the same for every order. Only
 * instances with the same set are in one group, and only those share the lanes among them. */
void leases_group(char group[LEASES_GROUP_SIZE], const char *const *lanes, size_t count);

/* Adds a lease to compete for, before the first step. Borrows leased until leases_done(). At most
 * LEASES_MAX, which is asserted. */
void leases_add(struct leases *leases, struct leased *leased);

/* Returns true, with the reason in err, while the leases cannot be renewed or another instance's
 * lease ends implausibly late. Any thread. */
bool leases_failing(struct leases *leases, struct err *err);

/* One round, as a loop_step: sends a heartbeat when due, reads all leases, releases drained ones,
 * takes free ones and starts drains. Returns the milliseconds until the next call. An error is
 * reported by leases_failing() and repeats the heartbeat in the next step. */
int64_t leases_step(void *leases, int64_t now_ms);

/* A clean stop, on the thread that runs the steps of all holders. leases_drain() asks every holder
 * to finish; leases_drained() returns true when none has an item in flight; leases_release()
 * releases all leases and removes this instance from the list, whether they are drained or not. */
void leases_drain(struct leases *leases, int64_t now_ms);
bool leases_drained(const struct leases *leases);
void leases_release(struct leases *leases);

/* Returns the epoch of the lease when this process may work under it at now_ms, else 0. Any thread.
 */
int64_t leased_epoch(const struct leased *leased, int64_t now_ms);

/* How lanes are distributed over the live instances by weight: every instance holds its share,
 * rounded down or up, and as few lanes as possible change their holder. Each instance decides for
 * itself on the same numbers; a compare-and-set in the database resolves races. The share_
 * functions are pure: any thread.
 *
 * held[i]: lanes that instance i holds; weights[i]: its weight, >= 1. Every instance sees the
 * instances in the same order. me: index of the caller, < instances. */
struct share {
    const size_t *held;
    size_t instances;
    size_t me;
    size_t lanes;
    size_t free;            /* lanes without a holder */
    const int64_t *weights; /* NULL: all weights are 1 */
};

/* Returns whether the caller may take one more free lane. */
bool share_may_take(const struct share *share);

/* Returns how many of its lanes the caller has to release now. */
size_t share_surplus(const struct share *share);

#endif
