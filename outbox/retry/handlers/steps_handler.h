/* SPDX-License-Identifier: MIT */
/* The handler `steps`: hands each step of a task to another handler, one an attempt, and goes on
 * after a failure with the step that failed. A step's idempotency key is the task's, "/" and its
 * number. */
#ifndef OUTBOX_RETRY_HANDLERS_STEPS_HANDLER_H
#define OUTBOX_RETRY_HANDLERS_STEPS_HANDLER_H

#include "outbox/retry/handler.h"

extern const struct retry_handler retry_steps_handler;

#endif
