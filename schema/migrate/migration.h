/* SPDX-License-Identifier: MIT */
/* The migrations that are compiled in, from schema/migrate/NNNN_name.sql, and what they add up to.
 * Forward only: a file that was released is never edited again. Pure; any thread. */
#ifndef SCHEMA_MIGRATE_MIGRATION_H
#define SCHEMA_MIGRATE_MIGRATION_H

#include "common/err.h"
#include "schema/migrate/shape.h"
#include "schema/migrate/sql_split.h"

#include <limits.h>
#include <stddef.h>

/* Which tables a migration makes: the outbox with the retry queue and the tables that a vote
 * changes with it, both in the database of [mysql], or the sink of the votes, in the database of
 * [sink]. A database may have all of them. */
enum migration_side { MIGRATION_OUTBOX = 1, MIGRATION_VOTES = 2, MIGRATION_SINK = 4 };

struct migration {
    int version;      /* 1, 2, 3 ... */
    const char *name; /* "0001_outbox" */
    enum migration_side side;
    const char *sha256; /* of the file, in lower-case hex */
    const unsigned char *sql;
    size_t len;
};

struct migration_set {
    const struct migration *list; /* in the order of their versions */
    size_t count;
    const unsigned char *history; /* the statement that makes schema_history */
    size_t history_len;
};

#define MIGRATION_NEWEST INT_MAX

/* The migrations compiled into this program; embed.cmake generates them. */
extern const struct migration_set migration_set_ours;

/* "outbox", "votes" or "sink"; static. */
const char *migration_side_name(enum migration_side side);

/* Statement number 1, 2, 3 ...; len is 0 behind the last. RC_FATAL: the file cannot be split. */
enum rc migration_statement(const struct migration *migration, size_t number,
                            struct sql_statement *statement, struct err *err);

enum rc migration_count_statements(const struct migration *migration, size_t *count,
                                   struct err *err);

/* The statement that makes schema_history. */
enum rc migration_history_statement(const struct migration_set *set,
                                    struct sql_statement *statement, struct err *err);

/* Adds the first count statements (SIZE_MAX: all) of a migration to the shape. */
enum rc migration_add_to_shape(const struct migration *migration, size_t count, struct shape *shape,
                               struct err *err);

/* Checks that the versions ascend, that every statement can be parsed, and that its effect can be
 * detected after a restart. RC_FATAL: err names the migration and the statement. */
enum rc migration_check(const struct migration_set *set, struct err *err);

#endif
