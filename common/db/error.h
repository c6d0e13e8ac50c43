/* SPDX-License-Identifier: MIT */
/* Classifies the error numbers of MySQL and MariaDB, in this place only. Pure; any thread. */
#ifndef COMMON_DB_ERROR_H
#define COMMON_DB_ERROR_H

#include "common/err.h"

#include <stdbool.h>

/* Never RC_OK. text is the server's message: some numbers mean several things. */
enum rc db_error_classify(unsigned code, const char *text);

/* Whether the connection cannot be used after this error: it is lost, or its server is read-only or
 * shutting down. */
bool db_error_ends_session(unsigned code);

/* Whether the account lacks a privilege. */
bool db_error_lacks_privilege(unsigned code);

/* err_fail() with "<place>: <text> (<code>)", text cut to a length that fits a log line. */
enum rc db_error_report(struct err *err, unsigned code, const char *place, const char *text);

#endif
