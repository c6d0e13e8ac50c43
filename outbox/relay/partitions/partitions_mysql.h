/* SPDX-License-Identifier: MIT */
/* The adapter of partition_ops.h, on the connection of the cleaner (stream_cleaner_mysql.h).
 * Requires SELECT, ALTER, CREATE, DROP and INSERT on the table, LOCK TABLES on its database, SELECT
 * and DELETE on relay_published, SELECT on relay_lease, and on MariaDB PROCESS. Statements that
 * need the table alone wait for it for a second at most, and writers wait behind them for as long.
 */
#ifndef OUTBOX_RELAY_PARTITIONS_PARTITIONS_MYSQL_H
#define OUTBOX_RELAY_PARTITIONS_PARTITIONS_MYSQL_H

#include "common/buf.h"
#include "common/err.h"
#include "outbox/relay/deleter_mysql.h"
#include "outbox/relay/partitions/partition_ops.h"

#include <stdbool.h>

struct partitions_mysql {
    struct deleter_mysql *deletes; /* its connection, table and owner */
    struct buf sql;
    struct buf rows; /* an entry */
};

/* Borrows deletes, which is open. */
void partitions_mysql_init(struct partitions_mysql *partitions, struct deleter_mysql *deletes);
void partitions_mysql_done(struct partitions_mysql *partitions);

/* Sets *is whether the table is partitioned by ranges of its column seq alone, by partitions whose
 * names need no quotes. The connection is open. */
enum rc partitions_mysql_find(struct partitions_mysql *partitions, bool *is, struct err *err);

/* The ops are valid until partitions_mysql_done(). */
struct partition_ops partitions_mysql_ops(struct partitions_mysql *partitions);

#endif
