/* SPDX-License-Identifier: MIT */
/* Which dead records are meant, as SQL. One thread at a time. */
#ifndef CONSUMER_DEAD_DEAD_FILTER_MYSQL_H
#define CONSUMER_DEAD_DEAD_FILTER_MYSQL_H

#include "common/buf.h"
#include "common/db/db.h"
#include "consumer/dead/dead.h"

#include <stdint.h>

/* Appends the conditions of the filter on the table's alias, joined by AND; 1 when it has none.
 * `id_column` is where the id of dead_record stands. */
void dead_filter_put(struct db *db, struct buf *sql, const struct dead_filter *filter,
                     const char *alias, const char *id_column);

/* Appends " AND ...": its cause may pass. */
void dead_held_put(struct buf *sql, const char *alias);

/* Appends "id IN (...)". */
void dead_ids_put(struct buf *sql, const char *alias, const char *id_column, const int64_t *ids,
                  size_t count);

/* Appends a time in ms since 1970 as a DATETIME(3). */
void dead_time_put(struct buf *sql, int64_t ms);

#endif
