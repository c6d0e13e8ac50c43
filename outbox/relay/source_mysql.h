/* SPDX-License-Identifier: MIT */
/* The adapter that reads the outbox table of one lane, on a connection of its own. Requires SELECT
 * and DELETE on the table, SELECT on relay_position and relay_published; with PROCESS gaps are
 * closed earlier. Only the reader's thread uses it, except source_mysql_put_join(). */
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
    uint64_t term; /* see origin_mysql_renew() */
    struct writers_mysql *writers;
    const char *table; /* its name, also the key in relay_lease */
    uint64_t row_bytes_max;
    struct buf sql;
    struct buf columns; /* the SELECT list, valid for the session columns_session */
    uint64_t columns_session;
    bool has_created_at;
    bool id_padded;              /* id is of type CHAR */
    uint64_t statistics_session; /* the session whose statistics cache was disabled */
};

/* Which rows of the table are wanted. */
struct source_filter {
    int64_t from_ms; /* created_at, since 1970 */
    int64_t to_ms;   /* exclusive */
    const char *key; /* aggregateid; NULL: any */
    const char *type;
};

/* Borrows table, origin, writers and settings until source_mysql_close(). Does not connect yet.
 * For source_mysql_read_filtered() alone, origin (any database) and writers may be NULL. RC_FATAL:
 * no memory. */
enum rc source_mysql_open(struct source_mysql *source, const char *table,
                          struct origin_mysql *origin, struct writers_mysql *writers,
                          const struct settings *settings, struct err *err);

/* Accepts a zeroed source. */
void source_mysql_close(struct source_mysql *source);

/* The ops (relay_ops.h) are valid while source is open. */
struct source source_mysql_ops(struct source_mysql *source);

/* As the op read, for the rows that pass the filter; the table needs a column created_at. Does not
 * use the op begin. */
enum rc source_mysql_read_filtered(struct source_mysql *source, const struct seq_range *ranges,
                                   size_t count, const struct source_filter *filter,
                                   size_t rows_max, source_on_row on_row, void *on_row_ctx,
                                   struct err *err);

/* Appends the text after FROM of a statement that looks up single rows of an outbox table: a join
 * of the seqs of the ranges with the table, which has the alias o. Both servers may execute a list
 * of values in WHERE as a scan of the whole table when that is small, and a locking statement then
 * waits for unrelated rows. The join looks up each row by its primary key and touches no other row.
 * Any thread. */
void source_mysql_put_join(struct buf *sql, const char *table, const struct seq_range *ranges,
                           size_t count);

#endif
