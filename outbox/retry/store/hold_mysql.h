/* SPDX-License-Identifier: MIT */
/* Renews leases and ends expired ones, as beat() and rescue() of struct retry_store require. One
 * thread at a time per store. */
#ifndef OUTBOX_RETRY_STORE_HOLD_MYSQL_H
#define OUTBOX_RETRY_STORE_HOLD_MYSQL_H

#include "common/err.h"
#include "outbox/retry/retry_ops.h"
#include "outbox/retry/store/store_mysql.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum rc hold_beat(struct store *store, const int64_t *ids, const int64_t *epochs, size_t count,
                  int64_t lease_ms, bool *lost, struct err *err);
enum rc hold_rescue(struct store *store, size_t rows_max, size_t *count, size_t *shortened,
                    struct err *err);

#endif
