/* SPDX-License-Identifier: MIT */
/* The statements of sink_mysql.c whose size grows with the batch. They are split so that the server
 * accepts and plans each of them quickly. One thread at a time. */
#ifndef CONSUMER_APPLY_SINK_ROWS_MYSQL_H
#define CONSUMER_APPLY_SINK_ROWS_MYSQL_H

#include "common/buf.h"
#include "common/db/db.h"
#include "common/err.h"
#include "consumer/apply/apply_row.h"

#include <stdbool.h>
#include <stddef.h>

/* See sink_ops.h. sql is scratch memory for one statement. */
enum rc sink_rows_lock_tallies(struct db *db, struct buf *sql, struct tally_row *tallies,
                               size_t count, struct err *err);
enum rc sink_rows_make_tallies(struct db *db, struct buf *sql, const struct tally_row *tallies,
                               size_t count, struct err *err);
enum rc sink_rows_write_tallies(struct db *db, struct buf *sql, const struct tally_row *tallies,
                                size_t count, struct err *err);
enum rc sink_rows_end_tallies(struct db *db, struct buf *sql, const struct tally_row *tallies,
                              size_t count, struct err *err);
enum rc sink_rows_read_lasts(struct db *db, struct buf *sql, struct last_row *lasts, size_t count,
                             struct err *err);
enum rc sink_rows_write_lasts(struct db *db, struct buf *sql, const struct last_row *lasts,
                              size_t count, struct err *err);
enum rc sink_rows_insert_votes(struct db *db, struct buf *sql, const struct vote_row *rows,
                               size_t count, bool *duplicate, struct err *err);
enum rc sink_rows_find_events(struct db *db, struct buf *sql, const struct vote_row *rows,
                              size_t count,
                              void (*on_found)(void *found_ctx, const struct id *event_id),
                              void *found_ctx, struct err *err);

#endif
