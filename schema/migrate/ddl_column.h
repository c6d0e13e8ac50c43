/* SPDX-License-Identifier: MIT */
/* The parser of one column's definition, and the reader that it shares with ddl.c, which looks one
 * token ahead. Only ddl.c includes this. */
#ifndef SCHEMA_MIGRATE_DDL_COLUMN_H
#define SCHEMA_MIGRATE_DDL_COLUMN_H

#include "common/err.h"
#include "schema/migrate/shape_row.h"
#include "schema/migrate/sql_token.h"

#include <stdbool.h>
#include <stddef.h>

struct ddl_reader {
    struct sql_scan scan;
    struct sql_token token; /* the next one */
    struct err *err;
    char collation[SHAPE_NAME_SIZE]; /* of the table; empty: not known here */
};

/* Goes on to the next token. */
enum rc ddl_next(struct ddl_reader *reader);

/* Takes the word if it is the next token. */
bool ddl_take(struct ddl_reader *reader, const char *word);

/* Takes the words, which have to be there. */
enum rc ddl_want(struct ddl_reader *reader, const char *word);

/* RC_FATAL: "expected <what> at: <the SQL there>". */
enum rc ddl_fail(const struct ddl_reader *reader, const char *what);

/* Takes the name of a table, column or index. */
enum rc ddl_name(struct ddl_reader *reader, char name[SHAPE_NAME_SIZE]);

/* Takes "( ... )" with whatever is inside, and keeps it as text with its brackets; out may be
 * NULL. */
enum rc ddl_brackets(struct ddl_reader *reader, char *out, size_t size);

/* Reads the part after a column's name: type and attributes, up to a comma, a closing bracket or
 * the end. */
enum rc ddl_column(struct ddl_reader *reader, struct shape_column *column);

#endif
