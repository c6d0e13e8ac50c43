/* SPDX-License-Identifier: MIT */
/* What the lanes know about the database server: which one their rows come from, and which
 * transactions are open there. Any thread, each with a db of its own.
 *
 * The origin is the database that the rows in flight of one lane were read from. A restarted
 * server, or another server in its place, may have lost its last transactions: a seq that was read
 * before may belong to another row now, and deleting that row would lose an event.
 *
 * Invariant R9: from one call of origin_mysql_begin() to the next, all guarded connections of a
 * lane use the same database: the one that the first of them connected to. A connection to another
 * database is refused. Guarded by tests/e2e/test_failover.py.
 *
 * The writers are the open transactions of the server, queried once for all lanes of a process. The
 * servers refresh information_schema.innodb_trx only when no session has read it for 100 ms, so
 * lanes that query it one by one can keep it stale for each other without end. Therefore one lane
 * queries at a time, at most once in WRITERS_EVERY_MS, and all lanes share its answer.
 *
 * Invariant: the server made the list of a known answer after the answer's asked_ms. An answer
 * counts as known only when its list contains the statement that queried it, by the statement's
 * number; a list that the server had cached before does not contain it. The gap closer must not
 * apply an answer to a gap that it saw first after asked_ms. Guarded by tests/unit/test_writers.c.
 */
#ifndef OUTBOX_RELAY_SERVER_MYSQL_H
#define OUTBOX_RELAY_SERVER_MYSQL_H

#include "common/db/db.h"
#include "common/err.h"
#include "outbox/relay/relay_ops.h"

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

/* Compares every later connection of db with the accepted database. db keeps a pointer to origin.
 */
void origin_mysql_guard(struct origin_mysql *origin, struct db *db);

#define WRITERS_EVERY_MS 1000
/* Pause after a cached list. It must be longer than the 100 ms for which a read keeps the list from
 * being refreshed; twice as much leaves room for a slow query, and for readers outside tallybox. */
#define WRITERS_AGAIN_MS 230
/* After this many unknown answers in a row the queries pause for WRITERS_REST_MS. */
#define WRITERS_UNSEEN_MAX 10
#define WRITERS_REST_MS 30000

struct writers_mysql {
    pthread_mutex_t lock; /* guards all fields below; not held during a query */
    bool asking;          /* a lane is querying */
    int64_t ask_at_ms;    /* earliest time of the next query */
    uint64_t number;      /* of the next statement */
    unsigned unseen;      /* unknown answers in a row */
    uint64_t server;      /* the server of answer, by origin_mysql_server() */
    struct source_writers answer;
};

void writers_mysql_init(struct writers_mysql *writers);
void writers_mysql_done(struct writers_mysql *writers);

/* Copies the newest answer about this server to *answer, after querying a new one when that is due
 * and no other lane is querying. answer->known is false while there is none. db is connected to the
 * server and outside of a transaction. Other results than RC_OK: the query failed, and the next
 * caller may try again after WRITERS_AGAIN_MS. */
enum rc writers_mysql_ask(struct writers_mysql *writers, struct db *db, uint64_t server,
                          struct source_writers *answer, struct err *err);

/* The two halves of writers_mysql_ask(), for tests. writers_mysql_take() copies the newest answer
 * about this server and returns true when the caller has to query, with a statement that contains
 * *number, and then to call writers_mysql_give() with the new answer, or NULL when the query
 * failed. */
bool writers_mysql_take(struct writers_mysql *writers, uint64_t server, int64_t now_ms,
                        struct source_writers *answer, uint64_t *number);
void writers_mysql_give(struct writers_mysql *writers, uint64_t server, int64_t now_ms,
                        const struct source_writers *answer);

#endif
