/* SPDX-License-Identifier: MIT */
/* One MySQL or MariaDB connection. Classifies the servers' errors once. Only this module and
 * common/db/handle.c call the client library. A db belongs to one thread at a time.
 *
 * Every session runs in READ COMMITTED, UTC, utf8mb4, a strict sql_mode without
 * NO_BACKSLASH_ESCAPES, autocommit on, and sets all else that SQL depends on (see
 * common/db/handle.c): the server's defaults for new sessions do not matter.
 *
 * RC_RETRY: the connection was lost, a deadlock, a lock time-out, a server that is starting, full,
 * or read-only: whatever the transaction did is undone or (in db_commit()) unknown.
 * RC_REJECT: this statement's data was refused (duplicate key, value out of range, too big).
 * RC_FATAL: a wrong password, a missing table or right, a syntax error: an operator must act.
 * err->code is the server's number. After RC_RETRY/RC_FATAL no transaction is open, whether the
 * server said so or an on_row. A lock that NOWAIT did not get is RC_RETRY with DB_NOWAIT (MySQL) or
 * DB_LOCK_TIMEOUT (MariaDB), and keeps the connection.
 *
 * The server gives up a session that was silent for twice the query time-out (30 s at least), so
 * that a frozen client does not keep its locks; outside a transaction such a loss goes unnoticed,
 * but for db_session(). */
#ifndef COMMON_DB_DB_H
#define COMMON_DB_DB_H

#include "common/buf.h"
#include "common/config/settings.h"
#include "common/db/error.h"
#include "common/db/server.h"
#include "common/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct db;

/* Checks that the files which the settings of this section name can be read. RC_REJECT: err names
 * the setting, the file and the reason. */
enum rc db_check_files(const struct mysql_settings *settings, const char *section, struct err *err);

/* Allocates; connects at the first use, and again after a loss. settings are borrowed for the life
 * of the db. RC_FATAL: no memory. */
enum rc db_open(struct db **db, const struct mysql_settings *settings, struct err *err);
void db_close(struct db *db);

/* Wraps a connected handle (a MYSQL *) of the caller, who keeps it, its transaction and its session
 * settings, whatever they are: for outbox_append() inside an application. Never reconnects, begins
 * or ends a transaction, also not after a failure. db_close() frees the wrap. */
enum rc db_borrow(struct db **db, void *mysql, struct err *err);

/* Connects if need be. Other calls do it themselves outside a transaction; inside one a lost
 * connection is RC_RETRY and the transaction is over. */
enum rc db_connect(struct db *db, struct err *err);

/* Asked about each new connection before it is used; anything but RC_OK refuses it, and is what the
 * call that connected returns. */
typedef enum rc (*db_on_origin)(void *ctx, const struct db_origin *origin, struct err *err);

/* From the next connection on. */
void db_on_connect(struct db *db, db_on_origin on_origin, void *ctx);

/* Closes the connection; the next call makes another one. Outside a transaction. */
void db_disconnect(struct db *db);

/* A number above 0 that changes with every new connection. After a change the temporary state of
 * the session is lost. */
uint64_t db_session(const struct db *db);

/* Connects if need be and runs sql, usually a SET SESSION, once in each new session. *session is
 * the caller's, 0 before the first call, and remembers the last session in which sql has run.
 * Outside a transaction. */
enum rc db_set_up_session(struct db *db, uint64_t *session, const char *sql, struct err *err);

/* Means nothing before the first connection. */
enum db_kind db_server_kind(const struct db *db);
/* The server's @@max_allowed_packet in bytes; 0 before the first connection. */
uint64_t db_packet_bytes_max(const struct db *db);

/* A statement without rows (those it gives are dropped). *affected (may be NULL): rows changed, as
 * the server counts them (an upsert counts 2 for a changed row). */
enum rc db_exec(struct db *db, const char *sql, size_t len, uint64_t *affected, struct err *err);
/* The same for a C string, and for what was built in a buf: RC_FATAL when that failed. */
enum rc db_run(struct db *db, const char *sql, struct err *err);
enum rc db_exec_buf(struct db *db, const struct buf *sql, uint64_t *affected, struct err *err);

/* One row of a result; columns[i] is NULL for SQL NULL and ends with a zero byte otherwise; bytes
 * belong to the db until the next db_ call (db_query) or the next row (db_stream). */
struct db_row {
    const char *const *columns;
    const size_t *lengths;
    size_t count;
};

/* Called once per row. Anything but RC_OK ends the reading and is returned by db_query(). */
typedef enum rc (*db_on_row)(void *ctx, const struct db_row *row, struct err *err);

/* Reads all rows into client memory first: the statement must bound them (LIMIT). on_row may use
 * the db again. */
enum rc db_query(struct db *db, const char *sql, size_t len, db_on_row on_row, void *ctx,
                 struct err *err);
enum rc db_query_buf(struct db *db, const struct buf *sql, db_on_row on_row, void *ctx,
                     struct err *err);

/* Hands rows on as they come, one in memory at a time; on_row must not use the db. After an early
 * end the rest is read and dropped. */
enum rc db_stream(struct db *db, const char *sql, size_t len, db_on_row on_row, void *ctx,
                  struct err *err);

/* Reads one number: the first column of the first row. *found (may be NULL) is false if there was
 * no row or the column was NULL; then value is unchanged. */
enum rc db_number(struct db *db, const char *sql, int64_t *value, bool *found, struct err *err);

/* Whether the table in the connection's database has the column, and the account has a privilege on
 * it: the server does not tell the two apart. column: a constant of the caller. */
enum rc db_has_column(struct db *db, const char *table, const char *column, bool *has,
                      struct err *err);

/* db_commit(): RC_RETRY means unknown. db_rollback() never fails: a lost connection rolls back. */
enum rc db_begin(struct db *db, struct err *err);
enum rc db_commit(struct db *db, struct err *err);
void db_rollback(struct db *db);
bool db_in_transaction(const struct db *db);

/* Appends a quoted literal: text as '...', bytes as _binary'...' (both escaped for this session),
 * NULL when bytes is NULL. An identifier is checked ([A-Za-z0-9_]{1,64}) and put in backticks;
 * a bad one makes the buf failed. */
void db_put_text(struct db *db, struct buf *sql, const char *text, size_t len);
void db_put_bytes(struct db *db, struct buf *sql, const void *bytes, size_t len);
void db_put_name(struct buf *sql, const char *name);

/* The literals that these append, without a db. introducer'...' with backslashes is only for our
 * own sessions: utf8mb4 has no byte below 0x80 inside a character, and NO_BACKSLASH_ESCAPES is off.
 * introducer X'...' is twice as long, and right whatever the session's character set and sql_mode.
 * Escaping is not the client library's, because it must work before the first connection. */
void db_literal_quoted(struct buf *sql, const char *introducer, const void *bytes, size_t len);
void db_literal_hex(struct buf *sql, const char *introducer, const void *bytes, size_t len);

/* Column helpers: 0 for NULL; numbers are read as far as they go. */
int64_t db_column_i64(const struct db_row *row, size_t column);
uint64_t db_column_u64(const struct db_row *row, size_t column);

/* Asks the server to end whatever db runs now, from another thread (KILL QUERY on a connection of
 * its own). Best effort. */
void db_interrupt(struct db *db);

/* Ends whatever any connection of this process waits for, as if it was lost, and makes no new one:
 * for a stop that a silent server would hold up. */
void db_cut_all(void);

#endif
