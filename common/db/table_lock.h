/* SPDX-License-Identifier: MIT */
/* Statements that need a table alone: LOCK TABLES ... WRITE, and ALTER TABLE. Statements of other
 * sessions wait behind one that waits for the table, so it waits for a second at most. A process
 * that freezes while it has the table locked loses its session after two seconds, by the server.
 *
 * Invariant: afterwards the session has the lock_wait_timeout, innodb_lock_wait_timeout and
 * wait_timeout that it had before, or it has ended: the next one is set up as all are (db.h). No
 * such statement runs in a session without the short waits. The thread of the db. */
#ifndef COMMON_DB_TABLE_LOCK_H
#define COMMON_DB_TABLE_LOCK_H

#include "common/buf.h"
#include "common/db/db.h"
#include "common/err.h"

#include <stdint.h>

/* Of a session, in seconds. */
struct session_waits {
    int64_t metadata_s; /* lock_wait_timeout */
    int64_t row_s;      /* innodb_lock_wait_timeout */
    int64_t idle_s;     /* wait_timeout */
};

struct table_lock {
    struct db *db; /* NULL: the table is not locked */
    struct session_waits before;
};

/* Locks the table for writing, outside of a transaction. On RC_OK the session may use no other
 * table, and does not connect again, until table_lock_release(). Otherwise nothing is locked.
 * RC_RETRY with DB_LOCK_TIMEOUT: other transactions have used the table for longer than a second.
 * RC_FATAL: among others, the account lacks LOCK TABLES. */
enum rc table_lock_take(struct table_lock *lock, struct db *db, const char *table, struct err *err);

/* Unlocks the table; accepts a zeroed lock. RC_RETRY: the session was lost, and with it the lock at
 * some time since it was taken. After any failure the session has ended, and with it the lock. */
enum rc table_lock_release(struct table_lock *lock, struct err *err);

/* Counts the prepared XA transactions of the server. One that has lost its session keeps its rows,
 * which cannot be seen; MariaDB keeps no metadata lock for it, and grants table_lock_take().
 * RC_FATAL: the account lacks XA_RECOVER_ADMIN on MySQL, and the session has ended. */
enum rc table_lock_count_prepared(struct db *db, int64_t *count, struct err *err);

/* Runs the statement, an ALTER TABLE. Results as table_lock_take(), and those of the statement. */
enum rc table_lock_alter(struct db *db, const struct buf *sql, struct err *err);

#endif
