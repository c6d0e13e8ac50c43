/* SPDX-License-Identifier: MIT */
/* Reads from information_schema what a database really looks like. One thread at a time. */
#ifndef SCHEMA_MIGRATE_SHAPE_MYSQL_H
#define SCHEMA_MIGRATE_SHAPE_MYSQL_H

#include "common/db/db.h"
#include "common/err.h"
#include "schema/migrate/shape_row.h"

#include <stdbool.h>

/* Adds what is there of the tables of expected to actual. Of other tables nothing is read. */
enum rc shape_mysql_read(struct db *db, const struct shape *expected, struct shape *actual,
                         struct err *err);

enum rc shape_mysql_exists(struct db *db, enum shape_kind kind, const char *table, const char *name,
                           bool *exists, struct err *err);

#endif
