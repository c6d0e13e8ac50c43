/* SPDX-License-Identifier: MIT */
/* The lanes (outbox tables) that the writers distribute their events over: their names, the lane of
 * a key, and their number. The table outbox_lanes stores the number for all writers; `tallybox
 * lanes set` changes it.
 *
 * Invariant: a key's order holds across the change. A writer reads the number in its own
 * transaction, with a shared lock until COMMIT, and appends only when the number equals its own
 * setting and no change is under way. Beginning a change locks the row exclusively: the statement
 * waits for every transaction that has read the old number, and each later transaction sees the
 * change. From then on no lane gets a new row. The new number is stored when no old lane has a row
 * (a row that exists is not known to be in the topic) or a task in the retry queue. So all events
 * that a key had in its old lane are in the topic before the first one is written into its new
 * lane. Guarded by tests/e2e/test_lanes.py. One thread per db. */
#ifndef OUTBOX_LANES_H
#define OUTBOX_LANES_H

#include "common/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct db;

#define LANES_MAX 64
#define OUTBOX_LANE_NAME_SIZE 32

/* Returns the lane, below lane_count (>= 1), of an aggregate's events: the 64 bit FNV-1a hash of
 * the bytes of aggregate_id, modulo lane_count. Every writer of these lanes, in any language, must
 * use this function, and lane_count may change only while the lanes are empty, because order is
 * kept per key and lane. Any thread. */
size_t outbox_lane_of(const char *aggregate_id, size_t lane_count);

/* Writes the table name of a lane: "outbox" for 0, then "outbox_1", "outbox_2" ... Any thread. */
void outbox_lane_name(char name[OUTBOX_LANE_NAME_SIZE], size_t lane);

/* err->code of the checks below; no database server uses these numbers. */
enum lanes_code { LANES_CHANGE = -101, LANES_OTHER_COUNT = -102 };

struct lanes {
    int64_t count;
    int64_t next;    /* the new number while a change is under way, else 0 */
    int64_t version; /* incremented by every step of a change */
};

/* Reads the row without a lock. RC_FATAL also when the row is missing: err has the INSERT. *lanes
 * is defined only with RC_OK. */
enum rc lanes_read(struct db *db, struct lanes *lanes, struct err *err);

/* Reads the row inside the caller's transaction and locks it shared until the transaction ends. For
 * writers that append with outbox_append() to several lanes: pass the result to lanes_check(), and
 * roll back unless that returns RC_OK. Errors as lanes_read(). */
enum rc lanes_lock(struct db *db, struct lanes *lanes, struct err *err);

/* Returns RC_OK when a writer configured for lane_count lanes may append now. RC_RETRY with
 * LANES_CHANGE: a change is under way. RC_REJECT with LANES_OTHER_COUNT: the stored number differs.
 * err tells the operator what to do. */
enum rc lanes_check(const struct lanes *lanes, int64_t lane_count, struct err *err);

/* Returns RC_OK when a process configured for lane_count lanes may start: the number is stored, or
 * it is the new number of a change that is under way. RC_REJECT: err tells the operator what to do.
 */
enum rc lanes_check_start(const struct lanes *lanes, int64_t lane_count, struct err *err);

/* Sets served[n] when the lease of the lane outbox_n is valid or expired less than grace_ms ago,
 * for all n < LANES_MAX. An implausible lease (LEASE_LENGTHS_MAX) does not count: a live relay
 * would have renewed it. Errors as db_query(); served then holds false or part of the answer. */
enum rc lanes_served(struct db *db, int64_t grace_ms, bool served[LANES_MAX], struct err *err);

#endif
