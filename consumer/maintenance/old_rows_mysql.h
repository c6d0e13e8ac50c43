/* SPDX-License-Identifier: MIT */
/* The statements that count, delete and mark old rows for housekeep_mysql.c. They keep locks
 * only on old rows; a lock on another row is released as soon as its age has been compared. One
 * thread at a time. */
#ifndef CONSUMER_MAINTENANCE_OLD_ROWS_MYSQL_H
#define CONSUMER_MAINTENANCE_OLD_ROWS_MYSQL_H

#include "common/buf.h"
#include "common/db/db.h"
#include "common/err.h"
#include "consumer/maintenance/old_rows.h"

#include <stddef.h>
#include <stdint.h>

struct old_rows {
    struct db *db; /* the database that has the rows */
    struct buf *sql;
    const char *group; /* its progress on topics is kept whatever its age */
    const char *topics;
};

/* See housekeep.h. */
enum rc old_rows_delete(const struct old_rows *rows, enum housekeep_kind kind, int64_t days,
                        size_t rows_max, uint64_t *count, struct err *err);
enum rc old_rows_count(const struct old_rows *rows, enum housekeep_kind kind, int64_t days,
                       uint64_t max, uint64_t *count, struct err *err);

#endif
