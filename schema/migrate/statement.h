/* SPDX-License-Identifier: MIT */
/* Splits a migration into its statements: a semicolon outside of quotes and comments ends one, and
 * the last may go without. The client's word DELIMITER is not known. Pure; any thread. */
#ifndef SCHEMA_MIGRATE_STATEMENT_H
#define SCHEMA_MIGRATE_STATEMENT_H

#include "common/err.h"

#include <stddef.h>

/* Borrowed from the text it was split from; without the semicolon and without comments before the
 * first word. */
struct statement {
    const char *sql;
    size_t len;
};

/* Reads the statement at *at and moves *at after it. RC_OK with len 0: there is none left.
 * RC_FATAL: err says what is wrong, without the place in the file. */
enum rc statement_next(const char **at, const char *end, struct statement *statement,
                       struct err *err);

#endif
