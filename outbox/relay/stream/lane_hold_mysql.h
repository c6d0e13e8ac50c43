/* SPDX-License-Identifier: MIT */
/* Keeps a lane for a command: by a lock of the session no second command changes it or publishes
 * its rows, and by the lane's lease, if it is taken, too, no relay reads it meanwhile. One thread.
 * Requires SELECT, INSERT and UPDATE on relay_lease for the lease. */
#ifndef OUTBOX_RELAY_STREAM_LANE_HOLD_MYSQL_H
#define OUTBOX_RELAY_STREAM_LANE_HOLD_MYSQL_H

#include "common/db/db.h"
#include "common/err.h"
#include "common/loop.h"
#include "outbox/lease/lease_ops.h"

#include <stdbool.h>
#include <stdint.h>

struct lane_hold {
    struct db *db;     /* the caller's, for this alone */
    const char *table; /* key in relay_lease; NULL: nothing is held */
    char owner[LEASE_OWNER_SIZE];
    int64_t lease_ms;
    int64_t epoch;              /* of the lease; 0: the lock alone */
    int64_t renewed_ms;         /* local clock */
    uint64_t session;           /* that has the lock */
    bool (*is_held)(void *ctx); /* of a relay, which renews the lease itself; NULL: of a command */
    void *ctx;
};

/* How long lane_hold_take_lease() waits for a relay, and what ends the wait. */
struct lane_hold_wait {
    int64_t until_ms; /* local clock */
    const struct stop *stop;
};

/* Takes the lock, asks the relay that holds the lease to finish what it has in flight and to
 * release it, and takes the lease with a new epoch. Borrows db and table until lane_hold_release().
 * RC_REJECT: another command has the lock, or a relay did not release the lease in time. RC_RETRY:
 * among others, stop was requested. */
enum rc lane_hold_take_lease(struct lane_hold *hold, struct db *db, const char *table,
                             int64_t lease_ms, const struct lane_hold_wait *wait, struct err *err);

/* Lets only relays with this source (LANE_SOURCE_TABLE or _BINLOG) take the lane from now on, if
 * the lease is still held. RC_RETRY: it is not, among others. */
enum rc lane_hold_set_source(struct lane_hold *hold, const char *source, struct err *err);

/* Takes the lock alone. RC_REJECT: another command has it. */
enum rc lane_hold_take_lock(struct lane_hold *hold, struct db *db, const char *table,
                            int64_t lease_ms, int64_t now_ms, struct err *err);

/* For a relay that has this lease, after lane_hold_take_lock(): is_held tells whether it has it
 * still, and the lease is neither renewed nor given back here. */
void lane_hold_use_lease(struct lane_hold *hold, const char *owner, int64_t epoch,
                         bool (*is_held)(void *ctx), void *ctx);

/* Renews the lease, and looks whether the lock is held, when that is due. RC_RETRY: one is lost, or
 * the database cannot be reached. */
enum rc lane_hold_keep(struct lane_hold *hold, int64_t now_ms, struct err *err);

/* Accepts a zeroed one. After a failure a lease ends by itself. */
void lane_hold_release(struct lane_hold *hold);

#endif
