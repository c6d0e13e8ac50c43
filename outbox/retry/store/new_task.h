/* SPDX-License-Identifier: MIT */
/* Checks new tasks of the retry queue and computes the hash that identifies equal ones. Pure; any
 * thread. */
#ifndef OUTBOX_RETRY_STORE_NEW_TASK_H
#define OUTBOX_RETRY_STORE_NEW_TASK_H

#include "common/err.h"
#include "outbox/retry/retry.h"

#include <stddef.h>

#define NEW_TASK_HASH_BYTES 32
#define NEW_TASK_PARAMS_TYPE_BYTES_MAX 128
#define NEW_TASK_DELAY_MS_MAX (INT64_C(100) * 366 * 86400 * 1000)

struct new_task_hash {
    unsigned char bytes[NEW_TASK_HASH_BYTES];
};

/* Checks a task. RC_REJECT: err names the task by its number, and its fault. */
enum rc new_task_check(const struct retry_new_task *task, size_t number, struct err *err);

/* Computes retry_task.task_hash as the database does: of origin, group, scene and idempotency key,
 * or of what the task does. RC_FATAL: no memory. */
enum rc new_task_hash(const struct retry_new_task *task, enum retry_owner origin,
                      struct new_task_hash *hash, struct err *err);

/* Returns the task's group, or the default one. */
const char *new_task_group(const struct retry_new_task *task);

#endif
