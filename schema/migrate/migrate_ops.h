/* SPDX-License-Identifier: MIT */
/* The operations on a database that the runner of migrations needs. One thread at a time. RC_RETRY
 * and RC_FATAL as in common/db/db.h: the statement was not executed, or its outcome is unknown. */
#ifndef SCHEMA_MIGRATE_MIGRATE_OPS_H
#define SCHEMA_MIGRATE_MIGRATE_OPS_H

#include "common/err.h"
#include "schema/migrate/shape.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HISTORY_TEXT_SIZE 65

enum history_state {
    HISTORY_RUNNING, /* statements 1..statement are done, no other was begun */
    HISTORY_TRYING,  /* statement + 1 was handed to the server: it may be done or not */
    HISTORY_APPLIED, /* all is done */
    /* Not run, because this database has only the outbox: migrate_up() with MIGRATE_OUTBOX. */
    HISTORY_LEFT_OUT,
};

/* A row of schema_history: what is known of one migration in this database. */
struct history_row {
    int version;
    char name[HISTORY_TEXT_SIZE];
    char side[16];
    char sha256[HISTORY_TEXT_SIZE];
    enum history_state state;
    int statement;        /* statements known to be done */
    int statements;       /* statements in the file */
    bool baseline;        /* found in place, not run */
    char finished_at[24]; /* UTC, by the database's clock; set by the store; empty: not finished */
};

/* Called once per row. Anything but RC_OK ends the reading and is returned. */
typedef enum rc (*history_on_row)(void *ctx, const struct history_row *row, struct err *err);

struct migrate_store {
    void *ctx;

    /* Is the database there? RC_OK and *found false: the server is, the database is not. */
    enum rc (*find_database)(void *ctx, bool *found, struct err *err);
    /* Makes it unless it is there. */
    enum rc (*create_database)(void *ctx, struct err *err);

    /* Waits up to wait_ms to be the only runner in this database, until unlock(). RC_RETRY: another
     * runner is at work. A runner that dies or loses its connection loses the lock once the server
     * has ended its statement. run(), delete_rows(), save() and run_and_save() return RC_RETRY and
     * do nothing when the lock is lost. */
    enum rc (*lock)(void *ctx, int64_t wait_ms, struct err *err);
    void (*unlock)(void *ctx);

    /* All rows in the order of their versions; *found is false when there is no such table. */
    enum rc (*read_history)(void *ctx, bool *found, history_on_row on_row, void *row_ctx,
                            struct err *err);

    /* Is there such a table, column or index? name is empty for a table. */
    enum rc (*exists)(void *ctx, enum shape_kind kind, const char *table, const char *name,
                      bool *exists, struct err *err);

    /* One statement that commits by itself and is done whole or not at all, see delete_rows(). */
    enum rc (*run)(void *ctx, const char *sql, size_t len, struct err *err);
    /* Removes the remains of one partition after the server crashed while it created a table.
     * Called only while that table does not exist. */
    enum rc (*delete_rows)(void *ctx, const char *table, const char *partition, struct err *err);
    /* Writes the row of a version, new or again. */
    enum rc (*save)(void *ctx, const struct history_row *row, struct err *err);
    /* Executes a statement on rows and saves its record in one transaction. */
    enum rc (*run_and_save)(void *ctx, const char *sql, size_t len, const struct history_row *row,
                            struct err *err);

    /* Adds what is there of the tables of expected to actual. */
    enum rc (*read_shape)(void *ctx, const struct shape *expected, struct shape *actual,
                          struct err *err);
};

#endif
