/* SPDX-License-Identifier: MIT */
/* The handlers of the retry queue and the world outside that they change: what fails, is refused,
 * takes long, or is done by somebody who should have stopped long ago. */
#ifndef TESTS_SIM_TASK_WORK_H
#define TESTS_SIM_TASK_WORK_H

#include "outbox/retry/handler.h"
#include "tests/sim/tasks.h"

/* What is opened for each is the struct proc that it runs in. */
extern const struct retry_handler *const task_handlers[TASK_HANDLERS];

#endif
