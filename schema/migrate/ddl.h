/* SPDX-License-Identifier: MIT */
/* Reads what a migration's statement changes: enough of SQL for our own migrations, and an error
 * for everything else, so that a change that the runner cannot verify never gets into one. Pure;
 * any thread.
 *
 * Known: CREATE TABLE, DROP TABLE, ALTER TABLE (ADD, MODIFY and DROP of columns and indexes),
 * CREATE INDEX, DROP INDEX, and INSERT, UPDATE, DELETE, REPLACE. Columns of text must have a
 * collation of their own or of their table: a server's default is different everywhere. */
#ifndef SCHEMA_MIGRATE_DDL_H
#define SCHEMA_MIGRATE_DDL_H

#include "common/err.h"
#include "schema/migrate/shape_row.h"
#include "schema/migrate/statement.h"

enum ddl_kind {
    DDL_TABLE_ADD,
    DDL_TABLE_DROP,
    DDL_COLUMN_ADD,
    DDL_COLUMN_MODIFY,
    DDL_COLUMN_DROP,
    DDL_INDEX_ADD,
    DDL_INDEX_DROP,
    DDL_DATA, /* rows change; table and name are not set */
};

struct ddl_change {
    enum ddl_kind kind;
    char table[SHAPE_NAME_SIZE];
    char name[SHAPE_NAME_SIZE]; /* of the column or index */
    char text[SHAPE_TEXT_SIZE]; /* for what is added or modified: as in struct shape_item */
};

/* Anything but RC_OK ends the reading and is returned by ddl_read(). */
typedef enum rc (*ddl_on_change)(void *ctx, const struct ddl_change *change, struct err *err);

/* Calls on_change for each change in order; a table comes before its columns. statement is one that
 * statement_next() gave. RC_FATAL: err says which words cannot be read. */
enum rc ddl_read(const struct statement *statement, ddl_on_change on_change, void *ctx,
                 struct err *err);

/* Calls on_name for each partition that a CREATE TABLE makes, in order. */
typedef enum rc (*ddl_on_name)(void *ctx, const char *name, struct err *err);
enum rc ddl_partitions(const struct statement *statement, ddl_on_name on_name, void *ctx,
                       struct err *err);

#endif
