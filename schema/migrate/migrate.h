/* SPDX-License-Identifier: MIT */
/* Which databases the settings name, how far each is with the migrations, and the runner that
 * applies them. The runner may be killed between any two calls of its ops and run again: it goes on
 * where it stopped. One thread at a time; several runners, in any processes, take turns.
 *
 * How: before a statement is handed to the server, schema_history says so (HISTORY_TRYING), and
 * that its effect was not there before was checked first. A later run that finds the statement in
 * doubt looks for the effect: there, it was done; not there, it is done now. Statements on rows
 * need no such look, they share a transaction with their record. */
#ifndef SCHEMA_MIGRATE_MIGRATE_H
#define SCHEMA_MIGRATE_MIGRATE_H

#include "common/config/settings.h"
#include "common/err.h"
#include "schema/migrate/migrate_ops.h"
#include "schema/migrate/migration.h"
#include "schema/migrate/shape.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MIGRATE_TARGETS_MAX 2
#define MIGRATE_PLACE_SIZE (2 * SETTING_TEXT_SIZE + 64)

struct migrate_target {
    const struct mysql_settings *settings; /* borrowed */
    unsigned sides;                        /* enum migration_side, or-ed */
    char place[MIGRATE_PLACE_SIZE];        /* "database tallybox at 127.0.0.1:3306" */
};

/* By what the settings say: one server may have two names. */
bool migrate_is_one_server(const struct mysql_settings *a, const struct mysql_settings *b);

/* One target when [mysql] and [sink] name the same database, else two, [mysql] first. */
size_t migrate_targets(const struct settings *settings,
                       struct migrate_target targets[MIGRATE_TARGETS_MAX]);

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

/* Which migrations migrate_up() and migrate_baseline() apply. */
enum migrate_scope {
    MIGRATE_RECORDED, /* as MIGRATE_OUTBOX if the history says so, else all */
    MIGRATE_OUTBOX,   /* those of the outbox and the retry queue; records the others as left out */
    MIGRATE_ALL,      /* also those that the history records as left out */
};

struct migrate {
    const struct migrate_store *store;
    const struct migration_set *set;
    unsigned sides;      /* enum migration_side, or-ed: what this database is for */
    const char *place;   /* "database tallybox at 127.0.0.1:3306" */
    const char *setting; /* that names it: "mysql.database (tallybox.ini:4)"; NULL: not known */
    enum migrate_scope scope;
    bool has_votes; /* another database of the installation has vote tables */
    int64_t lock_wait_ms;
    migrate_on_event on_event; /* may be NULL */
    void *event_ctx;
};

enum migrate_progress {
    MIGRATE_PENDING,
    MIGRATE_HALF_WAY,
    MIGRATE_DONE,
    MIGRATE_EDITED,
    MIGRATE_LEFT_OUT, /* pending, in a database that has only the outbox */
};

struct migrate_entry {
    const struct migration *migration;
    enum migrate_progress progress;
    struct history_row row; /* zero while pending */
};

/* How far a database is. */
struct migrate_state {
    bool has_database;
    bool has_history;
    bool votes_left_out; /* the history records that migrations of the votes were left out */
    bool outbox_only;    /* all of them: migrate_up() has begun none since */
    struct migrate_entry *entries; /* one per migration of its sides, in order */
    size_t count;
    int version; /* the last one that is done, with all before it that are not left out; 0: none */
    int needs;   /* the last one this program has for it, without those left out */
    int newer;   /* the last one in the history that this program does not know; 0: none */
};

/* Zero the state before; migrate_state_done() it after any outcome. */
enum rc migrate_state_read(const struct migrate *migrate, struct migrate_state *state,
                           struct err *err);
void migrate_state_done(struct migrate_state *state);

/* May it be touched at all? RC_FATAL: a migration was edited, or a newer program was here. */
enum rc migrate_state_check(const struct migrate *migrate, const struct migrate_state *state,
                            struct err *err);

/* Whether this program can work on the schema, or, in a database that has only the outbox, on that
 * part. If not, RC_RETRY, because that may change: err names the version, the required one and what
 * to do. */
enum rc migrate_state_judge(const struct migrate *migrate, const struct migrate_state *state,
                            struct err *err);

/* Whether everything that relay and retry need is there, in a database to which migrate_up() is
 * adding the votes that were left out. */
bool migrate_state_has_outbox(const struct migrate_state *state);

/* Whether vote tables are there, which cannot be left out any more. */
bool migrate_state_has_votes(const struct migrate_state *state);

/* Whether migrate_up() would run the migration of the entry, up to version `to`. */
bool migrate_is_due(const struct migrate *migrate, const struct migrate_state *state,
                    const struct migrate_entry *entry, int to);

/* Whether migrate_up() could begin, up to version `to`. Takes the lock if something is due, and
 * changes nothing. An installation with two databases asks this of both before it changes the
 * first. Zero the state before and migrate_state_done() it, as for migrate_state_read(). RC_RETRY,
 * RC_FATAL: as migrate_up(). */
enum rc migrate_admit(const struct migrate *migrate, int to, struct migrate_state *state,
                      struct err *err);

/* Creates the database if it is missing and applies the due migrations, up to version `to`. If a
 * table that they make exists already, nothing is changed, and err names it: RC_FATAL. RC_RETRY:
 * nothing is broken; run it again. RC_FATAL: err says what the operator must do; finished
 * statements stay recorded. */
enum rc migrate_up(const struct migrate *migrate, int to, struct err *err);

/* Compares the database with what its applied migrations make. *drifts: how many differences. */
enum rc migrate_verify(const struct migrate *migrate, const struct migrate_state *state,
                       shape_on_drift on_drift, void *ctx, size_t *drifts, struct err *err);

/* Records what is pending or half-way up to version `to` as applied without running it, when the
 * database looks exactly like it; with drifts nothing is recorded. */
enum rc migrate_baseline(const struct migrate *migrate, int to, shape_on_drift on_drift, void *ctx,
                         size_t *drifts, struct err *err);

#endif
