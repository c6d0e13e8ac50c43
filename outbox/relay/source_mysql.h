/* SPDX-License-Identifier: MIT */
/* The outbox table of one lane, read through a connection of its own. Needs SELECT and DELETE on
 * it; PROCESS helps to close gaps early. The reader's thread. */
#ifndef OUTBOX_RELAY_SOURCE_MYSQL_H
#define OUTBOX_RELAY_SOURCE_MYSQL_H

#include "common/config/settings.h"
#include "common/db/db.h"
#include "outbox/relay/origin_mysql.h"
#include "outbox/relay/relay_ops.h"
#include "outbox/relay/writers_mysql.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct source_mysql {
    struct db *db;
    struct origin_mysql *origin;
    uint64_t turn; /* of the origin */
    struct writers_mysql *writers;
    const char *table; /* in relay_lease, too */
    uint64_t row_bytes_max;
    struct buf sql;
    struct buf columns; /* what is selected, for the session of columns_session */
    uint64_t columns_session;
    bool has_created_at;
    uint64_t statistics_session; /* for which information_schema is not cached */
};

/* Borrows table, origin, writers and settings. RC_FATAL: no memory. */
enum rc source_mysql_open(struct source_mysql *source, const char *table,
                          struct origin_mysql *origin, struct writers_mysql *writers,
                          const struct settings *settings, struct err *err);
void source_mysql_close(struct source_mysql *source);

struct source source_mysql_ops(struct source_mysql *source);

/* For adapters that look up rows of an outbox table one by one: appends what stands between FROM
 * and the end of the join; the table is called o in it. A list of values in WHERE may be found by
 * reading the whole table when that is small, and a statement that locks then waits for rows it
 * does not want. A join from a list looks up each by its key and touches nothing else, on both
 * servers. Any thread. */
void source_mysql_put_join(struct buf *sql, const char *table, const struct seq_range *ranges,
                           size_t count);

#endif
