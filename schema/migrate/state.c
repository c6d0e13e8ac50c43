/* SPDX-License-Identifier: MIT */
#include "schema/migrate/state.h"

#include <stdlib.h>
#include <string.h>

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
        state->needs = migration->version;
    }
    return RC_OK;
}

struct reading {
    const struct migrate *migrate;
    struct migrate_state *state;
};

static bool is_ours(const struct migrate *migrate, const struct history_row *row)
{
    return ((migrate->sides & MIGRATION_OUTBOX) && strcmp(row->side, "outbox") == 0) ||
           ((migrate->sides & MIGRATION_SINK) && strcmp(row->side, "sink") == 0);
}

static enum rc on_state_row(void *ctx, const struct history_row *row, struct err *err)
{
    struct reading *reading = ctx;
    struct migrate_state *state = reading->state;

    (void)err;
    for (size_t i = 0; i < state->count; i++) {
        struct migrate_entry *entry = &state->entries[i];

        if (entry->migration->version != row->version)
            continue;
        entry->row = *row;
        if (strcmp(row->name, entry->migration->name) != 0 ||
            strcmp(row->sha256, entry->migration->sha256) != 0)
            entry->progress = MIGRATE_EDITED;
        else
            entry->progress = row->state == HISTORY_APPLIED ? MIGRATE_DONE : MIGRATE_HALF_WAY;
        return RC_OK;
    }
    /* The table may have rows of the other side, whose settings may name the same database
     * differently. */
    if (is_ours(reading->migrate, row) && row->version > state->newer)
        state->newer = row->version;
    return RC_OK;
}

enum rc migrate_state_read(const struct migrate *migrate, struct migrate_state *state,
                           struct err *err)
{
    const struct migrate_store *store = migrate->store;
    struct reading reading = {migrate, state};
    enum rc rc = init_state(migrate, state, err);

    if (rc == RC_OK)
        rc = store->find_database(store->ctx, &state->has_database, err);
    if (rc != RC_OK || !state->has_database)
        return rc;
    rc = store->read_history(store->ctx, &state->has_history, on_state_row, &reading, err);
    for (size_t i = 0; i < state->count && state->entries[i].progress == MIGRATE_DONE; i++)
        state->version = state->entries[i].migration->version;
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
                        "%s does not exist: run `tallybox migrate up` or start with --migrate",
                        migrate->place);
    if (migrate_state_check(migrate, state, err) != RC_OK)
        return RC_RETRY;
    for (size_t i = 0; i < state->count; i++) {
        const struct migrate_entry *entry = &state->entries[i];

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
