/* SPDX-License-Identifier: MIT */
/* Makes connections: the client library's own life, its options, TLS, and what every session is
 * set to. Only db.c includes this header, and these two files alone call the library. Any thread.
 */
#ifndef COMMON_DB_HANDLE_H
#define COMMON_DB_HANDLE_H

#include "common/config/settings.h"
#include "common/db/server.h"
#include "common/err.h"

#include <mysql.h>
#include <stdint.h>

enum db_tls {
    DB_TLS_OFF,
    DB_TLS_ON,     /* encrypted, with whomever it is */
    DB_TLS_VERIFY, /* encrypted, with who the certificate says and the authority vouches for */
};

/* The mode for this host: auto means off for a socket or a loopback address, else verify. Pure. */
enum db_tls db_tls_of(const struct mysql_settings *settings);

/* Starts the library once per process. RC_FATAL: no memory. */
enum rc db_library_enter(struct err *err);

/* Makes the calling thread known to the library; undone when the thread ends. */
void db_thread_enter(void);

/* SIGPIPE is ignored from now on where it still had its default. */
void db_pipe_signal_ignore(void);

/* Connects without session set-up. place appears in err. The caller owns *out. */
enum rc db_handle_connect(MYSQL **out, const struct mysql_settings *settings, const char *place,
                          struct err *err);

/* Its file descriptor. */
int db_handle_socket(MYSQL *mysql);

/* Sets the session up as common/db/db.h promises. After a failure the handle is only to be
 * closed. */
enum rc db_handle_set_up(MYSQL *mysql, const struct mysql_settings *settings, const char *place,
                         struct db_server *server, struct err *err);

/* After the set-up: which server it is. */
enum rc db_handle_origin(MYSQL *mysql, const char *place, enum db_kind kind,
                         struct db_origin *origin, struct err *err);

#endif
