/* SPDX-License-Identifier: MIT */
/* A database in memory behind the runner's seam: it does DDL through shape_apply(), which refuses
 * what a server refuses, and can fail or end the process at any one call. */
#ifndef TESTS_FLOW_FAKE_MIGRATE_STORE_H
#define TESTS_FLOW_FAKE_MIGRATE_STORE_H

#include "schema/migrate_seam.h"

#include <stdbool.h>
#include <stddef.h>

#define FAKE_ROWS_MAX 8

/* What happens at call number `trouble_at`. */
enum fake_trouble {
    TROUBLE_NONE,
    TROUBLE_DIES_BEFORE, /* the process ends; the call never reached the server */
    TROUBLE_DIES_AFTER,  /* the process ends; the call was done */
    TROUBLE_RETRY,       /* RC_RETRY, nothing was done */
    TROUBLE_FATAL,       /* RC_FATAL, nothing was done */
};

struct fake {
    struct migrate_store store;

    /* What the database keeps. */
    bool has_database;
    struct shape shape;
    struct history_row rows[FAKE_ROWS_MAX];
    size_t row_count;
    int changes; /* statements on rows that were committed */
    bool locked_by_other;
    const char *left_over;    /* a partition that a crash left, or empty */
    const char *left_over_by; /* how the statement starts that cannot be done then */

    /* What ends with the process. */
    bool locked;
    bool dead;
    int calls;
    int sweeps;
    int runs; /* DDL and statements on rows that were handed to the server */
    enum fake_trouble trouble;
    int trouble_at; /* counted from 1 */
};

void fake_init(struct fake *fake);
void fake_done(struct fake *fake);

/* A new process on the same database; trouble at call number `at`. */
void fake_restart(struct fake *fake, enum fake_trouble trouble, int at);

/* NULL when there is none. */
struct history_row *fake_row(struct fake *fake, int version);

#endif
