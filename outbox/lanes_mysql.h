/* SPDX-License-Identifier: MIT */
/* The steps of a change of the number of lanes. Each step may be repeated, and the change may stop
 * after each of them. outbox/lanes.h explains why they keep the order of keys. One thread per db.
 *
 * Errors as db_exec(), unless a comment says otherwise. */
#ifndef OUTBOX_LANES_MYSQL_H
#define OUTBOX_LANES_MYSQL_H

#include "common/db/db.h"
#include "common/err.h"
#include "outbox/lanes.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Rows and tasks are counted up to this number. */
#define LANES_LEFT_MAX 10000

/* The events of a lane that are not known to be in its topic. */
struct lanes_left {
    int64_t rows;
    int64_t tasks; /* in the retry queue */
};

/* Creates the lane's table like outbox when it is missing; *made tells whether it did. When the
 * account lacks the privilege, err contains the statement to run. */
enum rc lanes_make_table(struct db *db, size_t lane, bool *made, struct err *err);

/* Stores that a change to next is under way: from its COMMIT on no writer appends. *lanes is the
 * row as written. RC_RETRY: the commit is unknown, or a writer's transaction has held its shared
 * lock for longer than a second. */
enum rc lanes_begin(struct db *db, int64_t next, struct lanes *lanes, struct err *err);

/* Counts the rows and tasks of a lane that are not known to be in its topic. */
enum rc lanes_left(struct db *db, size_t lane, struct lanes_left *left, struct err *err);

/* Stores the new number and ends the change: writers with that number may append. RC_OK also when
 * the number was already stored by an earlier attempt. RC_REJECT: another change replaced this one.
 */
enum rc lanes_finish(struct db *db, const struct lanes *change, struct err *err);

/* Returns RC_REJECT and sets err: another command replaced this one's change, and the row holds
 * now. */
enum rc lanes_fail_replaced(const struct lanes *now, struct err *err);

/* Ends the change without storing its number: writers continue with the old one. Changes nothing
 * when the change was finished, undone or replaced meanwhile, possibly by a statement of this
 * process whose answer was lost. *now is the row as it is afterwards, and is written only with
 * RC_OK. */
enum rc lanes_undo(struct db *db, const struct lanes *change, struct lanes *now, struct err *err);

#endif
