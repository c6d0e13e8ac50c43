/* SPDX-License-Identifier: MIT */
/* The adapter of a stream lane's cleaner, on one connection. All calls between two reads of an
 * entry use the same database (origin_mysql.h): in another one, which lacks the last transactions,
 * other rows may have the seqs. Requires SELECT and DELETE on relay_published, with keep_ids_max on
 * relay_published_id, and on the lane's table, and SELECT on relay_lease. Only the cleaner's thread
 * uses it. */
#ifndef OUTBOX_RELAY_STREAM_STREAM_CLEANER_MYSQL_H
#define OUTBOX_RELAY_STREAM_STREAM_CLEANER_MYSQL_H

#include "common/buf.h"
#include "common/config/settings.h"
#include "common/err.h"
#include "outbox/relay/deleter_mysql.h"
#include "outbox/relay/origin_mysql.h"
#include "outbox/relay/partitions/partitions_mysql.h"
#include "outbox/relay/stream/cleaner_ops.h"
#include "outbox/relay/stream/published_kind_mysql.h"

#include <stdbool.h>

struct stream_cleaner_mysql {
    const char *table; /* NULL: not open */
    const char *owner;
    struct id_column id;
    char created_at[SETTING_NAME_SIZE];
    struct deleter_mysql deletes;
    struct partitions_mysql partitions;
    struct origin_mysql origin;
    bool origin_lost; /* the next entry may be read from another database */
    struct buf sql;
};

/* Borrows lane, owner and settings until stream_cleaner_mysql_close(). Does not connect yet.
 * RC_FATAL: no memory. Close it after a failure, too. */
enum rc stream_cleaner_mysql_open(struct stream_cleaner_mysql *cleaner,
                                  const struct lane_settings *lane, const char *owner,
                                  const struct settings *settings, struct err *err);

/* Accepts a zeroed cleaner. */
void stream_cleaner_mysql_close(struct stream_cleaner_mysql *cleaner);

/* The ops of both are valid while cleaner is open; the partition ops use the same connection. */
struct cleaner_ops stream_cleaner_mysql_ops(struct stream_cleaner_mysql *cleaner);
struct partition_ops stream_cleaner_mysql_partition_ops(struct stream_cleaner_mysql *cleaner);

#endif
