/* SPDX-License-Identifier: MIT */
/* Lets a stream lane go on from its table after the server has purged the log at its position, as
 * `tallybox relay source LANE binlog --from-table` does, but under the lease of the relay:
 *
 * 1. It checks that rows can be neither lost nor repeated without a bound (below).
 * 2. It finds a cut: a place in the log at which the rows of the table end (table_cut_mysql.h).
 * 3. It ends the old position: relay_position says that the lane goes on from its table.
 * 4. It publishes the rows before the cut that are not saved as published, and saves them as such.
 * 5. It saves the cut as the position.
 *
 * Invariant R22: from step 3 to step 5 no process reads the log for this lane, so no row is
 * published by both; a process that takes the lease there goes on at step 2. All writes are fenced
 * by the epoch of the lease (tests/e2e/test_fallback.py).
 *
 * It refuses (RC_FATAL, and an operator decides) when the server has not written its log up to the
 * position, or another server has saved the position: then this may be a copy of the database in
 * which rows are not known as published that are. It also refuses when the lowest row that is not
 * saved as published is older than the position by more than FALLBACK_MARGIN_S: such a row did not
 * come through the log, or another program has published it.
 *
 * It has a thread of its own, which sleeps until it is asked. */
#ifndef OUTBOX_RELAY_FALLBACK_TABLE_FALLBACK_H
#define OUTBOX_RELAY_FALLBACK_TABLE_FALLBACK_H

#include "common/condition.h"
#include "common/config/settings.h"
#include "common/db/db.h"
#include "common/err.h"
#include "common/loop.h"
#include "outbox/relay/broker_kafka.h"
#include "outbox/relay/fallback/fallback_ops.h"
#include "outbox/relay/lane.h"
#include "outbox/relay/stream/backfill.h"
#include "outbox/relay/stream/backfill_mysql.h"
#include "outbox/relay/stream/position_store_mysql.h"
#include "outbox/relay/stream/table_cut_mysql.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* A row may be so much older than the COMMIT of its transaction. */
#define FALLBACK_MARGIN_S 600

enum fallback_state { FALLBACK_IDLE, FALLBACK_ASKED, FALLBACK_RUNS, FALLBACK_ENDED };

/* What one run has open. */
struct fallback_run {
    struct backfill_mysql base;
    struct broker_kafka broker;
    struct backfill backfill;
    struct position_store_mysql positions;
    struct stream_position position; /* of the lane, at its begin */
    struct db *cutter;
    struct table_cut cut;
};

struct table_fallback {
    struct lane *lane; /* NULL: not open */
    const char *instance;
    void (*wake)(void *ctx); /* wakes its thread */
    void *wake_ctx;
    struct fallback_run run;
    struct condition going; /* failing while it runs, for readiness; its thread and health */

    pthread_mutex_t lock; /* guards the fields below */
    enum fallback_state state;
    bool stopping;    /* for good */
    struct stop stop; /* ends the present run */
    int64_t epoch;
    int64_t unsaved_max;
    enum rc rc;
    struct err err;
};

/* Whether the settings let this lane go on from its table. */
bool table_fallback_is_wanted(const struct lane_settings *lane);

/* Borrows lane, instance and wake_ctx until table_fallback_close(). Connects to nothing. RC_FATAL:
 * no file descriptor is left. Close it after a failure, too. */
enum rc table_fallback_open(struct table_fallback *fallback, struct lane *lane,
                            const char *instance, void (*wake)(void *ctx), void *wake_ctx,
                            struct err *err);

/* Accepts a zeroed one. No thread uses it any more. */
void table_fallback_close(struct table_fallback *fallback);

/* Ends the present run soon, and lets no other begin. Any thread. */
void table_fallback_stop(struct table_fallback *fallback);

/* The ops are valid while it is open. */
struct fallback_ops table_fallback_ops(struct table_fallback *fallback);

/* A step of its thread, a loop_step: one run. It reports itself as going on (loop_goes_on()). */
int64_t table_fallback_step(void *fallback, int64_t now_ms);

#endif
