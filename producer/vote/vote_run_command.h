/* SPDX-License-Identifier: MIT */
/* Runs votes of the command line through the engine and waits while the database cannot be reached.
 * One thread. */
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
    struct stop stop; /* only for waiting */
};

/* settings are borrowed until the close. */
enum rc vote_run_open(struct vote_run *run, const struct settings *settings, struct err *err);
void vote_run_close(struct vote_run *run);

/* Returns RC_OK when every item has its outcome. RC_RETRY: for too long the database could not be
 * reached or the number of lanes was being changed. RC_REJECT: api.lane_count is not the number of
 * lanes. RC_FATAL: an operator must act. A later run may repeat items without an outcome. */
enum rc vote_run_items(struct vote_run *run, struct vote_item *items, size_t count,
                       struct err *err);

/* Prints err on stderr and returns the exit code for rc, a result of the functions above. */
int vote_run_fail(enum rc rc, const struct err *err);

#endif
