/* SPDX-License-Identifier: MIT */
/* What the three steps of one lane share. Rows travel in a circle and every one comes back:
 *
 *     reader --batches--> sender --acknowledged--> deleter --deleted--> reader
 *                           |------- left in the table (dropped) -------^
 *                           `- refused --> retry queue, by the deleter --^
 *
 * and empty batches and blocks go the other way. Each ring has one giver and one taker; the rest is
 * atomic. Whoever finds trouble in sending asks the reader to hold (lane_hold): once it holds, the
 * sender empties the ring of batches, gives every undecided row back, and lets go; the reader then
 * reads from the lowest of them on. So no later row of a key overtakes an earlier one. */
#ifndef OUTBOX_RELAY_LANE_H
#define OUTBOX_RELAY_LANE_H

#include "common/condition.h"
#include "common/config/settings.h"
#include "common/err.h"
#include "common/ring.h"
#include "outbox/lease/leases.h"
#include "outbox/relay/diverted_keys.h"
#include "outbox/relay/relay_metrics.h"
#include "outbox/relay/relay_row.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One is filled, one is sent, one is on its way. */
#define LANE_BATCHES 3

/* How long a step that waits for another one sleeps when nobody wakes it. */
#define LANE_WAIT_MS 100

#define SEQS_MAX 1024

/* A block of seqs that travels from step to step. */
struct seqs {
    size_t count;
    bool again; /* read these rows again now; else they are deleted or wait for a full scan */
    int64_t list[SEQS_MAX];
};

enum lane_step { LANE_READER, LANE_SENDER, LANE_DELETER, LANE_STEPS };

struct lane {
    const char *name; /* in the log and in metrics */
    const struct lane_settings *own;
    const struct settings *settings;
    struct relay_metrics *metrics;
    void (*wake)(void *ctx, enum lane_step step);
    void *wake_ctx;
    int64_t (*time_ms)(void *ctx); /* now, also in the middle of a step; NULL: as it began */
    void *time_ctx;

    struct ring filled;  /* batches: reader to sender */
    struct ring empty;   /* batches: sender to reader */
    struct ring acked;   /* blocks: sender to deleter */
    struct ring dropped; /* blocks: sender to reader */
    struct ring gone;    /* blocks: deleter to reader */
    struct ring blank;   /* blocks: reader to sender */
    struct relay_batch batches[LANE_BATCHES];
    struct seqs *blocks;
    size_t block_count;

    struct leased lease; /* idle: the reader has everything back; origin_lost: lane_origin_lost() */

    atomic_llong hold_asked;         /* by the sender: counts its wishes */
    atomic_llong hold_done;          /* by the reader: holds for this wish */
    atomic_llong hold_freed;         /* by the sender: this wish is over */
    atomic_bool from_start;          /* by the sender: read the whole table again then */
    atomic_llong scan;               /* by the reader: counts its full scans */
    atomic_bool full_scan_requested; /* by any step: the next full scan is due now */

    struct diverted_keys diverted; /* keys whose rows go through the retry queue */

    struct condition reading;       /* MySQL, as the reader finds it */
    struct condition sending;       /* Kafka, as the sender finds it */
    struct condition deleting;      /* MySQL, as the deleter finds it */
    struct condition diverting;     /* MySQL, as the diverter finds it; the deleter's thread */
    struct condition key_delivery;  /* fails while a key is diverted, with the newest one; sender */
    struct condition lane_delivery; /* fails while too many keys are diverted; sender */
};

/* RC_FATAL: no memory. own, settings and metrics are borrowed for the lane's life. */
enum rc lane_init(struct lane *lane, const struct lane_settings *own,
                  const struct settings *settings, struct relay_metrics *metrics, struct err *err);
void lane_done(struct lane *lane);

void lane_wake(const struct lane *lane, enum lane_step step);

/* The epoch of the lease when it is held at this time, else 0. */
int64_t lane_epoch(const struct lane *lane, int64_t now_ms);

/* Now, also in the middle of a step that began at now_ms. */
int64_t lane_now(const struct lane *lane, int64_t now_ms);

/* lane_epoch(), now: the process may have been frozen since the step began at now_ms. */
int64_t lane_epoch_now(const struct lane *lane, int64_t now_ms);

/* The database is not the one that the rows under way were read from: the lease counts as lost, is
 * given back when all have come home, and may be taken again then. Where nothing is in hand it is
 * nobody's business. Any thread. */
void lane_origin_lost(struct lane *lane, const struct err *why);

/* The reader begins a full scan as soon as it can. Any thread. */
void lane_request_full_scan(struct lane *lane);

/* For the sender. lane_hold() asks once; lane_holds(): the reader has stopped, and gives nothing
 * until lane_free(). */
void lane_hold(struct lane *lane);
bool lane_holds(const struct lane *lane);
void lane_free(struct lane *lane, bool from_start);

#endif
