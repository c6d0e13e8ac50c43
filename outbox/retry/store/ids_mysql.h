/* SPDX-License-Identifier: MIT */
/* Lists of task ids in the statements of the retry lane's edges. Any thread. */
#ifndef OUTBOX_RETRY_STORE_IDS_MYSQL_H
#define OUTBOX_RETRY_STORE_IDS_MYSQL_H

#include "common/buf.h"

#include <stddef.h>
#include <stdint.h>

/* MariaDB makes a join of a longer list (in_predicate_conversion_threshold), which locks in another
 * order. */
#define IDS_AT_ONCE 500

/* "IN (1,2,3)" behind a column that is read with FORCE INDEX (PRIMARY): a range of single rows in
 * their order, so that two who lock the same ones meet at the first. */
void ids_put(struct buf *sql, const int64_t *ids, size_t count);

#endif
