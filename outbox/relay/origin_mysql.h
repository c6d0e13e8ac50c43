/* SPDX-License-Identifier: MIT */
/* The origin of a lane: the database that its rows in flight were read from. A restarted server, or
 * another server in its place, may have lost its last transactions: a seq that was read before may
 * belong to another row now, and deleting that row would lose an event.
 *
 * Invariant R9: from one call of origin_mysql_begin() to the next, all guarded connections of a
 * lane use the same database: the one that the first of them connected to. A connection to another
 * database is refused. Guarded by tests/e2e/test_failover.py. Any thread, each with a db of its
 * own. */
#ifndef OUTBOX_RELAY_ORIGIN_MYSQL_H
#define OUTBOX_RELAY_ORIGIN_MYSQL_H

#include "common/db/db.h"
#include "common/err.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct origin_mysql {
    pthread_mutex_t lock; /* guards noted, term and origin */
    bool noted;
    uint64_t term; /* number of calls of origin_mysql_begin(), plus 1 */
    struct db_origin origin;
    void (*on_change)(void *ctx, const struct err *why);
    void *ctx;
};

/* Borrows ctx until origin_mysql_done(). on_change is called, on the connecting thread, for each
 * connection to another database before that connection is refused with RC_RETRY. */
void origin_mysql_init(struct origin_mysql *origin, void (*on_change)(void *, const struct err *),
                       void *ctx);
void origin_mysql_done(struct origin_mysql *origin);

/* Accepts the next database that a guarded connection meets. The lane may have no row in flight. */
void origin_mysql_begin(struct origin_mysql *origin);

/* Disconnects db when its connection is older than the last origin_mysql_begin(), so that the next
 * statement connects again and is compared. *term belongs to the caller, one for each db, 0 at
 * first. */
void origin_mysql_renew(struct origin_mysql *origin, struct db *db, uint64_t *term);

/* Returns a number that identifies the accepted server, the same in every lane; 0 before one is
 * accepted. */
uint64_t origin_mysql_server(struct origin_mysql *origin);

/* Compares the database of a connection with the accepted one, or accepts it: a db_on_origin whose
 * ctx is a struct origin_mysql. RC_RETRY: it is another one. */
enum rc origin_mysql_compare(void *origin, const struct db_origin *met, struct err *err);

/* Compares every later connection of db with the accepted database. db keeps a pointer to origin.
 */
void origin_mysql_guard(struct origin_mysql *origin, struct db *db);

#endif
