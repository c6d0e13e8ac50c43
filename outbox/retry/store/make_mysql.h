/* SPDX-License-Identifier: MIT */
/* Makes a task and claims it in one transaction, as make() of struct retry_store requires. One
 * thread at a time per store. */
#ifndef OUTBOX_RETRY_STORE_MAKE_MYSQL_H
#define OUTBOX_RETRY_STORE_MAKE_MYSQL_H

#include "common/err.h"
#include "outbox/retry/retry_ops.h"
#include "outbox/retry/store/store_mysql.h"

#include <stdint.h>

enum rc make_task(struct store *store, const struct retry_new_task *task, int64_t lease_ms,
                  retry_on_task on_task, void *on_task_ctx, struct retry_ticket *ticket,
                  struct err *err);

#endif
