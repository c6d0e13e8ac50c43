/* SPDX-License-Identifier: MIT */
/* The adapter that keeps the position of one lane in the table relay_position, and the seqs of rows
 * that are done in relay_published, or their ids in relay_published_id. It has two connections:
 * load and begin use that of the reader, save that of the saver, so that each of the two threads
 * has its own. Requires SELECT, INSERT and UPDATE on relay_position, INSERT, SELECT and DELETE on
 * relay_published and, with keep_ids_max, on relay_published_id, SELECT and UPDATE on relay_lease,
 * SELECT on the lane's table, and what position_mysql_read_end() requires. */
#ifndef OUTBOX_RELAY_STREAM_POSITION_STORE_MYSQL_H
#define OUTBOX_RELAY_STREAM_POSITION_STORE_MYSQL_H

#include "common/buf.h"
#include "common/config/settings.h"
#include "common/db/db.h"
#include "outbox/relay/origin_mysql.h"
#include "outbox/relay/stream/position_store.h"

#include <pthread.h>
#include <stdint.h>

/* A connection and the statement that its thread builds. */
struct position_session {
    struct db *db;
    uint64_t term; /* see origin_mysql_renew() */
    struct buf sql;
};

struct position_store_mysql {
    const struct lane_settings *own;
    const char *lane;  /* its name in texts */
    const char *table; /* its name, also the key in relay_lease and relay_position */
    const char *owner;
    char id[SETTING_NAME_SIZE]; /* the column of ids */
    int64_t keep_ids_max;
    struct origin_mysql *origin; /* or NULL */
    char set_up[96];             /* the statement that sets a session up */
    struct position_session reader;
    struct position_session saver;
    struct buf ranges;    /* relay_published.seqs or the ids, for the saver */
    bool may_go_on;       /* from the table, see position_store_mysql_let_go_on() */
    pthread_mutex_t lock; /* guards the fields below */
    /* The server of the last load or begin: saved positions are places in its log, whatever server
     * the saver is connected to. "" before. */
    char server[POSITION_SERVER_SIZE];
    /* A position by GTIDs that was loaded on another server than it was saved on: until it has
     * moved it is saved as one of that server, so that it stays known (table_fallback.h). */
    char moved_from[POSITION_SERVER_SIZE];
    struct buf moved_before;
};

/* Borrows lane, owner, origin and settings until position_store_mysql_close(). Does not connect
 * yet. A position is saved only in the database that was accepted for the lane (origin_mysql.h).
 * origin: NULL for a command. RC_FATAL: no memory. Close it after a failure, too. */
enum rc position_store_mysql_open(struct position_store_mysql *store,
                                  const struct lane_settings *lane, const char *owner,
                                  struct origin_mysql *origin, const struct settings *settings,
                                  struct err *err);

/* load returns the position of a lane that goes on from its table, too. Before the first load. */
void position_store_mysql_let_go_on(struct position_store_mysql *store);

/* Accepts a zeroed store. */
void position_store_mysql_close(struct position_store_mysql *store);

struct position_begun {
    struct stream_position position; /* that was written; position.before is the caller's */
    bool replaced;                   /* there was one before */
    bool unknown; /* rows before it are in the table, and are not saved as published */
};

/* For an operator, in place of a relay: makes the present end of the log the position of the lane,
 * and saves the rows that its table has so far as published, if it has a seq; that requires LOCK
 * TABLES on the database. Uses both connections. RC_REJECT: a relay holds the lane, or it has a
 * position and may_replace is false; nothing is written. RC_RETRY: it is unknown whether the
 * position is written; repeating it is harmless. */
enum rc position_store_mysql_begin_at_end(struct position_store_mysql *store, bool may_replace,
                                          struct position_begun *begun, struct err *err);

/* The same with the position of the caller in begun->position, which has to be one of this server's
 * log. No row is saved as published: which ones were, only the log tells. begun->unknown is set if
 * the table has a seq, by which it could be saved, and any row. */
enum rc position_store_mysql_begin_at(struct position_store_mysql *store, bool may_replace,
                                      struct position_begun *begun, struct err *err);

/* Makes sure that no relay holds the lane, so that its position stays as it is while none is
 * started. A relay that was frozen can save none any more. Uses the connection of the saver.
 * RC_REJECT: a relay holds it. */
enum rc position_store_mysql_check_free(struct position_store_mysql *store, struct err *err);

/* The ops are valid while store is open. */
struct position_store position_store_mysql_ops(struct position_store_mysql *store);

#endif
