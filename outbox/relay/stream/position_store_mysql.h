/* SPDX-License-Identifier: MIT */
/* The adapter that keeps the position of one lane in the table relay_position, and the seqs of rows
 * that are done in relay_published. It has two connections: load and begin use that of the reader,
 * save that of the saver, so that each of the two threads has its own. Requires SELECT, INSERT and
 * UPDATE on relay_position, INSERT on relay_published, SELECT and UPDATE on relay_lease, SELECT on
 * the lane's table, and what position_mysql_read_end() requires. */
#ifndef OUTBOX_RELAY_STREAM_POSITION_STORE_MYSQL_H
#define OUTBOX_RELAY_STREAM_POSITION_STORE_MYSQL_H

#include "common/buf.h"
#include "common/config/settings.h"
#include "common/db/db.h"
#include "outbox/relay/origin_mysql.h"
#include "outbox/relay/stream/position_store.h"

#include <pthread.h>
#include <stdint.h>

#define POSITION_SERVER_SIZE 65 /* of relay_position.server */

/* A connection and the statement that its thread builds. */
struct position_session {
    struct db *db;
    uint64_t term; /* see origin_mysql_renew() */
    struct buf sql;
};

struct position_store_mysql {
    const char *lane;  /* its name in texts */
    const char *table; /* its name, also the key in relay_lease and relay_position */
    const char *owner;
    struct origin_mysql *origin; /* or NULL */
    char set_up[96];             /* the statement that sets a session up */
    struct position_session reader;
    struct position_session saver;
    struct buf ranges;    /* relay_published.seqs, for the saver */
    pthread_mutex_t lock; /* guards server */
    /* The server of the last load or begin: saved positions are places in its log, whatever server
     * the saver is connected to. "" before. */
    char server[POSITION_SERVER_SIZE];
};

/* Borrows lane, owner, origin and settings until position_store_mysql_close(). Does not connect
 * yet. load accepts the next database for the lane (origin_mysql.h), and a position is saved in
 * that one only. origin: NULL for a command. RC_FATAL: no memory. Close it after a failure, too. */
enum rc position_store_mysql_open(struct position_store_mysql *store,
                                  const struct lane_settings *lane, const char *owner,
                                  struct origin_mysql *origin, const struct settings *settings,
                                  struct err *err);

/* Accepts a zeroed store. */
void position_store_mysql_close(struct position_store_mysql *store);

struct position_begun {
    struct stream_position position; /* that was written; position.before is the caller's */
    bool replaced;                   /* there was one before */
};

/* For an operator, in place of a relay: makes the present end of the log the position of the lane,
 * so that its rows so far count as published. Uses the connection of the saver. RC_REJECT: a relay
 * holds the lane, or it has a position and may_replace is false; nothing is written. RC_RETRY: it
 * is unknown whether the position is written; repeating it is harmless. */
enum rc position_store_mysql_begin_at_end(struct position_store_mysql *store, bool may_replace,
                                          struct position_begun *begun, struct err *err);

/* The ops are valid while store is open. */
struct position_store position_store_mysql_ops(struct position_store_mysql *store);

#endif
