/* SPDX-License-Identifier: MIT */
/* Ranges of seq as the outbox table's statements write them. Pure. */
#ifndef OUTBOX_RANGE_MYSQL_H
#define OUTBOX_RANGE_MYSQL_H

#include "common/buf.h"
#include "outbox/relay_seam.h"

#include <stddef.h>

/* Appends "seq = 1 OR (seq >= 3 AND seq <= 5) ..."; count > 0. Both servers read each range from
 * the primary key. */
void range_put(struct buf *sql, const struct seq_range *ranges, size_t count);

#endif
