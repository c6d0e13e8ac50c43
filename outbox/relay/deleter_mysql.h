/* SPDX-License-Identifier: MIT */
/* The adapter that deletes acknowledged rows of one lane's outbox table, on a connection that
 * diverter_mysql.c shares. Requires SELECT and DELETE on the table. Only the deleter's thread uses
 * it. */
#ifndef OUTBOX_RELAY_DELETER_MYSQL_H
#define OUTBOX_RELAY_DELETER_MYSQL_H

#include "common/config/settings.h"
#include "common/db/db.h"
#include "outbox/relay/origin_mysql.h"
#include "outbox/relay/relay_ops.h"

#include <stdint.h>

struct deleter_mysql {
    struct db *db;
    struct origin_mysql *origin;
    uint64_t term;     /* see origin_mysql_renew() */
    const char *table; /* its name, also the key in relay_lease */
    const char *owner;
    struct buf sql;
    uint64_t session; /* the last one that was set up */
};

/* Borrows lane, owner, origin and settings until deleter_mysql_close(). Does not connect yet.
 * RC_FATAL: no memory. */
enum rc deleter_mysql_open(struct deleter_mysql *deleter, const struct lane_settings *lane,
                           const char *owner, struct origin_mysql *origin,
                           const struct settings *settings, struct err *err);

/* Accepts a zeroed deleter. */
void deleter_mysql_close(struct deleter_mysql *deleter);

/* Connects if needed and sets the session up. For deleter_mysql.c and diverter_mysql.c. */
enum rc deleter_mysql_connect(struct deleter_mysql *deleter, struct err *err);

/* The ops (relay_ops.h) are valid while deleter is open. */
struct deleter_ops deleter_mysql_ops(struct deleter_mysql *deleter);

#endif
