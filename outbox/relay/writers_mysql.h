/* SPDX-License-Identifier: MIT */
/* Which transactions are open on the server, asked once for all lanes of a process. The servers
 * renew information_schema.innodb_trx only after nobody has read it for 100 ms: lanes that ask one
 * by one can keep the list old for each other without end. So one lane asks at a time, at most once
 * in WRITERS_EVERY_MS, and all of them share its answer.
 *
 * Invariant: an answer was taken by the server after its asked_ms. It counts only when it shows the
 * very statement that asked, by its number; a list that was kept from before does not, whoever has
 * read it. A gap that was first seen later than asked_ms must not be judged by the answer; that is
 * for the gap closer to see to. Any thread, each with a db of its own. */
#ifndef OUTBOX_RELAY_WRITERS_MYSQL_H
#define OUTBOX_RELAY_WRITERS_MYSQL_H

#include "common/db/db.h"
#include "common/err.h"
#include "outbox/relay/relay_ops.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#define WRITERS_EVERY_MS 1000
/* An old list: the next question comes when a server that nobody asks has renewed it. */
#define WRITERS_AGAIN_MS 230
/* After so many answers that were no use the server is left alone for longer. */
#define WRITERS_UNSEEN_MAX 10
#define WRITERS_REST_MS 30000

struct writers_mysql {
    pthread_mutex_t lock; /* guards what follows; not held while the server is asked */
    bool asking;          /* one lane is */
    int64_t ask_at_ms;    /* not before */
    uint64_t number;      /* of the next statement */
    unsigned unseen;      /* answers in a row that did not count */
    uint64_t server;      /* which one answer tells of, as its caller numbers servers */
    struct source_writers answer;
};

void writers_mysql_init(struct writers_mysql *writers);
void writers_mysql_done(struct writers_mysql *writers);

/* The newest answer about this server, and a new one when it is time and nobody else is asking.
 * known is false while there is none. db leads to the server and is outside of a transaction.
 * Anything but RC_OK: asking failed, and another lane may try. */
enum rc writers_mysql_ask(struct writers_mysql *writers, struct db *db, uint64_t server,
                          struct source_writers *answer, struct err *err);

/* Parts of the above. take: true when the caller is to ask, with a statement of this number; it
 * must give then. Copies the newest answer about this server either way. give: what was heard,
 * asked for at asked_ms; NULL when asking failed. */
bool writers_mysql_take(struct writers_mysql *writers, uint64_t server, int64_t now_ms,
                        struct source_writers *answer, uint64_t *number);
void writers_mysql_give(struct writers_mysql *writers, uint64_t server, int64_t now_ms,
                        const struct source_writers *answer);

#endif
