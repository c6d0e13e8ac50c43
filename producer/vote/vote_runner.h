/* SPDX-License-Identifier: MIT */
/* Runs votes of the command line through the engine and waits while the database cannot be reached.
 * One thread. */
#ifndef PRODUCER_VOTE_VOTE_RUNNER_H
#define PRODUCER_VOTE_VOTE_RUNNER_H

#include "common/config/settings.h"
#include "common/err.h"
#include "common/loop.h"
#include "producer/producer_mysql.h"
#include "producer/vote/vote.h"

#include <stddef.h>

/* Items of one call. */
#define VOTE_RUNNER_ITEMS_MAX 1000

struct vote_runner {
    struct producer_mysql *store;
    struct vote_engine *engine;
    struct stop stop; /* only for waiting */
};

/* settings are borrowed until the close. */
enum rc vote_runner_open(struct vote_runner *runner, const struct settings *settings,
                         struct err *err);
void vote_runner_close(struct vote_runner *runner);

/* Returns RC_OK when every item has its outcome. RC_RETRY: for too long the database could not be
 * reached or the number of lanes was being changed. RC_REJECT: api.lane_count is not the number of
 * lanes. RC_FATAL: an operator must act. A later run may repeat items without an outcome. */
enum rc vote_runner_run(struct vote_runner *runner, struct vote_item *items, size_t count,
                        struct err *err);

/* Prints err on stderr and returns the exit code for rc, a result of the functions above. */
int vote_runner_fail(enum rc rc, const struct err *err);

#endif
