/* SPDX-License-Identifier: MIT */
/* The statements of turn_row.h, for any table with the columns name, owner, epoch, lease_until and
 * finished_at. table and name are our own words, never input. sql is for the statement at hand and
 * keeps its memory. One thread at a time. */
#ifndef CONSUMER_TURN_MYSQL_H
#define CONSUMER_TURN_MYSQL_H

#include "common/buf.h"
#include "common/db/db.h"
#include "common/err.h"
#include "consumer/turn_row.h"

#include <stdbool.h>
#include <stdint.h>

struct turn_mysql {
    struct db *db;
    struct buf *sql;
    const char *table;
    const char *name; /* of the row */
    uint64_t session; /* of db, that was told how long it may be silent; 0 before the first */
};

/* The end of a turn, for the SET of an UPDATE. */
#define TURN_MYSQL_FINISHED \
    "owner = '', lease_until = UTC_TIMESTAMP(3), finished_at = UTC_TIMESTAMP(3)"

/* Runs what is in sql. *affected (may be NULL): as db_exec(). */
enum rc turn_mysql_run(const struct turn_mysql *turn, uint64_t *affected, struct err *err);

/* Takes the turn for hold when the epoch is still hold->epoch - 1 and the lease is free, over or
 * already that owner's. After RC_RETRY it may be taken. */
enum rc turn_mysql_take(const struct turn_mysql *turn, const struct turn_hold *hold, bool *taken,
                        struct err *err);

/* Begins a transaction whose locks outlive a holder that freezes in it by 15 s, not more. */
enum rc turn_mysql_begin(struct turn_mysql *turn, struct err *err);

/* Inside a transaction: locks the row, so that owner and epoch are the same until its end. *held:
 * they are still hold's. */
enum rc turn_mysql_check(const struct turn_mysql *turn, const struct turn_hold *hold, bool *held,
                         struct err *err);

/* The same for a transaction that ends the turn: *held also when the turn has no owner since, as
 * after a COMMIT whose answer was lost. What it writes must be limited by
 * turn_mysql_put_where(). */
enum rc turn_mysql_check_end(const struct turn_mysql *turn, const struct turn_hold *hold,
                             bool *held, struct err *err);

/* Appends the WHERE that finds the row while hold's owner has it. */
void turn_mysql_put_where(const struct turn_mysql *turn, const struct turn_hold *hold);

/* Appends "lease_until = ..." to sql. */
void turn_mysql_put_lease(const struct turn_mysql *turn, const struct turn_hold *hold);

/* Gives the turn back unfinished; best effort. */
void turn_mysql_release(const struct turn_mysql *turn, const struct turn_hold *hold);

#endif
