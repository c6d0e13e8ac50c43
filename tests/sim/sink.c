/* SPDX-License-Identifier: MIT */
#include "tests/sim/sink.h"

#include "consumer/apply/date.h"
#include "tests/sim/months.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void sink_begin_run(struct sink_tables *tables, struct sim *sim)
{
    if (!tables->votes)
        tables->votes = malloc(SIM_EVENTS_MAX * sizeof(*tables->votes));
    assert(tables->votes);
    for (int32_t i = 0; i < BROKER_PARTITIONS_MAX; i++) {
        if (!tables->dead[i])
            tables->dead[i] = calloc(BROKER_RECORDS_MAX, sizeof(*tables->dead[i]));
        else
            memset(tables->dead[i], 0, BROKER_RECORDS_MAX * sizeof(*tables->dead[i]));
        assert(tables->dead[i]);
    }
    memset(tables->votes, 0, SIM_EVENTS_MAX * sizeof(*tables->votes));
    memset(tables->progress, 0, sizeof(tables->progress));
    memset(tables->totals, 0, sizeof(tables->totals));
    memset(tables->lasts, 0, sizeof(tables->lasts));
    memset(tables->remarks, 0, sizeof(tables->remarks));
    for (int64_t content = 1; content <= SIM_CONTENTS; content++) {
        tables->remarks[content].found = !sim_chance(sim, 100);
        tables->remarks[content].due = tables->remarks[content].found;
    }
    memset(tables->held_ends, 0, sizeof(tables->held_ends));
    memset(tables->refused_until_ms, 0, sizeof(tables->refused_until_ms));
    memset(&tables->state_row, 0, sizeof(tables->state_row));
    memset(&tables->state, 0, sizeof(tables->state));
}

void sink_done(struct sink_tables *tables)
{
    free(tables->votes);
    for (int32_t i = 0; i < BROKER_PARTITIONS_MAX; i++)
        free(tables->dead[i]);
}

static struct sim *sim_of(const struct sink_adapter *adapter)
{
    return adapter->link.db->sim;
}

static struct sink_tables *tables_of(const struct sink_adapter *adapter)
{
    return sim_of(adapter)->sink;
}

static enum rc ops_ping(void *ctx, struct err *err)
{
    struct sink_adapter *adapter = ctx;

    return link_ping(&adapter->link, err);
}

static uint64_t ops_session(void *ctx)
{
    const struct sink_adapter *adapter = ctx;

    return adapter->link.connects;
}

static enum rc ops_begin(void *ctx, struct err *err)
{
    struct sink_adapter *adapter = ctx;

    return link_begin(&adapter->link, err);
}

static enum rc ops_commit(void *ctx, struct err *err)
{
    struct sink_adapter *adapter = ctx;

    return link_commit(&adapter->link, err);
}

static void ops_rollback(void *ctx)
{
    struct sink_adapter *adapter = ctx;

    link_rollback(&adapter->link);
}

static void progress_settle(void *ctx, struct fake_row *row, bool commit)
{
    struct sim *sim = ctx;
    struct sink_progress *progress = (struct sink_progress *)row;

    if (commit) {
        if (progress->now.next_offset != progress->old.next_offset)
            sim_tell(sim, "sink", STORY_DETAIL, "progress of partition %lld is %lld, epoch %lld",
                     progress - sim->sink->progress, progress->now.next_offset,
                     progress->now.epoch);
        progress->old = progress->now;
        progress->old_found = progress->now_found;
        progress->old_owner = progress->now_owner;
        progress->old_life = progress->now_life;
        return;
    }
    progress->now = progress->old;
    progress->now_found = progress->old_found;
    progress->now_owner = progress->old_owner;
    progress->now_life = progress->old_life;
}

static enum rc progress_lock(struct sink_adapter *adapter, int32_t partition,
                             struct progress_row *progress, struct err *err)
{
    struct sink_progress *row = &tables_of(adapter)->progress[partition];
    enum rc rc = RC_OK;

    if (sim_of(adapter)->fault != FAULT_PROGRESS_UNLOCKED)
        rc = link_lock(&adapter->link, &row->row, err);
    if (rc != RC_OK)
        return rc;
    if (row->now_found)
        *progress = row->now;
    progress->found = row->now_found;
    return RC_OK;
}

static enum rc begin_keep(struct sink_adapter *adapter, struct progress_row *rows, size_t count,
                          struct err *err)
{
    int64_t begin_day = 0;
    enum rc rc = months_keep_begin(&adapter->link, &begin_day, err);

    for (size_t i = 0; i < count; i++)
        rows[i].begin_day = begin_day;
    return rc;
}

/* Locks the rows in the order of their keys, in any order of the arguments. */
static enum rc ops_lock_progress(void *ctx, const struct place *places, struct progress_row *rows,
                                 size_t count, struct err *err)
{
    struct sink_adapter *adapter = ctx;
    enum rc rc = link_call(&adapter->link, err);

    for (int32_t partition = 0; partition < BROKER_PARTITIONS_MAX; partition++)
        for (size_t i = 0; rc == RC_OK && i < count; i++)
            if (places[i].partition == partition)
                rc = progress_lock(adapter, partition, &rows[i], err);
    if (rc == RC_OK)
        rc = begin_keep(adapter, rows, count, err);
    return rc == RC_OK ? link_answer(&adapter->link, err) : rc;
}

static enum rc ops_make_progress(void *ctx, const struct place *place,
                                 struct progress_row *progress, struct err *err)
{
    struct sink_adapter *adapter = ctx;
    struct sink_progress *row = &tables_of(adapter)->progress[place->partition];
    enum rc rc = link_call(&adapter->link, err);

    if (rc == RC_OK)
        rc = link_lock(&adapter->link, &row->row, err);
    if (rc != RC_OK)
        return rc;
    if (!row->now_found) {
        link_wrote(&adapter->link, &row->row, progress_settle);
        row->now = (struct progress_row){.next_offset = OFFSET_BEGINNING, .leader_epoch = -1};
        row->now_found = true;
    }
    *progress = row->now;
    rc = begin_keep(adapter, progress, 1, err);
    return rc == RC_OK ? link_answer(&adapter->link, err) : rc;
}

static enum rc ops_own_progress(void *ctx, const struct place *place,
                                const struct progress_row *progress, struct err *err)
{
    struct sink_adapter *adapter = ctx;
    struct sink_progress *row = &tables_of(adapter)->progress[place->partition];
    enum rc rc = link_call(&adapter->link, err);

    if (rc != RC_OK)
        return rc;
    link_wrote(&adapter->link, &row->row, progress_settle);
    row->now.epoch = progress->epoch;
    memcpy(row->now.owner, progress->owner, sizeof(row->now.owner));
    memcpy(row->now.topic_id, progress->topic_id, sizeof(row->now.topic_id));
    row->now_owner = adapter->link.proc;
    row->now_life = adapter->link.proc->lives;
    sim_tell(sim_of(adapter), adapter->link.proc->name, STORY_ALL,
             "claims partition %lld with epoch %lld", place->partition, progress->epoch, 0);
    return link_answer(&adapter->link, err);
}

/* The promise: a fenced process writes nothing. */
static void progress_move(struct sink_adapter *adapter, const struct place *place,
                          const struct progress_row *progress)
{
    struct sink_progress *row = &tables_of(adapter)->progress[place->partition];
    const struct proc *proc = adapter->link.proc;

    if (row->now_owner != proc || row->now_life != proc->lives)
        sim_fail(sim_of(adapter), STORY_ALL,
                 "fence: %s writes into partition %d, which %s has claimed with epoch %lld",
                 proc->name, (int)place->partition, row->now.owner, (long long)row->now.epoch);
    link_wrote(&adapter->link, &row->row, progress_settle);
    row->now.next_offset = progress->next_offset;
    row->now.leader_epoch = progress->leader_epoch;
}

static enum rc ops_move_progress(void *ctx, const struct place *places,
                                 const struct progress_row *rows, size_t count, struct err *err)
{
    struct sink_adapter *adapter = ctx;
    enum rc rc = link_call(&adapter->link, err);

    for (size_t i = 0; rc == RC_OK && i < count; i++)
        progress_move(adapter, &places[i], &rows[i]);
    return rc == RC_OK ? link_answer(&adapter->link, err) : rc;
}

static void total_settle(void *ctx, struct fake_row *row, bool commit)
{
    struct sink_total *total = (struct sink_total *)row;

    (void)ctx;
    if (commit) {
        total->old_found = total->now_found;
        total->old_votes = total->now_votes;
        total->old_seq = total->now_seq;
        total->old_changed_ms = total->now_changed_ms;
        return;
    }
    total->now_found = total->old_found;
    total->now_votes = total->old_votes;
    total->now_seq = total->old_seq;
    total->now_changed_ms = total->old_changed_ms;
}

/* A row that is not there is not locked: another transaction may make it. */
static enum rc ops_lock_tallies(void *ctx, struct tally_row *tallies, size_t count, struct err *err)
{
    struct sink_adapter *adapter = ctx;
    enum rc rc = link_call(&adapter->link, err);

    for (size_t i = 0; rc == RC_OK && i < count; i++) {
        struct sink_total *total = &tables_of(adapter)->totals[tallies[i].content_id];

        assert(i == 0 || tallies[i - 1].content_id < tallies[i].content_id);
        tallies[i].found = false;
        if (!total->now_found)
            continue;
        rc = link_lock(&adapter->link, &total->row, err);
        if (rc != RC_OK || !total->now_found)
            continue;
        tallies[i].found = true;
        tallies[i].votes = total->now_votes;
        tallies[i].seq = total->now_seq;
    }
    return rc == RC_OK ? link_answer(&adapter->link, err) : rc;
}

static enum rc ops_make_tallies(void *ctx, const struct tally_row *tallies, size_t count,
                                struct err *err)
{
    struct sink_adapter *adapter = ctx;
    enum rc rc = link_call(&adapter->link, err);

    for (size_t i = 0; rc == RC_OK && i < count; i++) {
        struct sink_total *total = &tables_of(adapter)->totals[tallies[i].content_id];

        if (tallies[i].found)
            continue;
        rc = link_lock(&adapter->link, &total->row, err);
        if (rc != RC_OK || total->now_found)
            continue;
        link_wrote(&adapter->link, &total->row, total_settle);
        total->now_found = true;
        total->now_votes = total->now_seq = 0;
        total->now_changed_ms = db_clock(adapter->link.db);
    }
    return rc == RC_OK ? link_answer(&adapter->link, err) : rc;
}

static enum rc ops_write_tallies(void *ctx, const struct tally_row *tallies, size_t count,
                                 struct err *err)
{
    struct sink_adapter *adapter = ctx;
    enum rc rc = link_call(&adapter->link, err);

    for (size_t i = 0; rc == RC_OK && i < count; i++) {
        struct sink_total *total = &tables_of(adapter)->totals[tallies[i].content_id];

        if (!tallies[i].changed)
            continue;
        rc = link_lock(&adapter->link, &total->row, err);
        if (rc != RC_OK)
            break;
        link_wrote(&adapter->link, &total->row, total_settle);
        total->now_found = true;
        total->now_votes = tallies[i].votes;
        total->now_seq = tallies[i].seq;
        total->now_changed_ms = db_clock(adapter->link.db);
    }
    return rc == RC_OK ? link_answer(&adapter->link, err) : rc;
}

static void last_settle(void *ctx, struct fake_row *row, bool commit)
{
    struct sink_last *last = (struct sink_last *)row;

    (void)ctx;
    if (commit)
        last->old = last->now;
    else
        last->now = last->old;
}

/* A consistent read: committed rows, and the rows that this transaction has written. */
static enum rc ops_read_lasts(void *ctx, struct last_row *lasts, size_t count, struct err *err)
{
    struct sink_adapter *adapter = ctx;
    enum rc rc = link_call(&adapter->link, err);

    for (size_t i = 0; rc == RC_OK && i < count; i++) {
        const struct sink_last *row =
            &tables_of(adapter)->lasts[lasts[i].content_id][lasts[i].voter_id];
        const struct last_row *seen =
            row->row.owner == adapter->link.session ? &row->now : &row->old;

        lasts[i].found = seen->found;
        lasts[i].voting = seen->voting;
        lasts[i].occurred_ms = seen->occurred_ms;
    }
    return rc == RC_OK ? link_answer(&adapter->link, err) : rc;
}

static enum rc ops_write_lasts(void *ctx, const struct last_row *lasts, size_t count,
                               struct err *err)
{
    struct sink_adapter *adapter = ctx;
    enum rc rc = link_call(&adapter->link, err);

    for (size_t i = 0; rc == RC_OK && i < count; i++) {
        struct sink_last *row = &tables_of(adapter)->lasts[lasts[i].content_id][lasts[i].voter_id];

        if (!lasts[i].changed)
            continue;
        rc = link_lock(&adapter->link, &row->row, err);
        if (rc != RC_OK)
            break;
        link_wrote(&adapter->link, &row->row, last_settle);
        row->now = lasts[i];
        row->now.found = true;
        row->now.changed = false;
    }
    return rc == RC_OK ? link_answer(&adapter->link, err) : rc;
}

static void vote_settle(void *ctx, struct fake_row *row, bool commit)
{
    struct sim *sim = ctx;
    struct sink_vote *vote = (struct sink_vote *)row;
    size_t number = (size_t)(vote - sim->sink->votes);

    if (!commit) {
        vote->now_found = vote->old_found;
        return;
    }
    vote->old_found = true;
    sim->events[number].logged++;
    months_check_logged(sim, number);
    sim_tell(sim, "sink", sim->events[number].key,
             "event %lld is logged with content_seq %lld, votes %lld", (int64_t)number, vote->seq,
             vote->votes);
}

static bool is_refused(const struct sim *sim, const struct vote_row *row)
{
    int64_t content = row->event.content_id;

    if (!row->skip && !months_have(sim, row->event.occurred_ms / MS_PER_DAY))
        return true;
    return !row->skip && !sim->healed && sim_now(sim) < sim->sink->refused_until_ms[content] &&
           (sim_event_find(sim, row->event.event_id.bytes) & sim->sink->refused_bits[content]) == 0;
}

/* A statement that is refused has written nothing. */
static enum rc ops_insert_votes(void *ctx, const struct vote_row *rows, size_t count,
                                bool *duplicate, struct err *err)
{
    struct sink_adapter *adapter = ctx;
    struct sim *sim = sim_of(adapter);
    enum rc rc = link_call(&adapter->link, err);

    *duplicate = false;
    for (size_t i = 0; rc == RC_OK && i < count; i++)
        if (is_refused(sim, &rows[i]))
            return err_fail(err, RC_REJECT, 1526, "the log does not take it");
    if (rc == RC_OK)
        rc = months_use_log(&adapter->link, err);
    for (size_t i = 0; rc == RC_OK && i < count; i++) {
        struct sink_vote *vote;

        if (rows[i].skip)
            continue;
        vote = &sim->sink->votes[sim_event_find(sim, rows[i].event.event_id.bytes)];
        rc = link_lock(&adapter->link, &vote->row, err);
        if (rc != RC_OK)
            return rc;
        if (vote->now_found && sim->fault != FAULT_NO_UNIQUE_KEY) {
            *duplicate = true;
            break;
        }
        link_wrote(&adapter->link, &vote->row, vote_settle);
        vote->now_found = true;
        vote->votes = rows[i].votes;
        vote->seq = rows[i].content_seq;
        vote->offset = rows[i].offset;
        vote->day = rows[i].event.occurred_ms / MS_PER_DAY;
        vote->id = months_next_id(sim);
    }
    return rc == RC_OK ? link_answer(&adapter->link, err) : rc;
}

/* A consistent read: committed rows, and the rows that this transaction has written. */
static enum rc ops_find_events(void *ctx, const struct vote_row *rows, size_t count,
                               void (*on_found)(void *found_ctx, const struct id *event_id),
                               void *found_ctx, struct err *err)
{
    struct sink_adapter *adapter = ctx;
    struct sim *sim = sim_of(adapter);
    enum rc rc = link_call(&adapter->link, err);

    if (rc == RC_OK)
        rc = months_use_log(&adapter->link, err);
    for (size_t i = 0; rc == RC_OK && i < count; i++) {
        const struct sink_vote *vote;

        if (rows[i].skip)
            continue;
        vote = &sim->sink->votes[sim_event_find(sim, rows[i].event.event_id.bytes)];
        if (vote->old_found || (vote->now_found && vote->row.owner == adapter->link.session))
            on_found(found_ctx, &rows[i].event.event_id);
    }
    return rc == RC_OK ? link_answer(&adapter->link, err) : rc;
}

static void dead_settle(void *ctx, struct fake_row *row, bool commit)
{
    struct sim *sim = ctx;
    struct sink_dead *dead = (struct sink_dead *)row;

    if (!commit) {
        dead->now_found = dead->old_found;
        dead->now_class = dead->old_class;
        return;
    }
    sim->events[dead->event].logged += dead->now_found - dead->old_found;
    if (dead->now_found != dead->old_found)
        sim_tell(sim, "sink", sim->events[dead->event].key, "event %lld is dead: %lld, class %lld",
                 (int64_t)dead->event, dead->now_found, dead->now_class);
    dead->old_found = dead->now_found;
    dead->old_class = dead->now_class;
    if (dead->old_found && dead->old_class == SINK_DEAD_TOO_OLD)
        months_check_too_old(sim, dead->event);
}

void sink_dead_write(struct sink_adapter *adapter, struct sink_dead *dead)
{
    link_wrote(&adapter->link, &dead->row, dead_settle);
}

enum sink_dead_class sink_dead_class(const char *reason_class)
{
    if (strcmp(reason_class, REASON_REFUSED) == 0)
        return SINK_DEAD_REFUSED;
    if (strcmp(reason_class, "too_old") == 0)
        return SINK_DEAD_TOO_OLD;
    return strcmp(reason_class, REASON_BEHIND) == 0 ? SINK_DEAD_BEHIND : SINK_DEAD_NEVER;
}

bool sink_is_held(enum sink_dead_class dead_class)
{
    return dead_class == SINK_DEAD_REFUSED || dead_class == SINK_DEAD_BEHIND;
}

static enum rc ops_insert_dead(void *ctx, const struct place *place, const struct dead_row *dead,
                               int64_t *id, struct err *err)
{
    struct sink_adapter *adapter = ctx;
    struct sim *sim = sim_of(adapter);
    struct sink_dead *row = &sim->sink->dead[place->partition][dead->offset];
    enum rc rc = link_call(&adapter->link, err);

    if (rc == RC_OK)
        rc = link_lock(&adapter->link, &row->row, err);
    if (rc != RC_OK)
        return rc;
    if (id)
        *id = 0;
    if (row->now_found)
        return link_answer(&adapter->link, err);
    link_wrote(&adapter->link, &row->row, dead_settle);
    row->now_found = true;
    row->now_class = sink_dead_class(dead->reason_class);
    if (sink_is_held(row->now_class) && dead->offset >= sim->sink->held_ends[place->partition])
        sim->sink->held_ends[place->partition] = dead->offset + 1;
    row->event =
        sim->broker->partitions[BROKER_VOTES][place->partition].records[dead->offset].event;
    return link_answer(&adapter->link, err);
}

/* A consistent read: committed rows, and the rows that this transaction has written. */
static enum rc ops_read_held(void *ctx, const struct place *place,
                             void (*on_content)(void *content_ctx, int64_t content_id),
                             void *content_ctx, struct err *err)
{
    struct sink_adapter *adapter = ctx;
    const struct sim *sim = sim_of(adapter);
    enum rc rc = link_call(&adapter->link, err);

    for (int64_t n = 0; rc == RC_OK && n < sim->sink->held_ends[place->partition]; n++) {
        const struct sink_dead *dead = &sim->sink->dead[place->partition][n];
        bool mine = dead->row.owner == adapter->link.session;

        if (mine ? dead->now_found && sink_is_held(dead->now_class)
                 : dead->old_found && sink_is_held(dead->old_class))
            on_content(content_ctx, sim->events[dead->event].key);
    }
    return rc == RC_OK ? link_answer(&adapter->link, err) : rc;
}

static enum rc ops_lock_log_begin(void *ctx, int64_t *begin_day, struct err *err)
{
    struct sink_adapter *adapter = ctx;
    enum rc rc = link_call(&adapter->link, err);

    if (rc == RC_OK)
        rc = months_keep_begin(&adapter->link, begin_day, err);
    return rc == RC_OK ? link_answer(&adapter->link, err) : rc;
}

void sink_adapter_init(struct sink_adapter *adapter, struct proc *proc)
{
    link_init(&adapter->link, proc, proc->sim->sink_db);
    adapter->ops = (struct sink){
        .ctx = adapter,
        .ping = ops_ping,
        .session = ops_session,
        .begin = ops_begin,
        .make_progress = ops_make_progress,
        .lock_progress = ops_lock_progress,
        .lock_log_begin = ops_lock_log_begin,
        .own_progress = ops_own_progress,
        .move_progress = ops_move_progress,
        .lock_tallies = ops_lock_tallies,
        .make_tallies = ops_make_tallies,
        .write_tallies = ops_write_tallies,
        .read_lasts = ops_read_lasts,
        .write_lasts = ops_write_lasts,
        .insert_votes = ops_insert_votes,
        .find_events = ops_find_events,
        .insert_dead = ops_insert_dead,
        .read_held = ops_read_held,
        .commit = ops_commit,
        .rollback = ops_rollback,
    };
}
