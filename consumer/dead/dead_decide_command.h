/* SPDX-License-Identifier: MIT */
/* The two actions of `tallybox dead` that change something: counts, asks, works and tells. Main
 * thread. */
#ifndef CONSUMER_DEAD_DEAD_DECIDE_COMMAND_H
#define CONSUMER_DEAD_DEAD_DECIDE_COMMAND_H

#include "common/config/settings.h"
#include "consumer/dead/dead_mysql.h"
#include "consumer/dead/dead_request.h"

#include <stdint.h>

/* Replays or drops what is asked for, whose times are filled in. now_ms: the database's clock.
 * Returns an enum exit_code: EXIT_FAILED when something stays dead. */
int dead_decide(struct dead_mysql *mysql, struct dead_request *request,
                const struct settings *settings, int64_t now_ms);

#endif
