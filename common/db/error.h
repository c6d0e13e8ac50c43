/* SPDX-License-Identifier: MIT */
/* What MySQL's and MariaDB's error numbers mean to a caller: the one place that decides it. Pure;
 * any thread. */
#ifndef COMMON_DB_ERROR_H
#define COMMON_DB_ERROR_H

#include "common/err.h"

#include <stdbool.h>

/* Never RC_OK. text is the server's message: some numbers mean several things. */
enum rc db_error_classify(unsigned code, const char *text);

/* Is the connection of no use after this error? Either it is gone, or the server behind it is not
 * one to stay with (read-only, leaving). */
bool db_error_ends_session(unsigned code);

/* err_fail() with "<place>: <text> (<code>)", text cut to a length that fits a log line. */
enum rc db_error_report(struct err *err, unsigned code, const char *place, const char *text);

#endif
