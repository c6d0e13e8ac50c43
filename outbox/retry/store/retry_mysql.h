/* SPDX-License-Identifier: MIT */
/* struct retry_store for MySQL: opens a store, and dispatches each call to the file that does it.
 * One thread at a time; a process that polls, finishes and beats in several threads opens
 * several. */
#ifndef OUTBOX_RETRY_STORE_RETRY_MYSQL_H
#define OUTBOX_RETRY_STORE_RETRY_MYSQL_H

#include "common/config/settings.h"
#include "common/err.h"
#include "outbox/retry/retry_ops.h"
#include "outbox/retry/store/store_mysql.h"

#include <stdbool.h>

/* Borrows settings and owner, the name of this instance. RC_FATAL: no memory. */
enum rc retry_mysql_open(struct store *store, const struct settings *settings, const char *owner,
                         bool compare_and_set, struct err *err);
/* A zeroed store may be closed, too. */
void retry_mysql_close(struct store *store);

struct retry_store retry_mysql_ops(struct store *store);

#endif
