/* SPDX-License-Identifier: MIT */
/* Leases and instances in the database, on its clock, through a connection of its own. The thread
 * that keeps the leases. */
#ifndef OUTBOX_LEASE_MYSQL_H
#define OUTBOX_LEASE_MYSQL_H

#include "common/db.h"
#include "common/settings.h"
#include "outbox/relay_seam.h"

#include <stddef.h>

struct lease_mysql {
    struct db *db;
    const char *owner;
    const char *const *lanes;
    size_t lane_count;
    const char *group; /* role of all instances that list the same lanes */
    struct buf sql;
    bool swept; /* instances long dead were removed once */
};

/* Borrows everything. RC_FATAL: no memory. */
enum rc lease_mysql_open(struct lease_mysql *store, const char *owner, const char *group,
                         const char *const *lanes, size_t lane_count,
                         const struct settings *settings, struct err *err);
void lease_mysql_close(struct lease_mysql *store);

struct lease_store lease_mysql_seam(struct lease_mysql *store);

#endif
