/* SPDX-License-Identifier: MIT */
/* Takes single tasks that are to be tried first: the worker of their queue. Decides as the task
 * intake which tasks are refused; the ops of outbox/retry/first_try.h decide which are tried. A
 * request whose try has begun is answered when the try has ended, and others are taken meanwhile. A
 * request belongs to the thread that makes it until it is queued. */
#ifndef PRODUCER_TASK_TRY_INTAKE_H
#define PRODUCER_TASK_TRY_INTAKE_H

#include "common/err.h"
#include "outbox/retry/first_try.h"
#include "producer/producer_ops.h"
#include "producer/queue.h"
#include "producer/task/task_intake.h"

#include <stddef.h>
#include <stdint.h>

struct try_intake_config {
    struct queue *queue; /* of struct task_intake_request with first_try; one shard */
    const struct task_store *store;
    const struct first_try_ops *tries;     /* their on_end is try_intake_on_end() */
    size_t tries_max;                      /* at the same time */
    const struct retry_handlers *handlers; /* borrowed; NULL: any handler is accepted */
    int64_t (*clock_ms)(void);             /* os_now_ms() */
    uint64_t (*rng)(void);                 /* os_random_u64() */
    struct stop *stop;                     /* of the process */
};

struct try_intake;

/* RC_FATAL: no memory. */
enum rc try_intake_open(struct try_intake **intake, const struct try_intake_config *config,
                        struct err *err);
/* Answers the requests that it still has: their outcome is unknown. NULL is allowed. */
void try_intake_close(struct try_intake *intake);

/* A loop_step. It is woken when the queue has a request and when a try has ended. */
int64_t try_intake_step(void *intake, int64_t now_ms);

/* A first_try_on_end. */
void try_intake_on_end(void *intake, void *owner, const struct first_try_result *result);

#endif
