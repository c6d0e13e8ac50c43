/* SPDX-License-Identifier: MIT */
/* Deletes from the outbox table of one lane, and moves rows of it into retry_task, through a
 * connection of its own. Needs SELECT and DELETE on the table, SELECT and INSERT on retry_task. The
 * deleter's thread. */
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
    uint64_t term;     /* of the origin */
    const char *lane;  /* in the log */
    const char *table; /* in all tables */
    const char *owner;
    const char *source; /* relay.ce_source */
    int64_t lease_ms;
    struct buf sql;
    struct buf options;     /* of a task */
    uint64_t session;       /* that was set up */
    uint64_t moves_session; /* that was set up for moves, with what follows */
    bool has_headers;
    bool has_created_at;
    bool payload_converted; /* it is text in a character set of its own */
};

/* Borrows lane, owner, origin and settings. RC_FATAL: no memory. */
enum rc deleter_mysql_open(struct deleter_mysql *deleter, const struct lane_settings *lane,
                           const char *owner, struct origin_mysql *origin,
                           const struct settings *settings, struct err *err);
void deleter_mysql_close(struct deleter_mysql *deleter);

struct deleter_ops deleter_mysql_ops(struct deleter_mysql *deleter);

#endif
