/* SPDX-License-Identifier: MIT */
/* The retry queue's handler `vote`: see vote_task.h. Every worker has a connection to the sink of
 * its own. */
#ifndef CONSUMER_HELD_VOTE_HANDLER_H
#define CONSUMER_HELD_VOTE_HANDLER_H

#include "outbox/retry/handler.h"

extern const struct retry_handler vote_handler;

#endif
