/* SPDX-License-Identifier: MIT */
/* The handlers of the retry queue and the systems that they call, which fail, refuse, are slow, or
 * are called by a process that has lost its lease. */
#ifndef TESTS_SIM_TASK_WORK_H
#define TESTS_SIM_TASK_WORK_H

#include "outbox/retry/handler.h"
#include "tests/sim/tasks.h"

/* Each is opened with the struct proc that it runs in. */
extern const struct retry_handler *const task_handlers[TASK_HANDLERS];

#endif
