/* SPDX-License-Identifier: MIT */
#include "outbox/relay/origin_mysql.h"

#include "common/hash.h"

#include <stdlib.h>
#include <string.h>

/* Tolerance of the start time: the server rounds both its uptime and its clock to seconds. */
#define STARTED_S_APART 3

static bool is_same(const struct db_origin *one, const struct db_origin *other)
{
    return strcmp(one->server, other->server) == 0 &&
           llabs((long long)(one->started_s - other->started_s)) <= STARTED_S_APART;
}

enum rc origin_mysql_compare(void *ctx, const struct db_origin *met, struct err *err)
{
    struct origin_mysql *origin = ctx;
    struct db_origin known;
    struct err why;

    pthread_mutex_lock(&origin->lock);
    if (!origin->noted)
        origin->origin = *met;
    origin->noted = true;
    known = origin->origin;
    pthread_mutex_unlock(&origin->lock);
    if (is_same(&known, met))
        return RC_OK;
    if (strcmp(known.server, met->server) == 0)
        err_set(&why, "the database %s was restarted", met->server);
    else
        err_set(&why, "the database is now %s, it was %s before", met->server, known.server);
    origin->on_change(origin->ctx, &why);
    return err_fail(err, RC_RETRY, 0, "%s: the lane drops its rows in flight and starts again",
                    why.text);
}

void origin_mysql_init(struct origin_mysql *origin, void (*on_change)(void *, const struct err *),
                       void *ctx)
{
    memset(origin, 0, sizeof(*origin));
    pthread_mutex_init(&origin->lock, NULL);
    origin->term = 1;
    origin->on_change = on_change;
    origin->ctx = ctx;
}

void origin_mysql_done(struct origin_mysql *origin)
{
    if (origin->term > 0)
        pthread_mutex_destroy(&origin->lock);
    origin->term = 0;
}

void origin_mysql_begin(struct origin_mysql *origin)
{
    pthread_mutex_lock(&origin->lock);
    origin->noted = false;
    origin->term++;
    pthread_mutex_unlock(&origin->lock);
}

void origin_mysql_renew(struct origin_mysql *origin, struct db *db, uint64_t *term)
{
    uint64_t now;

    pthread_mutex_lock(&origin->lock);
    now = origin->term;
    pthread_mutex_unlock(&origin->lock);
    if (*term == now)
        return;
    *term = now;
    db_disconnect(db);
}

uint64_t origin_mysql_server(struct origin_mysql *origin)
{
    uint64_t server;
    bool noted;

    pthread_mutex_lock(&origin->lock);
    noted = origin->noted;
    server = hash_fnv1a(HASH_START, origin->origin.server, strlen(origin->origin.server));
    pthread_mutex_unlock(&origin->lock);
    return noted ? server : 0;
}

void origin_mysql_guard(struct origin_mysql *origin, struct db *db)
{
    db_on_connect(db, origin_mysql_compare, origin);
}
