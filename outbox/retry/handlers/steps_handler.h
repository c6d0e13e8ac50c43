/* SPDX-License-Identifier: MIT */
/* The handler `steps`: runs one step of a task per attempt with the step's handler, and repeats
 * only the failed step after a failure. A step's idempotency key is the task's, "/" and its
 * number. */
#ifndef OUTBOX_RETRY_HANDLERS_STEPS_HANDLER_H
#define OUTBOX_RETRY_HANDLERS_STEPS_HANDLER_H

#include "outbox/retry/handler.h"

extern const struct retry_handler retry_steps_handler;

#endif
