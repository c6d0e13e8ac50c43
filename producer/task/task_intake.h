/* SPDX-License-Identifier: MIT */
/* Takes in tasks for the retry queue and answers about them: a worker of the task queue. Decides
 * which tasks are refused because their scene is full or their handler does not take them. Requests
 * belong to any thread until they are queued. */
#ifndef PRODUCER_TASK_TASK_INTAKE_H
#define PRODUCER_TASK_TASK_INTAKE_H

#include "common/buf.h"
#include "common/err.h"
#include "common/stop.h"
#include "producer/queue.h"
#include "producer/task/task_item.h"
#include "producer/task/task_ops.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct retry_handlers;

#define TASK_INTAKE_ROOM_MS 1000 /* so long a count of a scene's tasks is believed */

enum task_intake_kind { TASK_INTAKE_SUBMIT, TASK_INTAKE_LIST, TASK_INTAKE_SHOW };

/* entry.weight is how many tasks are submitted, or 1. After QUEUE_DONE either failed is set and
 * fault says why nothing was done, or it is answered by items, or by body. */
struct task_intake_request {
    struct queue_entry entry; /* first */
    enum task_intake_kind kind;
    struct task_item *items; /* of TASK_INTAKE_SUBMIT; the good ones get tickets, or become bad */
    size_t count;
    bool ended; /* of TASK_INTAKE_LIST: in the history */
    size_t rows_max;
    struct retry_filter filter; /* of TASK_INTAKE_SHOW: one id */
    int64_t id;
    struct buf body; /* what was found, as JSON */
    bool failed;
    struct request_fault fault;
};

struct task_intake_config {
    struct queue *queue;
    size_t shard;
    const struct task_store *store;
    const struct retry_handlers *handlers; /* NULL: not known; borrowed */
    int64_t (*clock_ms)(void);             /* os_now_ms() */
    uint64_t (*rng)(void);                 /* os_random_u64() */
    struct stop *stop;                     /* of the process */
};

struct task_intake;

/* RC_FATAL: no memory. */
enum rc task_intake_open(struct task_intake **intake, const struct task_intake_config *config,
                         struct err *err);
void task_intake_close(struct task_intake *intake);

/* A loop_step. */
int64_t task_intake_step(void *intake, int64_t now_ms);

#endif
