/* SPDX-License-Identifier: MIT */
/* A cut between the table of a lane and the binary log: all rows up to a seq were committed before
 * a position of the log, and all rows that are committed later are behind that position. One
 * thread. Requires SELECT on the table, LOCK TABLES on its database, and what
 * position_mysql_read_end() requires. */
#ifndef OUTBOX_RELAY_STREAM_TABLE_CUT_MYSQL_H
#define OUTBOX_RELAY_STREAM_TABLE_CUT_MYSQL_H

#include "common/config/settings.h"
#include "common/db/db.h"
#include "common/err.h"
#include "outbox/relay/stream/stream_ops.h"

#include <stdbool.h>
#include <stdint.h>

struct table_cut {
    struct stream_position position; /* position.before is the caller's */
    int64_t low_seq; /* the lowest and the highest row of the table; 0: it is empty */
    int64_t high_seq;
};

/* Sets *has whether the primary key of the table is a column seq. After a failure it is true: texts
 * that only name `tallybox relay source` then do so, and the command tells what is wrong. */
enum rc table_cut_mysql_has_seq(struct db *db, const char *table, bool *has, struct err *err);

/* Returns lost_log_obstacle() of the table of the lane, whose key is looked up. db NULL, or a
 * failed query, counts as a key that is a column seq, as above. */
const char *table_cut_mysql_find_obstacle(struct db *db, const struct lane_settings *lane,
                                          bool has_position);

/* Makes a cut. The table must have a seq. Waits until no transaction that has written into the
 * table is open, for a second at most: writers wait behind it meanwhile.
 * RC_RETRY: a transaction was open for longer, or a prepared XA transaction is left, among others.
 * RC_FATAL: among others, the log does not have all rows. */
enum rc table_cut_mysql_make(struct db *db, const char *table, struct table_cut *cut,
                             struct err *err);

#endif
