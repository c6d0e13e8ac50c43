/* SPDX-License-Identifier: MIT */
/* Decides whether a submitted task is accepted: whether its group and its handler take it, and
 * whether its scene has room. Remembers what the database holds of scenes for a short time. One
 * thread at a time. */
#ifndef PRODUCER_TASK_TASK_CHECK_H
#define PRODUCER_TASK_TASK_CHECK_H

#include "common/err.h"
#include "producer/producer_ops.h"
#include "producer/task/task_json.h"

#include <stddef.h>
#include <stdint.h>

struct retry_handlers;

#define TASK_CHECK_ROOM_MS 1000 /* how long the count of a scene's tasks is used */

struct task_check;

/* store and handlers are borrowed; handlers NULL: any handler is accepted. clock_ms is os_now_ms().
 * RC_FATAL: no memory. */
enum rc task_check_open(struct task_check **check, const struct task_store *store,
                        const struct retry_handlers *handlers, int64_t (*clock_ms)(void),
                        struct err *err);
/* NULL is allowed. */
void task_check_close(struct task_check *check);

/* Before the items of a request, also of one that is repeated. */
void task_check_begin(struct task_check *check);

/* Checks item `index` of count ones of a request. RC_OK also if the task is not accepted: the item
 * is bad then. RC_RETRY, RC_FATAL: as the ops of the store. */
enum rc task_check_item(struct task_check *check, struct task_item *items, size_t index,
                        size_t count, struct err *err);

/* The task of an accepted item takes no room in its scene: it existed already, or has ended. */
void task_check_gone(struct task_check *check, const struct task_item *item);

#endif
