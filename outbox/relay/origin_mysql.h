/* SPDX-License-Identifier: MIT */
/* The database that the rows under way in one lane were read from. A server that was started again,
 * or another one in its place, may have lost its last transactions; a seq that was read before may
 * stand for another row there, and deleting that would lose it. So the connections of a lane refuse
 * every database but the one that was noted, until the lane begins anew. Any thread. */
#ifndef OUTBOX_RELAY_ORIGIN_MYSQL_H
#define OUTBOX_RELAY_ORIGIN_MYSQL_H

#include "common/db/db.h"
#include "common/err.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct origin_mysql {
    pthread_mutex_t lock; /* guards noted, turn and origin */
    bool noted;
    uint64_t turn; /* counts the beginnings */
    struct db_origin origin;
    void (*on_change)(void *ctx, const struct err *why);
    void *ctx;
};

/* on_change is told of each connection to another database, before that is refused (RC_RETRY). */
void origin_mysql_init(struct origin_mysql *origin, void (*on_change)(void *, const struct err *),
                       void *ctx);
void origin_mysql_done(struct origin_mysql *origin);

/* The next database that one of the guarded connections meets is the right one. Nothing may be
 * under way. */
void origin_mysql_begin(struct origin_mysql *origin);

/* Makes db connect anew where it is connected since an earlier beginning; *turn is the caller's, 0
 * at first. */
void origin_mysql_renew(struct origin_mysql *origin, struct db *db, uint64_t *turn);

/* A number that stands for the server that was noted, the same in every lane; 0 before. */
uint64_t origin_mysql_server(struct origin_mysql *origin);

/* From now on each connection of db is compared. */
void origin_mysql_guard(struct origin_mysql *origin, struct db *db);

#endif
