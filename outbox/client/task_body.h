/* SPDX-License-Identifier: MIT */
/* The JSON of POST /v1/tasks, of which the server's side is producer/task/task_json.h. Pure; any
 * thread. */
#ifndef OUTBOX_CLIENT_TASK_BODY_H
#define OUTBOX_CLIENT_TASK_BODY_H

#include "common/buf.h"
#include "common/err.h"

#include <stddef.h>
#include <tallybox/task.h>

/* Appends one task, which tallybox_task_check() has accepted, as an object. key: its idempotency
 * key; NULL: none. Parameters go as base64, so that each byte arrives as it is. */
void task_body_put(struct buf *out, const struct tallybox_task *task, const char *key);

/* Reads the answer to a request of `count` tasks. RC_RETRY: it is not one. */
enum rc task_answers_read(const char *body, size_t len, size_t count,
                          struct tallybox_answer *answers, struct err *err);

#endif
