/* SPDX-License-Identifier: MIT */
#include "tests/sim/binlog.h"

#include "tests/sim/binlog_ops.h"
#include "tests/sim/db.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define FAILED_IN_LOG 300 /* thousandths of the transactions that were rolled back */
#define PURGES 5          /* thousandths of the calls of binlog_tend() */

/* Between the saved position and the row that is sent: rows that are read and not done, rows that
 * are done and wait for the keeper, and rows that it saves, each as many as the window has. */
#define WINDOWS_AHEAD 3
#define WINDOW_ROWS_MIN 64 /* of row_progress.h */

void binlog_begin_run(struct binlog *log, struct sim *sim)
{
    if (!log->rows) {
        log->rows = calloc(BINLOG_ROWS_MAX, sizeof(*log->rows));
        log->groups = calloc(BINLOG_ROWS_MAX + 1, sizeof(*log->groups));
        log->entries = calloc(BINLOG_ENTRIES_MAX, sizeof(*log->entries));
        assert(log->rows && log->groups && log->entries);
    }
    log->row_count = log->count = log->purged = log->entry_count = 0;
    log->settle = 0;
    log->written = false;
    log->readers = NULL;
    log->by_gtid = sim->seed % 4 != 0;
    memset(log->groups[0].rows_before, 0, sizeof(log->groups[0].rows_before));
    for (size_t i = 0; i < SIM_LANES_MAX; i++) {
        struct binlog_lane *lane = &log->lanes[i];

        if (!lane->seqs)
            lane->seqs = calloc(TABLE_ROWS_MAX, sizeof(*lane->seqs));
        assert(lane->seqs);
        lane->count = lane->recorded = 0;
        lane->position = (struct binlog_position){0};
        /* An operator has run `tallybox lanes begin`. */
        lane->position.old.found = !sim->plan.streams_begin;
        lane->position.now = lane->position.old;
    }
}

void binlog_done(struct binlog *log)
{
    for (size_t i = 0; i < SIM_LANES_MAX; i++)
        free(log->lanes[i].seqs);
    for (size_t i = 0; log->entries && i < BINLOG_ENTRIES_MAX; i++)
        buf_done(&log->entries[i].rows);
    free(log->rows);
    free(log->groups);
    free(log->entries);
}

static void wake_readers(struct sim *sim)
{
    for (struct binlog_reader *reader = sim->binlog->readers; reader; reader = reader->next)
        sched_wake(&sim->sched, reader->pump);
}

/* The rows of a transaction settle one after the other, and nothing runs meanwhile. */
static void begin_group(struct sim *sim, bool commit)
{
    struct binlog *log = sim->binlog;
    struct binlog_group *group = &log->groups[log->count];

    log->settle = sim->main_db->settles;
    log->written = commit || sim_chance(sim, FAILED_IN_LOG);
    if (!log->written)
        return;
    group->first = log->row_count;
    group->count = 0;
    group->end = commit ? BINLOG_COMMITTED : sim_chance(sim, 500) ? BINLOG_CUT : BINLOG_UNDONE;
    log->count++;
    group[1] = (struct binlog_group){0};
    memcpy(group[1].rows_before, group->rows_before, sizeof(group->rows_before));
    wake_readers(sim);
}

void binlog_write(struct sim *sim, struct outbox_row *row, bool commit)
{
    struct binlog *log = sim->binlog;
    struct binlog_lane *lane = &log->lanes[row->lane];

    if (sim->plan.streams == 0)
        return;
    if (log->settle != sim->main_db->settles)
        begin_group(sim, commit);
    if (!log->written)
        return;
    assert(log->row_count < BINLOG_ROWS_MAX && lane->count < TABLE_ROWS_MAX);
    log->rows[log->row_count++] =
        (struct binlog_row){row->lane, row->seq, row->event, row->oversize};
    log->groups[log->count - 1].count++;
    if (!commit)
        return;
    log->groups[log->count].rows_before[row->lane]++;
    lane->seqs[lane->count++] = row->seq;
    row->log_number = lane->count;
}

/* An operator keeps the log for longer than the relays are behind. */
void binlog_tend(struct sim *sim)
{
    struct binlog *log = sim->binlog;
    size_t kept = log->count;

    if (sim->plan.streams == 0 || !sim_chance(sim, PURGES))
        return;
    for (size_t lane = 0; lane < sim->plan.lanes; lane++)
        if (sim_is_stream(sim, lane) && log->lanes[lane].position.old.group < kept)
            kept = log->lanes[lane].position.old.group;
    kept -= kept % BINLOG_FILE_GROUPS;
    if (kept <= log->purged)
        return;
    log->purged = kept;
    sim_tell(sim, "main-db", STORY_ALL, "deletes its log before transaction %lld", (int64_t)kept, 0,
             0);
}

void binlog_restarted(struct sim *sim)
{
    wake_readers(sim);
}

bool binlog_has_to_begin(const struct sim *sim)
{
    for (size_t lane = 0; lane < sim->plan.lanes; lane++)
        if (sim_is_stream(sim, lane) && !sim->binlog->lanes[lane].position.old.found)
            return true;
    return false;
}

/* Promises */

bool binlog_is_done(const struct sim *sim, const struct outbox_row *row)
{
    const struct event *event = &sim->events[row->event];

    return event->published > 0 || event->skipped || row->moved;
}

static size_t window_rows(const struct sim *sim)
{
    size_t rows = WINDOW_ROWS_MIN;

    while (rows < (size_t)sim->settings.relay.window_rows_max)
        rows *= 2;
    return rows;
}

/* The holder of the lease repeats nothing that is before the saved position, and is not further
 * behind it than announced: so much a kill repeats at most. A process that lost the lease and does
 * not know it yet may repeat what it has read. */
void binlog_check_sending(struct sim *sim, size_t number, const struct proc *proc, int64_t epoch)
{
    const struct event *event = &sim->events[number];
    const struct outbox_row *row = tables_row_of(sim, number);
    const struct position_version *saved = &sim->binlog->lanes[event->lane].position.old;

    if (!tables_is_held(sim, event->lane, proc, epoch))
        return;
    if (row->log_number <= saved->rows)
        sim_fail(sim, event->key,
                 "again: %s sends event %zu, row %zu of lane %zu, and the saved position is behind "
                 "row %zu",
                 proc->name, number, row->log_number, event->lane, saved->rows);
    else if (row->log_number > saved->rows + WINDOWS_AHEAD * window_rows(sim))
        sim_fail(sim, event->key,
                 "again: %s sends event %zu, row %zu of lane %zu, and a kill would repeat all rows "
                 "behind row %zu",
                 proc->name, number, row->log_number, event->lane, saved->rows);
}

void binlog_check_deletion(struct sim *sim, const struct outbox_row *row)
{
    const struct event *event = &sim->events[row->event];

    if (!binlog_is_done(sim, row))
        sim_fail(sim, event->key,
                 "lost: event %zu (%s, key %lld) was deleted as seq %lld of lane %zu before it was "
                 "published",
                 row->event, event->id, (long long)event->key, (long long)row->seq, row->lane);
    else if (!row->recorded)
        sim_fail(sim, event->key,
                 "cleaner: event %zu was deleted as seq %lld of lane %zu, and no table says that "
                 "it is published",
                 row->event, (long long)row->seq, row->lane);
}
