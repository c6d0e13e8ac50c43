/* SPDX-License-Identifier: MIT */
/* The actions of `tallybox dead` that change something, replay and drop: count the records, ask for
 * a confirmation, do the work or submit it to the retry queue (--queue), and report the outcome.
 * Main thread. */
#ifndef CONSUMER_DEAD_DEAD_DECIDE_COMMAND_H
#define CONSUMER_DEAD_DEAD_DECIDE_COMMAND_H

#include "common/config/settings.h"
#include "consumer/dead/dead_cli.h"
#include "consumer/dead/dead_mysql.h"

#include <stdint.h>

/* Replays or drops the records of the request, whose times are filled in. now_ms is the clock of
 * the database. Returns an enum exit_code: EXIT_FAILED if a record stays dead. */
int dead_decide(struct dead_mysql *mysql, struct dead_request *request,
                const struct settings *settings, int64_t now_ms);

#endif
