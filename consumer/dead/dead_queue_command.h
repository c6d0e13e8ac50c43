/* SPDX-License-Identifier: MIT */
/* `tallybox dead replay --queue`: hands the records to the retry queue instead of applying them at
 * once. Main thread. */
#ifndef CONSUMER_DEAD_DEAD_QUEUE_COMMAND_H
#define CONSUMER_DEAD_DEAD_QUEUE_COMMAND_H

#include "common/config/settings.h"
#include "consumer/dead/dead_mysql.h"
#include "consumer/dead/dead_request.h"

/* Makes a task for the records of each key that the request's filter selects. Returns an enum
 * exit_code. Done twice there are no more tasks than done once, while they are not done. */
int dead_queue(struct dead_mysql *mysql, struct dead_request *request,
               const struct settings *settings);

#endif
