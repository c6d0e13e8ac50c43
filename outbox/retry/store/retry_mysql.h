/* SPDX-License-Identifier: MIT */
/* struct retry_store for MySQL: the table of ops, and a store with the memory that its calls need.
 * The calls are in claim_mysql, finish_mysql and look_mysql. One thread at a time per store; a
 * process that claims, finishes and renews in several threads opens several. */
#ifndef OUTBOX_RETRY_STORE_RETRY_MYSQL_H
#define OUTBOX_RETRY_STORE_RETRY_MYSQL_H

#include "common/config/settings.h"
#include "common/err.h"
#include "outbox/retry/retry_ops.h"
#include "outbox/retry/store/store_mysql.h"

#include <stdbool.h>

/* Borrows settings and owner, the name of this instance. RC_FATAL: no memory; the store is closed
 * then. */
enum rc retry_mysql_open(struct store *store, const struct settings *settings, const char *owner,
                         bool compare_and_set, struct err *err);
/* A zeroed store may be closed, too. */
void retry_mysql_close(struct store *store);

/* The ops are valid while store is open. */
struct retry_store retry_mysql_ops(struct store *store);

#endif
