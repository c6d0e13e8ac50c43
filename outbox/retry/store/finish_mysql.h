/* SPDX-License-Identifier: MIT */
/* Writes task updates in one transaction, and deletes done tasks that were kept for long enough, as
 * finish() and forget() of struct retry_store require. One thread at a time per store. */
#ifndef OUTBOX_RETRY_STORE_FINISH_MYSQL_H
#define OUTBOX_RETRY_STORE_FINISH_MYSQL_H

#include "common/err.h"
#include "outbox/retry/retry_ops.h"
#include "outbox/retry/store/store_mysql.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The memory of a write-back. RC_FATAL: no memory. */
enum rc finish_open(struct finishing **finishing, struct err *err);
void finish_close(struct finishing *finishing);

enum rc finish_tasks(struct store *store, const struct task_update *updates, size_t count,
                     enum task_written *written, struct err *err);
enum rc finish_forget_done(struct store *store, size_t rows_max, size_t *count, struct err *err);

#endif
