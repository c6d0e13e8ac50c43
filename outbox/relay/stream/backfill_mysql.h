/* SPDX-License-Identifier: MIT */
/* The adapter of a backfill: it reads the rows of a lane's table and which of them are published,
 * saves them as published in relay_published, and keeps the lane meanwhile. One thread. Requires
 * what `tallybox relay` requires for the lane. */
#ifndef OUTBOX_RELAY_STREAM_BACKFILL_MYSQL_H
#define OUTBOX_RELAY_STREAM_BACKFILL_MYSQL_H

#include "common/buf.h"
#include "common/config/settings.h"
#include "common/db/db.h"
#include "common/loop.h"
#include "outbox/relay/deleter_mysql.h"
#include "outbox/relay/diverter_mysql.h"
#include "outbox/relay/origin_mysql.h"
#include "outbox/relay/source_mysql.h"
#include "outbox/relay/stream/backfill_ops.h"
#include "outbox/relay/stream/lane_hold_mysql.h"
#include "outbox/relay/stream/stream_ops.h"
#include "outbox/relay/writers_mysql.h"

#include <stdbool.h>
#include <stdint.h>

struct backfill_mysql {
    const struct settings *settings;
    const struct lane_settings *lane; /* NULL: not open */
    const struct stop *stop;
    struct stop pause; /* waits also after a signal */
    int64_t wait_ms;   /* how long the lane may take to pass a position */
    struct origin_mysql origin;
    struct writers_mysql writers;
    struct db *db;
    struct source_mysql source;
    struct deleter_mysql deletes;
    struct diverter_mysql diverts;
    struct db *hold_db; /* of hold alone: a statement of the others may take long */
    struct lane_hold hold;
    struct stream_position end; /* of the log, which the lane has to pass */
    bool has_end;               /* by backfill_mysql_note_end() */
    struct buf sql;
    struct buf ranges;
};

/* Borrows all parameters until backfill_mysql_close(). Does not connect yet. RC_FATAL: no memory.
 * Close it after a failure, too. */
enum rc backfill_mysql_open(struct backfill_mysql *backfill, const struct lane_settings *lane,
                            const struct settings *settings, const struct stop *stop,
                            int64_t wait_ms, struct err *err);

/* Gives the lane back. Accepts a zeroed one. */
void backfill_mysql_close(struct backfill_mysql *backfill);

/* Whether the lane has a position, whether it has rows that are saved as published, and by which
 * source relays are to read it, if a command has set that. */
struct lane_record {
    bool has_position;
    bool from_table; /* a relay has begun to let the lane go on from its table, in its stead */
    bool has_published;
    bool is_set; /* to the log or, if not to_log, to the table */
    bool to_log;
};

enum rc backfill_mysql_read_record(struct backfill_mysql *backfill, struct lane_record *record,
                                   struct err *err);

/* RC_REJECT: the primary key of the table is no column seq, or the columns have other names.
 * to_table: the lane is to read the table from now on. */
enum rc backfill_mysql_check_table(struct backfill_mysql *backfill, bool to_table, struct err *err);

/* Lets only relays with this source (LANE_SOURCE_...) take the lane and deletes its position, in
 * one transaction, if the lease is still held: a relay meets both or neither. After RC_RETRY it may
 * be done, among others, and repeating it is harmless. Requires DELETE on relay_position. */
enum rc backfill_mysql_set_source(struct backfill_mysql *backfill, const char *source,
                                  struct err *err);

/* Makes the position of the lane one of a lane that goes on from its table, if the hold is still
 * its: from then on no log is read at it. */
enum rc backfill_mysql_leave_log(struct backfill_mysql *backfill, struct err *err);

/* When the row with this seq was made, in seconds since 1970, as its writer says. *found is false
 * when there is no such row any more. RC_REJECT: the table has no column created_at. */
enum rc backfill_mysql_row_time(struct backfill_mysql *backfill, int64_t seq, int64_t *time_s,
                                bool *found, struct err *err);

/* Reads where the log of the server ends now, for backfill_mysql_check_entries(). A server that
 * does not tell it, because it writes no log or the account lacks a privilege, is no error: the end
 * is unknown then. */
enum rc backfill_mysql_note_end(struct backfill_mysql *backfill, struct err *err);

/* Whether the rows that are saved as published may be others than those of the table. Called
 * before rows are left out or deleted because of them, if what has emptied the table may be in a
 * part of the log that the lane does not read. If the lane has passed the end that was noted, what
 * came before it is known, and a time of a row in the future means nothing. RC_REJECT: it was
 * emptied. */
enum rc backfill_mysql_check_entries(struct backfill_mysql *backfill, struct err *err);

/* The highest seq of the table; 0: it is empty. */
enum rc backfill_mysql_highest_seq(struct backfill_mysql *backfill, int64_t *seq, struct err *err);

/* The ops, but for on_refused, valid while backfill is open and holds the lane. With a lease
 * refused rows are moved into the retry queue, and rows wait for nothing. With a lock they stay,
 * and the lane has to pass the end of the log first. */
struct backfill_ops backfill_mysql_ops(struct backfill_mysql *backfill);

#endif
