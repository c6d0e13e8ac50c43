/* SPDX-License-Identifier: MIT */
#include "schema/migrate/migrate.h"

#include "schema/migrate/ddl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TAKEN_NAMES_SIZE 80 /* leaves room for the advice in an error */

bool migrate_is_one_server(const struct mysql_settings *a, const struct mysql_settings *b)
{
    if (strcmp(a->socket, b->socket) != 0)
        return false;
    return a->socket[0] || (strcmp(a->host, b->host) == 0 && a->port == b->port);
}

/* By what the settings say. The same database named in two ways makes two targets, which do each
 * other no harm: they take turns at the lock and leave each other's history alone. */
static bool is_same(const struct mysql_settings *a, const struct mysql_settings *b)
{
    return strcmp(a->database, b->database) == 0 && migrate_is_one_server(a, b);
}

static void init_target(struct migrate_target *target, const struct mysql_settings *settings,
                        unsigned sides)
{
    target->settings = settings;
    target->sides = sides;
    if (settings->socket[0])
        snprintf(target->place, sizeof(target->place), "database %s at %s", settings->database,
                 settings->socket);
    else
        snprintf(target->place, sizeof(target->place), "database %s at %s:%lld", settings->database,
                 settings->host, (long long)settings->port);
}

size_t migrate_targets(const struct settings *settings,
                       struct migrate_target targets[MIGRATE_TARGETS_MAX])
{
    if (is_same(&settings->mysql, &settings->sink)) {
        init_target(&targets[0], &settings->mysql,
                    MIGRATION_OUTBOX | MIGRATION_VOTES | MIGRATION_SINK);
        return 1;
    }
    init_target(&targets[0], &settings->mysql, MIGRATION_OUTBOX | MIGRATION_VOTES);
    init_target(&targets[1], &settings->sink, MIGRATION_SINK);
    return 2;
}

void migrate_state_done(struct migrate_state *state)
{
    free(state->entries);
    memset(state, 0, sizeof(*state));
}

static enum rc init_state(const struct migrate *migrate, struct migrate_state *state,
                          struct err *err)
{
    migrate_state_done(state);
    state->entries = calloc(migrate->set->count + 1, sizeof(*state->entries));
    if (!state->entries)
        return err_fail(err, RC_FATAL, 0, "out of memory");
    for (size_t i = 0; i < migrate->set->count; i++) {
        const struct migration *migration = &migrate->set->list[i];

        if (!(migration->side & migrate->sides))
            continue;
        state->entries[state->count++].migration = migration;
    }
    return RC_OK;
}

struct reading {
    const struct migrate *migrate;
    struct migrate_state *state;
    bool votes_begun; /* a migration of the votes has a row and is not left out */
};

/* The table may have rows of the other side, whose settings may name the same database
 * differently, or which was in this database before [sink] named another one. */
static bool is_ours(const struct migrate *migrate, const struct history_row *row)
{
    for (unsigned side = MIGRATION_OUTBOX; side <= MIGRATION_SINK; side <<= 1) {
        if ((migrate->sides & side) &&
            strcmp(row->side, migration_side_name((enum migration_side)side)) == 0)
            return true;
    }
    return false;
}

static enum migrate_progress progress_of_row(const struct history_row *row,
                                             const struct migration *migration)
{
    if (row->state == HISTORY_LEFT_OUT)
        return MIGRATE_LEFT_OUT;
    if (strcmp(row->name, migration->name) != 0 || strcmp(row->sha256, migration->sha256) != 0)
        return MIGRATE_EDITED;
    return row->state == HISTORY_APPLIED ? MIGRATE_DONE : MIGRATE_HALF_WAY;
}

static void note_scope(struct reading *reading, const struct history_row *row)
{
    if (row->state == HISTORY_LEFT_OUT)
        reading->state->votes_left_out = true;
    else if (strcmp(row->side, migration_side_name(MIGRATION_OUTBOX)) != 0)
        reading->votes_begun = true;
}

static enum rc on_state_row(void *ctx, const struct history_row *row, struct err *err)
{
    struct reading *reading = ctx;
    struct migrate_state *state = reading->state;

    (void)err;
    if (is_ours(reading->migrate, row))
        note_scope(reading, row);
    for (size_t i = 0; i < state->count; i++) {
        struct migrate_entry *entry = &state->entries[i];

        if (entry->migration->version != row->version)
            continue;
        entry->row = *row;
        entry->progress = progress_of_row(row, entry->migration);
        return RC_OK;
    }
    if (is_ours(reading->migrate, row) && row->version > state->newer)
        state->newer = row->version;
    return RC_OK;
}

/* What is left out stays so until migrate_up() with MIGRATE_ALL has begun the first of it; then all
 * of it is pending, also for a later run. A migration that a later version of this program brings
 * for the votes is left out, too. */
static void set_left_out(struct migrate_state *state)
{
    for (size_t i = 0; i < state->count; i++) {
        struct migrate_entry *entry = &state->entries[i];

        if (entry->migration->side != MIGRATION_OUTBOX &&
            (entry->progress == MIGRATE_PENDING || entry->progress == MIGRATE_LEFT_OUT))
            entry->progress = state->outbox_only ? MIGRATE_LEFT_OUT : MIGRATE_PENDING;
    }
}

static void set_versions(struct migrate_state *state)
{
    bool all_done = true;

    for (size_t i = 0; i < state->count; i++) {
        const struct migrate_entry *entry = &state->entries[i];

        if (entry->progress == MIGRATE_LEFT_OUT)
            continue;
        state->needs = entry->migration->version;
        all_done = all_done && entry->progress == MIGRATE_DONE;
        if (all_done)
            state->version = entry->migration->version;
    }
}

enum rc migrate_state_read(const struct migrate *migrate, struct migrate_state *state,
                           struct err *err)
{
    const struct migrate_store *store = migrate->store;
    struct reading reading = {migrate, state, false};
    enum rc rc = init_state(migrate, state, err);

    if (rc == RC_OK)
        rc = store->find_database(store->ctx, &state->has_database, err);
    if (rc == RC_OK && state->has_database)
        rc = store->read_history(store->ctx, &state->has_history, on_state_row, &reading, err);
    state->outbox_only = state->votes_left_out && !reading.votes_begun;
    if (rc == RC_OK)
        set_left_out(state);
    set_versions(state);
    return rc;
}

enum rc migrate_state_check(const struct migrate *migrate, const struct migrate_state *state,
                            struct err *err)
{
    for (size_t i = 0; i < state->count; i++) {
        const struct migrate_entry *entry = &state->entries[i];

        if (entry->progress == MIGRATE_EDITED)
            return err_fail(err, RC_FATAL, 0,
                            "%s: migration %s is not the one that was applied there (%s, SHA-256 "
                            "%.12s; now %.12s): a migration is never edited after its release, "
                            "changes come with a new one",
                            migrate->place, entry->migration->name, entry->row.name,
                            entry->row.sha256, entry->migration->sha256);
    }
    if (state->newer)
        return err_fail(err, RC_FATAL, 0,
                        "%s has schema version %d, this program knows %d at most: use a newer "
                        "tallybox",
                        migrate->place, state->newer, state->needs);
    return RC_OK;
}

enum rc migrate_state_judge(const struct migrate *migrate, const struct migrate_state *state,
                            struct err *err)
{
    if (!state->has_database)
        return err_fail(err, RC_RETRY, 0,
                        "%s does not exist: %s%s%srun `tallybox migrate up` or start with "
                        "--migrate",
                        migrate->place, migrate->setting ? "check " : "",
                        migrate->setting ? migrate->setting : "",
                        migrate->setting ? "; if the name is right, " : "");
    if (migrate_state_check(migrate, state, err) != RC_OK)
        return RC_RETRY;
    for (size_t i = 0; i < state->count; i++) {
        const struct migrate_entry *entry = &state->entries[i];

        if (state->outbox_only && entry->migration->side != MIGRATION_OUTBOX)
            continue;
        if (entry->progress == MIGRATE_HALF_WAY)
            return err_fail(err, RC_RETRY, 0,
                            "%s is half-way through migration %s (%d of %d statements): run "
                            "`tallybox migrate up` or start with --migrate",
                            migrate->place, entry->migration->name, entry->row.statement,
                            entry->row.statements);
        if (entry->progress == MIGRATE_PENDING)
            return err_fail(err, RC_RETRY, 0,
                            "%s has schema version %d, this program needs %d: run `tallybox "
                            "migrate up` or start with --migrate",
                            migrate->place, state->version, state->needs);
    }
    return RC_OK;
}

bool migrate_state_has_outbox(const struct migrate_state *state)
{
    for (size_t i = 0; i < state->count; i++) {
        const struct migrate_entry *entry = &state->entries[i];

        if (entry->migration->side == MIGRATION_OUTBOX && entry->progress != MIGRATE_DONE)
            return false;
    }
    return state->votes_left_out;
}

/* The first migration of the votes that was begun, or NULL. */
static const struct migrate_entry *find_votes(const struct migrate_state *state)
{
    for (size_t i = 0; i < state->count; i++) {
        const struct migrate_entry *entry = &state->entries[i];

        if (entry->migration->side != MIGRATION_OUTBOX && entry->progress != MIGRATE_PENDING &&
            entry->progress != MIGRATE_LEFT_OUT)
            return entry;
    }
    return NULL;
}

bool migrate_state_has_votes(const struct migrate_state *state)
{
    return find_votes(state) != NULL;
}

static void tell_progress(const struct migrate *migrate, enum migrate_event event,
                          const struct migration *migration, size_t done, size_t statements)
{
    if (migrate->on_event)
        migrate->on_event(migrate->event_ctx, event, migration, done, statements);
}

/* One statement of a migration under way. */
struct step {
    const struct migrate *migrate;
    const struct migration *migration;
    struct history_row *row;
    struct sql_statement statement;
    struct ddl_effect effect;
};

/* Is it as it will be after the statement? Never for what leaves no trace. */
static enum rc look_at_step(const struct step *step, bool *done, struct err *err)
{
    const struct migrate_store *store = step->migrate->store;
    const struct ddl_effect *effect = &step->effect;
    bool exists = false;
    enum rc rc;

    *done = false;
    if (effect->kind == DDL_REPEATABLE)
        return RC_OK;
    rc = store->exists(store->ctx, effect->what, effect->table, effect->name, &exists, err);
    if (rc == RC_OK)
        *done = exists == (effect->kind == DDL_APPEARS);
    return rc;
}

static enum rc save_step(const struct step *step, enum history_state state, struct err *err)
{
    const struct migrate_store *store = step->migrate->store;

    step->row->state = state;
    return store->save(store->ctx, step->row, err);
}

/* Invariant: HISTORY_TRYING is only ever written when the effect is not there. */
static enum rc announce_step(const struct step *step, struct err *err)
{
    bool done;
    enum rc rc = look_at_step(step, &done, err);

    if (rc == RC_OK && done)
        return err_fail(err, RC_FATAL, 0,
                        "%s%s%s %s in %s, and no migration did that: put it right by hand, or, if "
                        "the whole schema is in place, run `tallybox migrate baseline`",
                        step->effect.table, step->effect.name[0] ? "." : "", step->effect.name,
                        step->effect.kind == DDL_APPEARS ? "exists already" : "is gone already",
                        step->migrate->place);
    return rc == RC_OK ? save_step(step, HISTORY_TRYING, err) : rc;
}

/* The server refused the statement, so it is not in doubt any more. If this save fails, the next
 * run checks the effect itself. */
static void withdraw_step(const struct step *step)
{
    bool done = true;

    if (look_at_step(step, &done, NULL) == RC_OK && !done)
        save_step(step, HISTORY_RUNNING, NULL);
}

static enum history_state get_state_after(const struct step *step)
{
    return step->row->statement == step->row->statements ? HISTORY_APPLIED : HISTORY_RUNNING;
}

static enum rc delete_partition_rows(void *ctx, const char *name, struct err *err)
{
    const struct step *step = ctx;
    const struct migrate_store *store = step->migrate->store;
    enum rc rc = store->delete_rows(store->ctx, step->effect.table, name, err);

    /* A missing privilege matters only if there is something to remove; then the statement reports
     * it again. */
    return rc == RC_RETRY ? rc : RC_OK;
}

/* A statement is in doubt: was it done? If not, it can be done once this has returned. MariaDB
 * makes a partitioned table piece by piece, and a crash of the server leaves pieces behind. */
static enum rc resume_step(struct step *step, bool *done, struct err *err)
{
    enum rc rc = look_at_step(step, done, err);

    if (rc == RC_OK && !*done && step->effect.kind == DDL_APPEARS &&
        step->effect.what == SHAPE_TABLE)
        rc = ddl_partitions(&step->statement, delete_partition_rows, step, err);
    return rc;
}

static enum rc run_ddl_step(struct step *step, struct err *err)
{
    const struct migrate_store *store = step->migrate->store;
    bool done = false;
    enum rc rc;

    if (step->row->state == HISTORY_TRYING)
        rc = resume_step(step, &done, err);
    else
        rc = announce_step(step, err);
    if (rc != RC_OK)
        return rc;
    if (!done)
        rc = store->run(store->ctx, step->statement.sql, step->statement.len, err);
    if (rc == RC_FATAL || rc == RC_REJECT)
        withdraw_step(step);
    if (rc != RC_OK)
        return rc;
    step->row->statement++;
    return save_step(step, get_state_after(step), err);
}

static enum rc run_data_step(const struct step *step, struct err *err)
{
    const struct migrate_store *store = step->migrate->store;

    step->row->statement++;
    step->row->state = get_state_after(step);
    return store->run_and_save(store->ctx, step->statement.sql, step->statement.len, step->row,
                               err);
}

static enum rc run_step(struct step *step, struct err *err)
{
    size_t number = (size_t)step->row->statement + 1;
    enum rc rc = migration_statement(step->migration, number, &step->statement, err);

    if (rc == RC_OK)
        rc = ddl_effect(&step->statement, &step->effect, err);
    if (rc != RC_OK)
        return rc;
    rc = step->effect.kind == DDL_ROWS ? run_data_step(step, err) : run_ddl_step(step, err);
    if (rc != RC_OK)
        err_wrap(err, "migration %s, statement %zu of %d", step->migration->name, number,
                 step->row->statements);
    return rc;
}

static void init_row(struct history_row *row, const struct migration *migration, size_t statements)
{
    memset(row, 0, sizeof(*row));
    row->version = migration->version;
    row->statements = (int)statements;
    snprintf(row->name, sizeof(row->name), "%s", migration->name);
    snprintf(row->side, sizeof(row->side), "%s", migration_side_name(migration->side));
    snprintf(row->sha256, sizeof(row->sha256), "%s", migration->sha256);
}

static enum rc apply_migrations(const struct migrate *migrate, struct migrate_entry *entry,
                                struct err *err)
{
    struct step step = {.migrate = migrate, .migration = entry->migration, .row = &entry->row};
    bool is_new = entry->progress != MIGRATE_HALF_WAY;
    size_t statements = 0;
    enum rc rc = migration_count_statements(entry->migration, &statements, err);

    if (rc != RC_OK)
        return rc;
    if (is_new)
        init_row(&entry->row, entry->migration, statements);
    tell_progress(migrate, is_new ? MIGRATE_STARTED : MIGRATE_RESUMED, entry->migration,
                  (size_t)entry->row.statement, statements);
    while (rc == RC_OK && entry->row.state != HISTORY_APPLIED)
        rc = run_step(&step, err);
    if (rc == RC_OK)
        tell_progress(migrate, MIGRATE_APPLIED, entry->migration, statements, statements);
    return rc;
}

/* Tables that are in the way. */
struct taken_names {
    char list[TAKEN_NAMES_SIZE];
    bool cut;            /* there are more */
    bool needed;         /* one of them is not for votes */
    bool outbox;         /* outbox is one of them */
    bool foreign_outbox; /* and looks like another program's */
};

static void add_taken_name(struct taken_names *taken, const char *table, enum migration_side side)
{
    size_t len = strlen(taken->list);

    if (len + strlen(table) + sizeof(", ") <= sizeof(taken->list))
        snprintf(taken->list + len, sizeof(taken->list) - len, "%s%s", len ? ", " : "", table);
    else
        taken->cut = true;
    taken->needed = taken->needed || side == MIGRATION_OUTBOX;
    taken->outbox = taken->outbox || strcmp(table, "outbox") == 0;
}

static bool is_outbox_only(const struct migrate *migrate, const struct migrate_state *state)
{
    return migrate->scope == MIGRATE_OUTBOX ||
           (migrate->scope == MIGRATE_RECORDED && state->outbox_only);
}

bool migrate_is_due(const struct migrate *migrate, const struct migrate_state *state,
                    const struct migrate_entry *entry, int to)
{
    return entry->progress != MIGRATE_DONE && entry->migration->version <= to &&
           (entry->migration->side == MIGRATION_OUTBOX || !is_outbox_only(migrate, state));
}

/* Whether migrate_up() has anything to write. */
static bool has_due(const struct migrate *migrate, const struct migrate_state *state, int to)
{
    if (migrate->scope == MIGRATE_OUTBOX && !state->outbox_only)
        return true;
    for (size_t i = 0; i < state->count; i++) {
        if (migrate_is_due(migrate, state, &state->entries[i], to))
            return true;
    }
    return false;
}

/* Appends the tables that exist among those that the rest of a due migration makes. A statement in
 * doubt is not looked at: its own table may exist. */
static enum rc find_taken_names(const struct migrate *migrate, const struct migrate_entry *entry,
                                struct taken_names *taken, struct err *err)
{
    const struct migrate_store *store = migrate->store;
    size_t number = (size_t)entry->row.statement + 1;

    if (entry->progress == MIGRATE_HALF_WAY && entry->row.state == HISTORY_TRYING)
        number++;
    for (;; number++) {
        struct sql_statement statement;
        struct ddl_effect effect;
        bool exists = false;
        enum rc rc = migration_statement(entry->migration, number, &statement, err);

        if (rc == RC_OK && statement.len == 0)
            return RC_OK;
        if (rc == RC_OK)
            rc = ddl_effect(&statement, &effect, err);
        if (rc == RC_OK && effect.kind == DDL_APPEARS && effect.what == SHAPE_TABLE)
            rc = store->exists(store->ctx, SHAPE_TABLE, effect.table, "", &exists, err);
        if (rc != RC_OK)
            return rc;
        if (exists)
            add_taken_name(taken, effect.table, entry->migration->side);
    }
}

/* The outbox table of another program is the likeliest of all: Debezium's has the same name. */
static enum rc explain_taken_outbox(const struct migrate *migrate, struct taken_names *taken,
                                    struct err *err)
{
    const struct migrate_store *store = migrate->store;
    bool has_seq = true;
    enum rc rc = RC_OK;

    if (taken->outbox)
        rc = store->exists(store->ctx, SHAPE_COLUMN, "outbox", "seq", &has_seq, err);
    taken->foreign_outbox = !has_seq;
    return rc;
}

static enum rc refuse_taken_names(const struct migrate *migrate, const struct migrate_state *state,
                                  const struct taken_names *taken, struct err *err)
{
    static const char *const options[] = {[MIGRATE_RECORDED] = "",
                                          [MIGRATE_OUTBOX] = " --only outbox",
                                          [MIGRATE_ALL] = " --with votes"};
    bool may_leave_out = !taken->needed && migrate->scope == MIGRATE_RECORDED &&
                         !migrate->has_votes && !migrate_state_has_votes(state);

    return err_fail(
        err, RC_FATAL, 0,
        "%s already has tables that tallybox makes: %s%s%s; nothing was changed: "
        "rename them%s, or give tallybox another database; if tallybox made them, run "
        "`tallybox migrate baseline%s`",
        migrate->place, taken->list, taken->cut ? " and more" : "",
        taken->foreign_outbox ? " (not a tallybox outbox table: outbox has no column seq)" : "",
        may_leave_out ? ", leave the votes out (`tallybox migrate up --only outbox`)" : "",
        options[migrate->scope]);
}

/* All names first: a table of the application must not stop a run half-way. */
static enum rc check_names(const struct migrate *migrate, const struct migrate_state *state, int to,
                           struct err *err)
{
    struct taken_names taken = {0};
    enum rc rc = RC_OK;

    for (size_t i = 0; rc == RC_OK && i < state->count; i++) {
        if (migrate_is_due(migrate, state, &state->entries[i], to))
            rc = find_taken_names(migrate, &state->entries[i], &taken, err);
    }
    if (rc == RC_OK && taken.list[0])
        rc = explain_taken_outbox(migrate, &taken, err);
    if (rc == RC_OK && taken.list[0])
        rc = refuse_taken_names(migrate, state, &taken, err);
    return rc;
}

/* A vote table that exists cannot be left out any more. */
static enum rc check_scope(const struct migrate *migrate, const struct migrate_state *state,
                           struct err *err)
{
    const struct migrate_entry *votes = find_votes(state);

    if (migrate->scope != MIGRATE_OUTBOX || !votes)
        return RC_OK;
    return err_fail(err, RC_FATAL, 0,
                    "%s has vote tables already (migration %s): run without --only outbox",
                    migrate->place, votes->migration->name);
}

/* Under the lock: another runner makes tables between the two looks. */
static enum rc check_begin(const struct migrate *migrate, const struct migrate_state *state, int to,
                           struct err *err)
{
    enum rc rc = check_scope(migrate, state, err);

    return rc == RC_OK ? check_names(migrate, state, to, err) : rc;
}

/* Invariant: this precedes the first migration, so that a run which is killed later is completed as
 * it was begun, by any process. */
static enum rc record_left_out(const struct migrate *migrate, struct migrate_state *state,
                               struct err *err)
{
    const struct migrate_store *store = migrate->store;
    enum rc rc = RC_OK;

    for (size_t i = 0; migrate->scope == MIGRATE_OUTBOX && rc == RC_OK && i < state->count; i++) {
        struct migrate_entry *entry = &state->entries[i];
        size_t statements = 0;

        if (entry->migration->side == MIGRATION_OUTBOX || entry->row.version != 0)
            continue;
        rc = migration_count_statements(entry->migration, &statements, err);
        if (rc != RC_OK)
            return rc;
        init_row(&entry->row, entry->migration, statements);
        entry->row.state = HISTORY_LEFT_OUT;
        rc = store->save(store->ctx, &entry->row, err);
    }
    return rc;
}

static enum rc make_history(const struct migrate *migrate, const struct migrate_state *state,
                            struct err *err)
{
    const struct migrate_store *store = migrate->store;
    struct sql_statement statement;
    enum rc rc;

    if (state->has_history)
        return RC_OK;
    rc = migration_history_statement(migrate->set, &statement, err);
    return rc == RC_OK ? store->run(store->ctx, statement.sql, statement.len, err) : rc;
}

/* Reads the state, and refuses one that an operator has to repair first. */
static enum rc read_sound(const struct migrate *migrate, struct migrate_state *state,
                          struct err *err)
{
    enum rc rc = migrate_state_read(migrate, state, err);

    return rc == RC_OK ? migrate_state_check(migrate, state, err) : rc;
}

/* Under the lock. */
static enum rc migrate_locked(const struct migrate *migrate, int to, struct err *err)
{
    struct migrate_state state = {0};
    enum rc rc = read_sound(migrate, &state, err);

    if (rc == RC_OK)
        rc = check_begin(migrate, &state, to, err);
    if (rc == RC_OK)
        rc = make_history(migrate, &state, err);
    if (rc == RC_OK)
        rc = record_left_out(migrate, &state, err);
    for (size_t i = 0; rc == RC_OK && i < state.count; i++) {
        if (migrate_is_due(migrate, &state, &state.entries[i], to))
            rc = apply_migrations(migrate, &state.entries[i], err);
    }
    migrate_state_done(&state);
    return rc;
}

enum rc migrate_admit(const struct migrate *migrate, int to, struct migrate_state *state,
                      struct err *err)
{
    const struct migrate_store *store = migrate->store;
    enum rc rc = read_sound(migrate, state, err);

    if (rc != RC_OK || !state->has_database || !has_due(migrate, state, to))
        return rc;
    rc = store->lock(store->ctx, migrate->lock_wait_ms, err);
    if (rc != RC_OK)
        return rc;
    migrate_state_done(state);
    rc = read_sound(migrate, state, err);
    if (rc == RC_OK)
        rc = check_begin(migrate, state, to, err);
    store->unlock(store->ctx);
    return rc == RC_REJECT ? RC_FATAL : rc;
}

enum rc migrate_up(const struct migrate *migrate, int to, struct err *err)
{
    const struct migrate_store *store = migrate->store;
    struct migrate_state state = {0};
    /* All of it first: a run must not stop half-way at something that could be known before. */
    enum rc rc = migration_check(migrate->set, err);
    bool due;

    if (rc == RC_OK)
        rc = read_sound(migrate, &state, err);
    if (rc == RC_OK && !state.has_database) {
        rc = store->create_database(store->ctx, err);
        if (rc == RC_OK)
            tell_progress(migrate, MIGRATE_DATABASE_CREATED, NULL, 0, 0);
    }
    due = has_due(migrate, &state, to);
    migrate_state_done(&state);
    if (rc != RC_OK || !due)
        return rc;
    rc = store->lock(store->ctx, migrate->lock_wait_ms, err);
    if (rc != RC_OK)
        return rc;
    rc = migrate_locked(migrate, to, err);
    store->unlock(store->ctx);
    return rc == RC_REJECT ? RC_FATAL : rc;
}

static enum rc compare_shape(const struct migrate *migrate, const struct shape *expected,
                             shape_on_drift on_drift, void *ctx, size_t *drifts, struct err *err)
{
    const struct migrate_store *store = migrate->store;
    struct shape actual = {0};
    enum rc rc = store->read_shape(store->ctx, expected, &actual, err);

    if (rc == RC_OK)
        *drifts = shape_compare(expected, &actual, on_drift, ctx);
    shape_done(&actual);
    return rc;
}

enum rc migrate_verify(const struct migrate *migrate, const struct migrate_state *state,
                       shape_on_drift on_drift, void *ctx, size_t *drifts, struct err *err)
{
    struct shape expected = {0};
    enum rc rc = RC_OK;

    for (size_t i = 0; rc == RC_OK && i < state->count; i++) {
        const struct migrate_entry *entry = &state->entries[i];

        if (entry->progress == MIGRATE_DONE)
            rc = migration_add_to_shape(entry->migration, SIZE_MAX, &expected, err);
        else if (entry->progress == MIGRATE_HALF_WAY)
            rc = migration_add_to_shape(entry->migration, (size_t)entry->row.statement, &expected,
                                        err);
    }
    if (rc == RC_OK)
        rc = compare_shape(migrate, &expected, on_drift, ctx, drifts, err);
    shape_done(&expected);
    return rc;
}

static enum rc save_baseline(const struct migrate *migrate, struct migrate_entry *entry,
                             struct err *err)
{
    const struct migrate_store *store = migrate->store;
    size_t statements = 0;
    enum rc rc = migration_count_statements(entry->migration, &statements, err);

    if (rc != RC_OK)
        return rc;
    init_row(&entry->row, entry->migration, statements);
    entry->row.state = HISTORY_APPLIED;
    entry->row.statement = (int)statements;
    entry->row.baseline = true;
    rc = store->save(store->ctx, &entry->row, err);
    if (rc == RC_OK)
        tell_progress(migrate, MIGRATE_BASELINED, entry->migration, statements, statements);
    return rc;
}

static enum rc expect_baseline(const struct migrate *migrate, const struct migrate_state *state,
                               int to, struct shape *expected, struct err *err)
{
    enum rc rc = RC_OK;

    for (size_t i = 0; rc == RC_OK && i < state->count; i++) {
        const struct migrate_entry *entry = &state->entries[i];

        if (entry->progress == MIGRATE_DONE || migrate_is_due(migrate, state, entry, to))
            rc = migration_add_to_shape(entry->migration, SIZE_MAX, expected, err);
    }
    return rc;
}

static enum rc set_baseline_locked(const struct migrate *migrate, int to, shape_on_drift on_drift,
                                   void *ctx, size_t *drifts, struct err *err)
{
    struct migrate_state state = {0};
    struct shape expected = {0};
    enum rc rc = read_sound(migrate, &state, err);

    if (rc == RC_OK)
        rc = check_scope(migrate, &state, err);
    if (rc == RC_OK)
        rc = expect_baseline(migrate, &state, to, &expected, err);
    if (rc == RC_OK)
        rc = compare_shape(migrate, &expected, on_drift, ctx, drifts, err);
    if (rc == RC_OK && *drifts == 0)
        rc = make_history(migrate, &state, err);
    if (rc == RC_OK && *drifts == 0)
        rc = record_left_out(migrate, &state, err);
    for (size_t i = 0; rc == RC_OK && *drifts == 0 && i < state.count; i++) {
        if (migrate_is_due(migrate, &state, &state.entries[i], to))
            rc = save_baseline(migrate, &state.entries[i], err);
    }
    shape_done(&expected);
    migrate_state_done(&state);
    return rc;
}

enum rc migrate_baseline(const struct migrate *migrate, int to, shape_on_drift on_drift, void *ctx,
                         size_t *drifts, struct err *err)
{
    const struct migrate_store *store = migrate->store;
    bool found = false;
    enum rc rc = store->find_database(store->ctx, &found, err);

    *drifts = 0;
    if (rc != RC_OK)
        return rc;
    if (!found)
        return err_fail(err, RC_FATAL, 0, "%s does not exist", migrate->place);
    rc = store->lock(store->ctx, migrate->lock_wait_ms, err);
    if (rc != RC_OK)
        return rc;
    rc = set_baseline_locked(migrate, to, on_drift, ctx, drifts, err);
    store->unlock(store->ctx);
    return rc == RC_REJECT ? RC_FATAL : rc;
}
