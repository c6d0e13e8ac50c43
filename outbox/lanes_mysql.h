/* SPDX-License-Identifier: MIT */
/* The steps of a change of the number of lanes, each of which may be done twice, and stopped after.
 * See outbox/lanes.h for why they keep the order of keys. One thread per db. */
#ifndef OUTBOX_LANES_MYSQL_H
#define OUTBOX_LANES_MYSQL_H

#include "common/db/db.h"
#include "common/err.h"
#include "outbox/lanes.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Counted up to here. */
#define LANES_LEFT_MAX 10000

/* What of a lane is not known to be in its topic. */
struct lanes_left {
    int64_t rows;
    int64_t tasks; /* in the retry queue */
};

/* Makes the lane's table like outbox where it is missing. err names the statement to run when this
 * account may not. */
enum rc lanes_make_table(struct db *db, size_t lane, bool *made, struct err *err);

/* From the COMMIT on no writer appends. *lanes: as it is then. RC_RETRY: nobody knows, or a
 * writer's transaction is open for longer than a second. */
enum rc lanes_begin(struct db *db, int64_t next, struct lanes *lanes, struct err *err);

enum rc lanes_left(struct db *db, size_t lane, struct lanes_left *left, struct err *err);

/* Stores the number of the change and lets writers go on. RC_REJECT: another change came
 * between. */
enum rc lanes_finish(struct db *db, const struct lanes *change, struct err *err);

/* RC_REJECT: err says that another command replaced this one's change, and what the row holds
 * now. */
enum rc lanes_fail_replaced(const struct lanes *now, struct err *err);

/* Writers go on with the old number. Changes nothing when the change was finished, undone or
 * replaced meanwhile, also by a statement of this process whose answer was lost. *now: what the row
 * then holds; untouched unless RC_OK. */
enum rc lanes_undo(struct db *db, const struct lanes *change, struct lanes *now, struct err *err);

#endif
