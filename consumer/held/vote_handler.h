/* SPDX-License-Identifier: MIT */
/* The handler `vote` of the retry queue; see vote_task.h. Each worker has its own connection to the
 * sink. */
#ifndef CONSUMER_HELD_VOTE_HANDLER_H
#define CONSUMER_HELD_VOTE_HANDLER_H

#include "outbox/retry/handler.h"

extern const struct retry_handler vote_handler;

#endif
