/* SPDX-License-Identifier: MIT */
/* Splits a migration into its statements, and a statement into words, names, texts, numbers and
 * marks, as MySQL and MariaDB do under our sql_mode (backslashes escape, "..." is a text). Comments
 * are skipped. Pure; any thread. */
#ifndef SCHEMA_MIGRATE_SQL_SPLIT_H
#define SCHEMA_MIGRATE_SQL_SPLIT_H

#include "common/err.h"

#include <stdbool.h>
#include <stddef.h>

enum sql_token_kind {
    SQL_END,
    SQL_WORD,   /* a keyword or a name without quotes */
    SQL_NAME,   /* a name in backticks */
    SQL_TEXT,   /* in single or double quotes */
    SQL_NUMBER, /* starts with a digit */
    SQL_MARK,   /* any other single character */
};

struct sql_token {
    enum sql_token_kind kind;
    const char *at; /* its place in the SQL, with its quotes */
    size_t len;
};

struct sql_scan {
    const char *at;
    const char *end;
};

/* RC_FATAL: a quote or comment that does not end, or a comment the server would execute; err says
 * where it starts. */
enum rc sql_token_next(struct sql_scan *scan, struct sql_token *token, struct err *err);

/* Is it this keyword (any case), this mark? */
bool sql_token_is(const struct sql_token *token, const char *word);

/* The unquoted bytes of a name, word or text, with a zero byte behind them. False when they do not
 * fit, or hold a backslash: nothing that we name needs one. */
bool sql_token_plain(const struct sql_token *token, char *out, size_t size);

/* Borrowed from the text it was split from; without the semicolon and without comments before the
 * first word. */
struct sql_statement {
    const char *sql;
    size_t len;
};

/* Reads the statement at *at and moves *at after it. A semicolon outside of quotes and comments
 * ends a statement; the last one may go without. The client's word DELIMITER is not known. RC_OK
 * with len 0: there is none left. RC_FATAL: err says what is wrong, without the place in the file.
 */
enum rc sql_statement_next(const char **at, const char *end, struct sql_statement *statement,
                           struct err *err);

#endif
