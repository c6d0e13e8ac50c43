/* SPDX-License-Identifier: MIT */
/* Rows of an outbox table looked up one by one. A list of values in WHERE may be found by reading
 * the whole table when that is small, and a statement that locks then waits for rows it does not
 * want. A join from a list looks up each by its key and touches nothing else, on both servers.
 * Pure. */
#ifndef OUTBOX_RELAY_SEQ_MYSQL_H
#define OUTBOX_RELAY_SEQ_MYSQL_H

#include "common/buf.h"
#include "outbox/relay/relay_seam.h"

#include <stddef.h>

/* Appends what stands between FROM and the end of the join; the table is called o in it. */
void seq_put_join(struct buf *sql, const char *lane, const struct seq_range *ranges, size_t count);

#endif
