/* SPDX-License-Identifier: MIT */
/* One MySQL or MariaDB connection. Only this module, common/db/handle.c and common/db/binlog_link.c
 * call the client library.
 * A db belongs to one thread at a time.
 *
 * Every session runs in READ COMMITTED, UTC, utf8mb4, a strict sql_mode without
 * NO_BACKSLASH_ESCAPES, autocommit on, and sets all else that SQL depends on (see
 * common/db/handle.c): the server's defaults for new sessions do not matter.
 *
 * RC_RETRY: the connection was lost, a deadlock, a lock time-out, a server that is starting, full,
 * or read-only. The changes of the transaction are undone or, after db_commit(), unknown.
 * RC_REJECT: the server refused the data of this statement (duplicate key, value out of range, too
 * big).
 * RC_FATAL: a wrong password, a missing table or privilege, a syntax error: an operator must act.
 * err->code is the server's number. After RC_RETRY and RC_FATAL no transaction is open, also if an
 * on_row returned them. A lock that NOWAIT did not get is RC_RETRY with DB_NOWAIT (MySQL) or
 * DB_LOCK_TIMEOUT (MariaDB), and keeps the connection.
 *
 * The server closes a session that was silent for twice the query time-out (30 s at least), so that
 * a frozen client does not keep its locks. Outside a transaction the next call then connects again
 * without an error; only db_session() shows it. */
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

/* Allocates a db. It connects at the first use, and again after a connection was lost. settings are
 * borrowed for the life of the db. RC_FATAL: no memory. */
enum rc db_open(struct db **db, const struct mysql_settings *settings, struct err *err);
void db_close(struct db *db);

/* Makes a db of a connected handle (a MYSQL *) that the caller keeps, for outbox_append() inside an
 * application. The handle may have any session settings and an open transaction. Such a db never
 * reconnects and never begins or ends a transaction, also not after a failure. db_close() frees the
 * db and leaves the handle open. */
enum rc db_borrow(struct db **db, void *mysql, struct err *err);

/* Connects if there is no connection. Outside a transaction the other calls do the same; inside one
 * a lost connection is RC_RETRY and ends the transaction. */
enum rc db_connect(struct db *db, struct err *err);

/* Decides about each new connection before it is used. Any result but RC_OK closes the connection,
 * and the call that connected returns that result. */
typedef enum rc (*db_on_origin)(void *ctx, const struct db_origin *origin, struct err *err);

/* Calls on_origin for each new connection, from the next one on. */
void db_on_connect(struct db *db, db_on_origin on_origin, void *ctx);

/* Closes the connection; the next call connects again. Must be called outside a transaction. */
void db_disconnect(struct db *db);

/* While set, a lost connection is RC_RETRY for all calls, and none connects again. The db is
 * connected when it is set. */
void db_keep_session(struct db *db, bool keep);

/* A number above 0 that changes with every new connection. After a change the temporary state of
 * the session is lost. */
uint64_t db_session(const struct db *db);

/* Connects if there is no connection, and runs sql, usually a SET SESSION, once in each session.
 * *session belongs to the caller: 0 before the first call, then the last session in which sql has
 * run. Must be called outside a transaction. */
enum rc db_set_up_session(struct db *db, uint64_t *session, const char *sql, struct err *err);

/* Returns the kind of the server; undefined before the first connection. */
enum db_kind db_server_kind(const struct db *db);
/* Returns the server's @@max_allowed_packet in bytes; 0 before the first connection. */
uint64_t db_packet_bytes_max(const struct db *db);

/* Runs a statement and ignores rows that it returns. *affected (may be NULL): the number of changed
 * rows, as the server counts them (an upsert counts 2 for a changed row). */
enum rc db_exec(struct db *db, const char *sql, size_t len, uint64_t *affected, struct err *err);
/* The same for a C string, and for a statement in a buf: RC_FATAL if the buf has failed. */
enum rc db_run(struct db *db, const char *sql, struct err *err);
enum rc db_exec_buf(struct db *db, const struct buf *sql, uint64_t *affected, struct err *err);

/* One row of a result. columns[i] is NULL for SQL NULL, otherwise it ends with a zero byte. The
 * bytes are valid until the next call with the db (db_query) or until the next row (db_stream). */
struct db_row {
    const char *const *columns;
    const size_t *lengths;
    size_t count;
};

/* Receives one row. Any result but RC_OK ends the reading, and db_query() or db_stream() returns
 * it. */
typedef enum rc (*db_on_row)(void *ctx, const struct db_row *row, struct err *err);

/* Reads all rows into client memory first: the statement must bound them (LIMIT). on_row may use
 * the db again. */
enum rc db_query(struct db *db, const char *sql, size_t len, db_on_row on_row, void *ctx,
                 struct err *err);
enum rc db_query_buf(struct db *db, const struct buf *sql, db_on_row on_row, void *ctx,
                     struct err *err);

/* Passes each row to on_row when it arrives, with one row in memory at a time; on_row must not use
 * the db. If on_row ends the reading, the other rows are read and ignored. */
enum rc db_stream(struct db *db, const char *sql, size_t len, db_on_row on_row, void *ctx,
                  struct err *err);

/* Reads one number: the first column of the first row. *found (may be NULL) is false if there was
 * no row or the column was NULL; then value is unchanged. */
enum rc db_number(struct db *db, const char *sql, int64_t *value, bool *found, struct err *err);

/* Reads the clock of the server, in ms since 1970. */
enum rc db_read_clock(struct db *db, int64_t *now_ms, struct err *err);

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
 * NULL when bytes is NULL. db_put_name() appends an identifier in backticks; the buf becomes failed
 * if it is not [A-Za-z0-9_]{1,64}. */
void db_put_text(struct db *db, struct buf *sql, const char *text, size_t len);
void db_put_bytes(struct db *db, struct buf *sql, const void *bytes, size_t len);
void db_put_name(struct buf *sql, const char *name);

/* Append such literals without a db. db_literal_quoted() writes introducer'...' with backslashes,
 * for sessions of this module only: utf8mb4 has no byte below 0x80 inside a character, and
 * NO_BACKSLASH_ESCAPES is off. db_literal_hex() writes introducer X'...', which is twice as long
 * and correct for any character set and sql_mode. The escaping of the client library is not used,
 * because it needs a connection. */
void db_literal_quoted(struct buf *sql, const char *introducer, const void *bytes, size_t len);
void db_literal_hex(struct buf *sql, const char *introducer, const void *bytes, size_t len);

/* Return a column as a number: 0 for NULL. Reading stops at the first byte that is not part of the
 * number. */
int64_t db_column_i64(const struct db_row *row, size_t column);
uint64_t db_column_u64(const struct db_row *row, size_t column);

/* Asks the server to end the statement that db runs now, by KILL QUERY on a connection of its own.
 * Another thread may call it. Failures are ignored. */
void db_interrupt(struct db *db);

/* Shuts the sockets of all connections of this process down, so that waiting calls return as after
 * a lost connection, and lets no db connect again: for a stop that a silent server would delay. */
void db_cut_all(void);

#endif
