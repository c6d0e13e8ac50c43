/* SPDX-License-Identifier: MIT */
/* Makes connections: starts the client library, and sets its options, TLS and the variables of
 * every session. Only db.c and binlog_link.c include this header, and only these files call the
 * library. Any thread. */
#ifndef COMMON_DB_HANDLE_H
#define COMMON_DB_HANDLE_H

#include "common/config/settings.h"
#include "common/db/db.h"
#include "common/db/server.h"
#include "common/err.h"

#include <mysql.h>
#include <stdint.h>

enum db_tls {
    DB_TLS_OFF,
    DB_TLS_ON,     /* encrypted; the certificate of the server is not checked */
    DB_TLS_VERIFY, /* encrypted; the certificate must be valid and have the server's name */
};

/* Returns the mode of a setting: auto means off for a socket or a loopback address, otherwise
 * verify. Pure. */
enum db_tls db_tls_of(const struct mysql_settings *settings);

/* Starts the library once per process. RC_FATAL: no memory. */
enum rc db_library_enter(struct err *err);

/* Registers the calling thread with the library until the thread ends. */
void db_thread_enter(void);

/* Ignores SIGPIPE from now on, unless the process has already changed its disposition. */
void db_pipe_signal_ignore(void);

/* Connects without session set-up. place appears in err. The caller owns *out. */
enum rc db_handle_connect(MYSQL **out, const struct mysql_settings *settings, const char *place,
                          struct err *err);

/* Of a connected db: its handle, for what db.h has no call for. NULL: it is not connected. */
MYSQL *db_handle_of(const struct db *db);
/* "mysql HOST:PORT", for error texts. */
const char *db_place_of(const struct db *db);

/* Returns the file descriptor of the connection. */
int db_handle_socket(MYSQL *mysql);

/* Sets the session up as common/db/db.h says. After a failure the handle can only be closed. */
enum rc db_handle_set_up(MYSQL *mysql, const struct mysql_settings *settings, const char *place,
                         struct db_server *server, struct err *err);

/* Finds out which server it is, after the set-up. */
enum rc db_handle_origin(MYSQL *mysql, const char *place, enum db_kind kind,
                         struct db_origin *origin, struct err *err);

#endif
