/* SPDX-License-Identifier: MIT */
/* A fake of the database that the migration runner changes: ddl_apply() does its DDL and refuses
 * what a server refuses; any call can fail or end the process. The simulation does not migrate. */
#ifndef TESTS_FAKES_FAKE_MIGRATE_STORE_H
#define TESTS_FAKES_FAKE_MIGRATE_STORE_H

#include "schema/migrate/migrate.h"
#include "schema/migrate/migrate_ops.h"

#include <stdbool.h>
#include <stddef.h>

#define FAKE_ROWS_MAX 8

#define FAKE_BYTES(text) (const unsigned char *)(text), sizeof(text) - 1
#define FAKE_OPTIONS " ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;\n"
#define FAKE_BOTH (MIGRATION_OUTBOX | MIGRATION_SINK)

/* Versions 1 and 3 for the outbox, 2 for the sink, with every kind of statement. */
extern const struct migration_set fake_set;
#define FAKE_CHANGES 2 /* statements on rows in all of them */

/* The fault at call number `trouble_at`. */
enum fake_trouble {
    TROUBLE_NONE,
    TROUBLE_DIES_BEFORE, /* the process ends; the call never reached the server */
    TROUBLE_DIES_AFTER,  /* the process ends; the call was done */
    TROUBLE_RETRY,       /* RC_RETRY, nothing was done */
    TROUBLE_FATAL,       /* RC_FATAL, nothing was done */
};

struct fake {
    struct migrate_store store;

    /* The state of the database. */
    bool has_database;
    struct shape shape;
    struct history_row rows[FAKE_ROWS_MAX];
    size_t row_count;
    int changes; /* statements on rows that were committed */
    bool locked_by_other;
    const char *left_over;    /* a partition that a crash left, or empty */
    const char *left_over_by; /* how the statement starts that cannot be done then */

    /* The state of the process. */
    bool locked;
    bool dead;
    int calls;
    int row_deletes;
    int runs; /* DDL and statements on rows that were handed to the server */
    enum fake_trouble trouble;
    int trouble_at; /* counted from 1 */
};

void fake_init(struct fake *fake);
void fake_done(struct fake *fake);

/* Starts a new process on the same database, with a fault at call number `at`. */
void fake_restart(struct fake *fake, enum fake_trouble trouble, int at);

/* NULL when there is none. */
struct history_row *fake_row(struct fake *fake, int version);

/* A runner of fake_set on it. */
struct migrate fake_migrate(struct fake *fake, unsigned sides);

/* Runs SQL as an operator would, by hand. */
void fake_make(struct fake *fake, const char *sql);

/* Is the sentence part of err? If not, both are printed. */
bool fake_says(const struct err *err, const char *sentence);

#endif
