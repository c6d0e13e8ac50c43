/* SPDX-License-Identifier: MIT */
/* The adapter that deletes rows of one lane's outbox table and moves rows of it into retry_task, on
 * a connection of its own. Requires SELECT and DELETE on the table, SELECT and INSERT on
 * retry_task. Only the deleter's thread uses it. */
#ifndef OUTBOX_RELAY_DELETER_MYSQL_H
#define OUTBOX_RELAY_DELETER_MYSQL_H

#include "common/config/settings.h"
#include "common/db/db.h"
#include "outbox/relay/origin_mysql.h"
#include "outbox/relay/relay_ops.h"

#include <stdbool.h>
#include <stdint.h>

struct deleter_mysql {
    struct db *db;
    struct origin_mysql *origin;
    uint64_t term;     /* see origin_mysql_renew() */
    const char *lane;  /* its name in log events */
    const char *table; /* its name, also the key in relay_lease and retry_task */
    const char *owner;
    const char *source; /* relay.ce_source */
    int64_t lease_ms;
    struct buf sql;
    struct buf options;     /* the options of the task that is being inserted */
    uint64_t session;       /* the last one that was set up */
    uint64_t moves_session; /* the last one set up for moves; valid for it: */
    bool has_headers;
    bool has_created_at;
    bool payload_converted; /* payload is text that is neither utf8, ascii nor binary */
};

/* Borrows lane, owner, origin and settings until deleter_mysql_close(). Does not connect yet.
 * RC_FATAL: no memory. */
enum rc deleter_mysql_open(struct deleter_mysql *deleter, const struct lane_settings *lane,
                           const char *owner, struct origin_mysql *origin,
                           const struct settings *settings, struct err *err);

/* Accepts a zeroed deleter. */
void deleter_mysql_close(struct deleter_mysql *deleter);

/* The ops (relay_ops.h) are valid while deleter is open. */
struct deleter_ops deleter_mysql_ops(struct deleter_mysql *deleter);

#endif
