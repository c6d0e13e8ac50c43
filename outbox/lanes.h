/* SPDX-License-Identifier: MIT */
/* How many outbox tables the writers spread their events over. Every writer uses the number that
 * the table outbox_lanes holds; `tallybox lanes set` changes it.
 *
 * Invariant: a key's order holds across the change. A writer reads the number in its own
 * transaction, with a shared lock that it keeps until COMMIT, and appends only when the number is
 * its own and no change is under way. Beginning a change takes the row for itself: it waits for
 * every transaction that has read the old number, and each later one sees the change. From then on
 * the lanes only become emptier. The new number is stored when every old lane has no row left (a
 * row that exists is not known to be in the topic) and no task in the retry queue. So all events
 * that a key had in its old lane are in the topic before the first one is written into its new
 * lane. One thread per db. */
#ifndef OUTBOX_LANES_H
#define OUTBOX_LANES_H

#include "common/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct db;

#define LANES_MAX 64

/* err->code of the checks below; no server has them. */
enum lanes_code { LANES_CHANGE = -101, LANES_OTHER_COUNT = -102 };

struct lanes {
    int64_t count;
    int64_t next;    /* what a change that is under way makes of it; 0: none is */
    int64_t version; /* grows with every step of a change */
};

/* RC_FATAL: also when the row is missing. */
enum rc lanes_read(struct db *db, struct lanes *lanes, struct err *err);

/* The same inside a transaction, with the shared lock that is told of above. For writers that
 * append with outbox_append() to several lanes: call lanes_check() with the result, and roll back
 * unless it says RC_OK. */
enum rc lanes_lock(struct db *db, struct lanes *lanes, struct err *err);

/* May a writer that spreads its events over lane_count lanes append now? RC_RETRY: a change is
 * under way. RC_REJECT: the number is another one. err says what to do. */
enum rc lanes_check(const struct lanes *lanes, int64_t lane_count, struct err *err);

/* May a process with this setting start? RC_OK also for a number that is about to be stored.
 * RC_REJECT: err says what to do. */
enum rc lanes_check_start(const struct lanes *lanes, int64_t lane_count, struct err *err);

/* Which of the lanes have a lease that runs, or ran out less than grace_ms ago: served[n] for
 * outbox_n, n < LANES_MAX. An implausible lease (LEASE_LENGTHS_MAX) does not count: a relay that
 * lives renews it at once. */
enum rc lanes_served(struct db *db, int64_t grace_ms, bool served[LANES_MAX], struct err *err);

#endif
