/* SPDX-License-Identifier: MIT */
/* The part of serve that tries tasks first: the queue of the requests, the thread that takes them,
 * and the threads of outbox/retry/first_tries_role.h. The main thread; any thread may use the
 * queue. */
#ifndef PRODUCER_SERVE_TRIES_H
#define PRODUCER_SERVE_TRIES_H

#include "common/daemon/role.h"
#include "common/err.h"
#include "producer/queue.h"

#include <stdint.h>

struct retry_handlers;
struct serve_tries;

/* NULL: by the settings no task is tried first. Borrows all pointers: env, the handlers that check
 * a task, and the stop of the role's threads. RC_FATAL: no memory; otherwise the result of a
 * handler's open(). */
enum rc serve_tries_open(struct serve_tries **tries, const struct role_env *env,
                         const struct retry_handlers *handlers, struct stop *stop, struct err *err);
/* NULL is allowed. */
void serve_tries_close(struct serve_tries *tries);

/* Of struct task_intake_request with first_try. */
struct queue *serve_tries_queue(struct serve_tries *tries);

/* RC_FATAL: a thread cannot be started; the started ones end after the stop. */
enum rc serve_tries_start(struct serve_tries *tries, struct err *err);

/* Takes no more requests, and answers those that wait. */
void serve_tries_refuse(struct serve_tries *tries);

/* Ends a statement that runs now. */
void serve_tries_interrupt(struct serve_tries *tries);

/* After the stop was requested: joins the threads and answers all requests. Tries that run end
 * soon, and their tasks return to the table until until_ms (os_now_ms()). NULL is allowed. */
void serve_tries_join(struct serve_tries *tries, int64_t until_ms);

#endif
