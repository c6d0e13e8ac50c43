/* SPDX-License-Identifier: MIT */
/* The tasks that the retry role has published in Kafka transactions, of one lane and shard, and
 * that may be in the retry queue still: the value of a record in the topic of positions. A task is
 * named by its id and a hash of its idempotency key, because after a fail-over another task may get
 * the id. Pure; one thread at a time. */
#ifndef OUTBOX_RELAY_EXACT_PUBLISHED_TASKS_H
#define OUTBOX_RELAY_EXACT_PUBLISHED_TASKS_H

#include "common/buf.h"
#include "common/err.h"
#include "outbox/relay/relay_row.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A task stays in the list while it is in flight in the process that published it, and longer if
 * that process has ended before the next task was published. Such a task is dropped after
 * PUBLISHED_TASKS_S, or for another one when there are too many: the oldest one. */
#define PUBLISHED_TASKS_MAX 2000
#define PUBLISHED_TASKS_S INT64_C(604800) /* seven days */

struct published_task {
    int64_t id;
    uint64_t hash;
    int64_t time_s; /* when it was published, since 1970 */
};

/* A zeroed one is empty. */
struct published_tasks {
    struct published_task tasks[PUBLISHED_TASKS_MAX]; /* the oldest first */
    size_t count;
};

struct published_task published_task_name(int64_t id, const char *idempotency_key, int64_t time_s);

bool published_tasks_has(const struct published_tasks *tasks, const struct published_task *task);

/* Adds a task that is not in the list, and drops old ones; its time is the present time. */
void published_tasks_add(struct published_tasks *tasks, const struct published_task *task);

/* Does nothing if the task is not in the list. */
void published_tasks_remove(struct published_tasks *tasks, const struct published_task *task);

/* Appends the text; text->failed when memory is exhausted. */
void published_tasks_put(struct buf *text, const struct published_tasks *tasks);

/* Reads a text. RC_FATAL: it is no such text; err says why, and the list is empty. */
enum rc published_tasks_read(struct published_tasks *tasks, struct bytes text, struct err *err);

#endif
