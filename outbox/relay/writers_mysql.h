/* SPDX-License-Identifier: MIT */
/* The writers: the open transactions of the database server, queried once for all lanes of a
 * process. The servers refresh information_schema.innodb_trx only when no session has read it for
 * 100 ms, so lanes that query it one by one can keep it stale for each other without end. Therefore
 * one lane queries at a time, at most once in WRITERS_EVERY_MS, and all lanes share its answer.
 *
 * Invariant: the server made the list of a known answer after the answer's asked_ms. An answer
 * counts as known only when its list contains the statement that queried it, by the statement's
 * number; a list that the server had cached before does not contain it. The gap closer must not
 * apply an answer to a gap that it saw first after asked_ms. Guarded by tests/unit/test_writers.c.
 * Any thread, each with a db of its own. */
#ifndef OUTBOX_RELAY_WRITERS_MYSQL_H
#define OUTBOX_RELAY_WRITERS_MYSQL_H

#include "common/db/db.h"
#include "common/err.h"
#include "outbox/relay/relay_ops.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

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
