/* SPDX-License-Identifier: MIT */
/* The adapter that stores leases (table relay_lease) and instances (table instance), by the clock
 * of the database. Only the lease thread (leases.h) uses it, but for lease_mysql_check(). */
#ifndef OUTBOX_LEASE_LEASE_MYSQL_H
#define OUTBOX_LEASE_LEASE_MYSQL_H

#include "common/config/settings.h"
#include "common/db/db.h"
#include "outbox/lease/lease_ops.h"

#include <stddef.h>

#define LEASE_ROLE_SIZE 65

struct lease_mysql {
    struct db *db;
    bool owns_db;
    const char *owner;
    const char *const *lanes;
    size_t lane_count;
    const char *const *sources;
    const char *role;            /* "relay" or "retry" */
    const char *group;           /* instances of one group compete for the same lanes */
    char entry[LEASE_ROLE_SIZE]; /* instance.role: the group, and "*<weight>" unless 1 */
    struct buf sql;
    bool old_deleted; /* rows of ended instances were deleted */
};

/* The lanes, or shards, that an instance competes for, and its weight. */
struct lease_claim {
    const char *owner;
    const char *role;
    const char *group;
    int64_t weight;
    const char *const *lanes;
    size_t lane_count;
    const char *const *sources; /* of the lanes, LANE_SOURCE_TABLE or _BINLOG; NULL: shards */
    struct lease_mysql *with;   /* share its connection, same thread; NULL: open one */
};

/* Opens the store. Borrows the strings and lists of claim, and settings, until lease_mysql_close();
 * claim->with has to be closed later than store. RC_FATAL: no memory. Close it after a failure,
 * too. */
enum rc lease_mysql_open(struct lease_mysql *store, const struct lease_claim *claim,
                         const struct settings *settings, struct err *err);

/* Accepts a zeroed store. Leases stay as they are in the database. */
void lease_mysql_close(struct lease_mysql *store);

/* Sets *fenced unless `owner` holds the lease of `lane` with this epoch. lock: keeps the row locked
 * until the COMMIT, so that no other instance takes the lease before it. sql is for the statement.
 * Any thread, each with a db of its own. */
enum rc lease_mysql_check(struct db *db, struct buf *sql, const char *lane, const char *owner,
                          int64_t epoch, bool lock, bool *fenced, struct err *err);

/* The ops are valid while store is open. */
struct lease_store lease_mysql_ops(struct lease_mysql *store);

#endif
