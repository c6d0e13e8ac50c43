/* SPDX-License-Identifier: MIT */
/* Asks the handlers of the retry queue about tasks that are submitted: is there one of that name,
 * and does it take these options and parameters, and does the task's group allow what it would do?
 * Any thread. */
#ifndef PRODUCER_TASK_TASK_CHECK_H
#define PRODUCER_TASK_TASK_CHECK_H

#include "common/err.h"
#include "outbox/retry/group.h"
#include "outbox/retry/retry.h"

#include <stdbool.h>
#include <stddef.h>

struct retry_handlers;

#define TASK_HANDLERS_MAX 32

/* handlers NULL: nobody knows them, and any name and any options will do. */
bool task_check_known(const struct retry_handlers *handlers, const char *name);

/* The names of all of them; how many. */
size_t task_check_names(const struct retry_handlers *handlers,
                        const char *names[TASK_HANDLERS_MAX]);

/* err->code of a task that its group does not allow, in contrast to one that could never run. */
#define TASK_NOT_ALLOWED 403

/* scene_options: of its scene, a JSON object or ""; the task's own come on top. group: the task's,
 * or NULL where there is none. RC_REJECT: err says what is wrong. RC_FATAL: no memory. */
enum rc task_check(const struct retry_handlers *handlers, const struct retry_new_task *task,
                   const struct retry_group *group, const char *scene_options, struct err *err);

#endif
