/* SPDX-License-Identifier: MIT */
/* Checks a task that a client submits: whether its handler exists and accepts its options and
 * parameters, and whether the task's group allows its effects. Any thread. */
#ifndef PRODUCER_TASK_TASK_CHECK_H
#define PRODUCER_TASK_TASK_CHECK_H

#include "common/err.h"
#include "outbox/retry/group.h"
#include "outbox/retry/retry.h"

#include <stdbool.h>
#include <stddef.h>

struct retry_handlers;

#define TASK_HANDLERS_MAX 32

/* Whether there is a handler of this name. handlers NULL: any name and any options are accepted. */
bool task_check_known(const struct retry_handlers *handlers, const char *name);

/* Writes the names of all handlers and returns their number. */
size_t task_check_names(const struct retry_handlers *handlers,
                        const char *names[TASK_HANDLERS_MAX]);

/* err->code if the group does not allow the task; otherwise the task could never run. */
#define TASK_NOT_ALLOWED 403

/* scene_options: those of its scene, a JSON object or ""; the task's own options override them.
 * group: the row of the task's group, or NULL if there is none. RC_REJECT: the task is not accepted
 * for the reason in err. RC_FATAL: no memory. */
enum rc task_check(const struct retry_handlers *handlers, const struct retry_new_task *task,
                   const struct retry_group *group, const char *scene_options, struct err *err);

#endif
