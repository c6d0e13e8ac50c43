/* SPDX-License-Identifier: MIT */
/* Takes votes of a command line through the engine, with patience while the database is away. One
 * thread. */
#ifndef PRODUCER_VOTE_VOTE_RUN_COMMAND_H
#define PRODUCER_VOTE_VOTE_RUN_COMMAND_H

#include "common/config/settings.h"
#include "common/err.h"
#include "common/stop.h"
#include "producer/vote/vote.h"
#include "producer/vote/vote_mysql.h"

#include <stddef.h>

/* Items of one call. */
#define VOTE_RUN_ITEMS_MAX 1000

struct vote_run {
    struct vote_mysql *store;
    struct vote_engine *engine;
    struct stop stop; /* only slept on */
};

/* settings are borrowed until the close. */
enum rc vote_run_open(struct vote_run *run, const struct settings *settings, struct err *err);
void vote_run_close(struct vote_run *run);

/* Until every item has its outcome. RC_RETRY: the database was away, or the number of lanes was
 * being changed, for too long; RC_REJECT: api.lane_count is not the number of lanes; RC_FATAL:
 * people must act. What has no outcome then may be tried again by a later run: it is harmless. */
enum rc vote_run_items(struct vote_run *run, struct vote_item *items, size_t count,
                       struct err *err);

/* Says err on stderr and returns the exit code fit for what the functions above returned. */
int vote_run_fail(enum rc rc, const struct err *err);

#endif
