/* SPDX-License-Identifier: MIT */
/* The error numbers of MySQL and MariaDB, and their classification, in this place only. Pure; any
 * thread. */
#ifndef COMMON_DB_ERROR_H
#define COMMON_DB_ERROR_H

#include "common/config/settings.h"
#include "common/err.h"

#include <stdbool.h>

/* The numbers that callers compare with err->code. */
enum db_code {
    DB_DUPLICATE = 1062,
    DB_NO_SUCH_COLUMN = 1054,
    DB_LOCK_TIMEOUT = 1205,
    DB_DEADLOCK = 1213,
    DB_NO_SUCH_DATABASE = 1049,
    DB_ACCESS_DENIED = 1045,             /* at the login: wrong account or password */
    DB_ACCESS_DENIED_NO_PASSWORD = 1698, /* at the login: the account is not for passwords */
    DB_NO_PRIVILEGE = 1142,              /* to a table */
    DB_NO_SUCH_TABLE = 1146,
    DB_NO_PARTITIONS = 1747, /* a statement names one of a table that has none */
    DB_NOWAIT = 3572,
    DB_CANNOT_CONVERT = 3854, /* MySQL: text that is none in its character set */
};

/* Never RC_OK. text is the server's message: some numbers mean several things. */
enum rc db_error_classify(unsigned code, const char *text);

/* Whether the connection cannot be used after this error: it is lost, or its server is read-only or
 * shutting down. */
bool db_error_ends_session(unsigned code);

/* Whether the account lacks a privilege. */
bool db_error_lacks_privilege(unsigned code);

/* Puts behind the text of a refused login, or of a database that does not exist, which settings are
 * to be checked. code: of err. */
void db_error_explain_login(struct err *err, unsigned code, const struct mysql_settings *settings);

/* err_fail() with "<place>: <text> (<code>)", text cut to a length that fits a log line. */
enum rc db_error_report(struct err *err, unsigned code, const char *place, const char *text);

#endif
