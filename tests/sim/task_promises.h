/* SPDX-License-Identifier: MIT */
/* Checks the promises of the retry queue at the end of a run: no task is stuck, and each ended task
 * had its effect, or has its reason, its attempts and its callback. */
#ifndef TESTS_SIM_TASK_PROMISES_H
#define TESTS_SIM_TASK_PROMISES_H

#include "tests/sim/promises.h"

bool task_promises_rest(const struct sim *sim, struct waiting *waiting);
void task_promises_check(struct sim *sim);

struct task_adapter;

/* A process that has recorded the pause of a scene claims no task of it: an operator relies on the
 * record. */
void task_promise_recorded(const struct task_adapter *adapter, const char *scene);

#endif
