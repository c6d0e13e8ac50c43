/* SPDX-License-Identifier: MIT */
#include "schema/migrate/migrate.h"

#include "schema/migrate/ddl.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

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
    struct statement statement;
    struct effect effect;
};

/* Is it as it will be after the statement? Never for what leaves no trace. */
static enum rc look_at_step(const struct step *step, bool *done, struct err *err)
{
    const struct migrate_store *store = step->migrate->store;
    const struct effect *effect = &step->effect;
    bool exists = false;
    enum rc rc;

    *done = false;
    if (effect->kind == EFFECT_REPEATABLE)
        return RC_OK;
    rc = store->exists(store->ctx, effect->what, effect->table, effect->name, &exists, err);
    if (rc == RC_OK)
        *done = exists == (effect->kind == EFFECT_APPEARS);
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
                        step->effect.kind == EFFECT_APPEARS ? "exists already" : "is gone already",
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

    if (rc == RC_OK && !*done && step->effect.kind == EFFECT_APPEARS &&
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
        rc = shape_effect(&step->statement, &step->effect, err);
    if (rc != RC_OK)
        return rc;
    rc = step->effect.kind == EFFECT_DATA ? run_data_step(step, err) : run_ddl_step(step, err);
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
    size_t statements = 0;
    enum rc rc = migration_count(entry->migration, &statements, err);

    if (rc != RC_OK)
        return rc;
    if (entry->progress == MIGRATE_PENDING)
        init_row(&entry->row, entry->migration, statements);
    tell_progress(migrate, entry->progress == MIGRATE_PENDING ? MIGRATE_STARTED : MIGRATE_RESUMED,
                  entry->migration, (size_t)entry->row.statement, statements);
    while (rc == RC_OK && entry->row.state != HISTORY_APPLIED)
        rc = run_step(&step, err);
    if (rc == RC_OK)
        tell_progress(migrate, MIGRATE_APPLIED, entry->migration, statements, statements);
    return rc;
}

static bool is_due(const struct migrate_entry *entry, int to)
{
    return entry->progress != MIGRATE_DONE && entry->migration->version <= to;
}

static bool has_due(const struct migrate_state *state, int to)
{
    for (size_t i = 0; i < state->count; i++) {
        if (is_due(&state->entries[i], to))
            return true;
    }
    return false;
}

static enum rc make_history(const struct migrate *migrate, const struct migrate_state *state,
                            struct err *err)
{
    const struct migrate_store *store = migrate->store;
    struct statement statement;
    enum rc rc;

    if (state->has_history)
        return RC_OK;
    rc = migration_history(migrate->set, &statement, err);
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
        rc = make_history(migrate, &state, err);
    for (size_t i = 0; rc == RC_OK && i < state.count; i++) {
        if (is_due(&state.entries[i], to))
            rc = apply_migrations(migrate, &state.entries[i], err);
    }
    migrate_state_done(&state);
    return rc;
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
    due = has_due(&state, to);
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
            rc = migration_apply(entry->migration, SIZE_MAX, &expected, err);
        else if (entry->progress == MIGRATE_HALF_WAY)
            rc = migration_apply(entry->migration, (size_t)entry->row.statement, &expected, err);
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
    enum rc rc = migration_count(entry->migration, &statements, err);

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

static enum rc expect_baseline(const struct migrate_state *state, int to, struct shape *expected,
                               struct err *err)
{
    enum rc rc = RC_OK;

    for (size_t i = 0; rc == RC_OK && i < state->count; i++) {
        const struct migrate_entry *entry = &state->entries[i];

        if (entry->progress == MIGRATE_DONE || entry->migration->version <= to)
            rc = migration_apply(entry->migration, SIZE_MAX, expected, err);
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
        rc = expect_baseline(&state, to, &expected, err);
    if (rc == RC_OK)
        rc = compare_shape(migrate, &expected, on_drift, ctx, drifts, err);
    if (rc == RC_OK && *drifts == 0)
        rc = make_history(migrate, &state, err);
    for (size_t i = 0; rc == RC_OK && *drifts == 0 && i < state.count; i++) {
        if (is_due(&state.entries[i], to))
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
