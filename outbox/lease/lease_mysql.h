/* SPDX-License-Identifier: MIT */
/* Leases and instances in the database, on its clock, through a connection of its own. The thread
 * that keeps the leases. */
#ifndef OUTBOX_LEASE_LEASE_MYSQL_H
#define OUTBOX_LEASE_LEASE_MYSQL_H

#include "common/config/settings.h"
#include "common/db/db.h"
#include "outbox/relay/relay_ops.h"

#include <stddef.h>

#define LEASE_ROLE_SIZE 65

struct lease_mysql {
    struct db *db;
    bool owns_db;
    const char *owner;
    const char *const *lanes;
    size_t lane_count;
    const char *role;            /* "relay" or "retry" */
    const char *group;           /* role of all instances that compete with this one */
    char entry[LEASE_ROLE_SIZE]; /* the group, and "*<weight>" where it is not 1 */
    struct buf sql;
    bool old_deleted; /* the rows of instances that ended long ago were deleted */
};

/* Who competes for what, and how much of it this one wants. */
struct lease_claim {
    const char *owner;
    const char *role;
    const char *group;
    int64_t weight;
    const char *const *lanes;
    size_t lane_count;
    struct lease_mysql *with; /* whose connection is used, by the same thread; NULL: an own one */
};

/* Borrows everything. RC_FATAL: no memory. */
enum rc lease_mysql_open(struct lease_mysql *store, const struct lease_claim *claim,
                         const struct settings *settings, struct err *err);
void lease_mysql_close(struct lease_mysql *store);

struct lease_store lease_mysql_ops(struct lease_mysql *store);

#endif
