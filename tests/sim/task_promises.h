/* SPDX-License-Identifier: MIT */
/* The promises of the retry queue, held against what its tables have come to: nothing is stuck, and
 * what has ended had its effect, or has its reason, its attempts and its callback. */
#ifndef TESTS_SIM_TASK_PROMISES_H
#define TESTS_SIM_TASK_PROMISES_H

#include "tests/sim/promises.h"

bool task_promises_rest(const struct sim *sim, struct waiting *waiting);
void task_promises_check(struct sim *sim);

struct task_edge;

/* A process that has recorded the pause of a scene claims nothing of it: an operator counts on the
 * record. */
void task_promise_recorded(const struct task_edge *edge, const char *scene);

#endif
