/* SPDX-License-Identifier: MIT */
/* `tallybox dead replay --queue`: submits the records to the retry queue instead of applying them
 * at once. Main thread. */
#ifndef CONSUMER_DEAD_DEAD_QUEUE_COMMAND_H
#define CONSUMER_DEAD_DEAD_QUEUE_COMMAND_H

#include "common/config/settings.h"
#include "consumer/dead/dead_mysql.h"
#include "consumer/dead/dead_request.h"

/* Makes one task for the records of each key, for each page of records that the request's filter
 * selects. Returns an enum exit_code. A second call with the same records makes no second task
 * while the first one is active. */
int dead_queue(struct dead_mysql *mysql, struct dead_request *request,
               const struct settings *settings);

#endif
