/* SPDX-License-Identifier: MIT */
/* What the commands that publish rows of a lane's table have in common: the lane, the connections,
 * the producer, the signals, and what is printed of refused rows. Main thread. */
#ifndef OUTBOX_RELAY_CLI_BACKFILL_RUN_COMMAND_H
#define OUTBOX_RELAY_CLI_BACKFILL_RUN_COMMAND_H

#include "common/buf.h"
#include "common/config/settings.h"
#include "common/err.h"
#include "common/loop.h"
#include "outbox/relay/broker_kafka.h"
#include "outbox/relay/stream/backfill.h"
#include "outbox/relay/stream/backfill_mysql.h"

#include <stdbool.h>
#include <stdint.h>

/* --wait of the commands, and its bound. */
#define BACKFILL_WAIT_S 60
#define BACKFILL_WAIT_S_MAX 86400

/* Refused rows that are named. */
#define BACKFILL_NAMED_MAX 100

struct backfill_named {
    int64_t seq;
    bool moved;
    struct err why; /* empty: it follows a refused row of its key */
};

struct backfill_run {
    const struct settings *settings;
    const struct lane_settings *lane;
    int64_t wait_ms;
    struct backfill_mysql base;
    struct broker_kafka broker;
    struct backfill backfill;
    struct stop stop; /* requested by SIGINT or SIGTERM */
    struct backfill_named named[BACKFILL_NAMED_MAX];
    size_t named_count;
};

/* Opens all but the backfill, for the lane with this name; out is to be closed also after a
 * failure, if it is not NULL. RC_REJECT: there is no such lane. */
enum rc backfill_run_open(struct backfill_run **out, const struct settings *settings,
                          const char *lane, int64_t wait_ms, struct err *err);

/* Accepts NULL. */
void backfill_run_close(struct backfill_run *run);

/* Runs the backfill under the hold of run->base; see backfill_run(). */
enum rc backfill_run_rows(struct backfill_run *run, int64_t upto, bool may_publish,
                          struct err *err);

/* Appends how many rows were published, and the refused ones, as lines of text, or as members of a
 * JSON object. */
void backfill_run_put_text(const struct backfill_run *run, struct buf *out);
void backfill_run_put_json(const struct backfill_run *run, struct buf *out);

#endif
