/* SPDX-License-Identifier: MIT */
/* Reads what a migration's statement changes: enough of SQL for our own migrations, and an error
 * for everything else, so that a change that the runner cannot verify never gets into one. The
 * expected schema is derived from the SQL itself; there is no second description of the tables.
 * Pure; any thread.
 *
 * Known: CREATE TABLE, DROP TABLE, ALTER TABLE (ADD, MODIFY and DROP of columns and indexes),
 * CREATE INDEX, DROP INDEX, and INSERT, UPDATE, DELETE, REPLACE. Columns of text must have a
 * collation of their own or of their table: a server's default is different everywhere. A CHECK of
 * a column is read and is no part of the shape: the program may not rely on it.
 *
 * A statement passed here is one that sql_statement_next() gave. */
#ifndef SCHEMA_MIGRATE_DDL_H
#define SCHEMA_MIGRATE_DDL_H

#include "common/err.h"
#include "schema/migrate/shape.h"
#include "schema/migrate/sql_split.h"

/* Does to the shape what the statement does to a schema. RC_FATAL: the statement cannot be read, or
 * not be done (a table that is there already, ...); the shape is then of no use. */
enum rc ddl_apply(struct shape *shape, const struct sql_statement *statement, struct err *err);

/* The visible effect of a statement, which tells whether it was done. */
enum ddl_effect_kind {
    DDL_APPEARS,    /* the table, column or index exists afterwards and did not before */
    DDL_DISAPPEARS, /* it existed before and does not afterwards */
    DDL_REPEATABLE, /* not visible, but executing it twice is as good as once */
    DDL_ROWS,       /* not visible, because rows change: it needs a transaction */
};

struct ddl_effect {
    enum ddl_effect_kind kind;
    enum shape_kind what; /* for the first two kinds */
    char table[SHAPE_NAME_SIZE];
    char name[SHAPE_NAME_SIZE]; /* of the column or index, or empty */
};

/* RC_FATAL: the statement cannot be read. */
enum rc ddl_effect(const struct sql_statement *statement, struct ddl_effect *effect,
                   struct err *err);

/* Calls on_name for each partition that a CREATE TABLE makes, in order. */
typedef enum rc (*ddl_on_name)(void *ctx, const char *name, struct err *err);
enum rc ddl_partitions(const struct sql_statement *statement, ddl_on_name on_name, void *ctx,
                       struct err *err);

#endif
