/* SPDX-License-Identifier: MIT */
/* How far a database is with the migrations, and whether this program can work on it as it is.
 * Reads only. One thread at a time. */
#ifndef SCHEMA_MIGRATE_STATE_H
#define SCHEMA_MIGRATE_STATE_H

#include "common/err.h"
#include "schema/migrate/migrate_ops.h"
#include "schema/migrate/migration.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum migrate_event {
    MIGRATE_DATABASE_CREATED, /* without a migration */
    MIGRATE_STARTED,
    MIGRATE_RESUMED, /* behind `done` statements */
    MIGRATE_APPLIED,
    MIGRATE_BASELINED,
};

/* Called for each event, for the output. */
typedef void (*migrate_on_event)(void *ctx, enum migrate_event event,
                                 const struct migration *migration, size_t done, size_t statements);

struct migrate {
    const struct migrate_store *store;
    const struct migration_set *set;
    unsigned sides;    /* enum migration_side, or-ed: what this database is for */
    const char *place; /* "database tallybox at 127.0.0.1:3306" */
    int64_t lock_wait_ms;
    migrate_on_event on_event; /* may be NULL */
    void *event_ctx;
};

enum migrate_progress { MIGRATE_PENDING, MIGRATE_HALF_WAY, MIGRATE_DONE, MIGRATE_EDITED };

struct migrate_entry {
    const struct migration *migration;
    enum migrate_progress progress;
    struct history_row row; /* zero while pending */
};

/* How far a database is. */
struct migrate_state {
    bool has_database;
    bool has_history;
    struct migrate_entry *entries; /* one per migration of its sides, in order */
    size_t count;
    int version; /* the last one that is done, with all before it; 0: none */
    int needs;   /* the last one this program has for it */
    int newer;   /* the last one in the history that this program does not know; 0: none */
};

/* Zero the state before; migrate_state_done() it after any outcome. */
enum rc migrate_state_read(const struct migrate *migrate, struct migrate_state *state,
                           struct err *err);
void migrate_state_done(struct migrate_state *state);

/* May it be touched at all? RC_FATAL: a migration was edited, or a newer program was here. */
enum rc migrate_state_check(const struct migrate *migrate, const struct migrate_state *state,
                            struct err *err);

/* Whether this program can work on the schema. If not, RC_RETRY, because that may change: err names
 * the version, the required one and what to do. */
enum rc migrate_state_judge(const struct migrate *migrate, const struct migrate_state *state,
                            struct err *err);

#endif
