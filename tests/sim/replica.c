/* SPDX-License-Identifier: MIT */
#include "tests/sim/replica.h"

#include "tests/sim/broker.h"
#include "tests/sim/db.h"
#include "tests/sim/months.h"
#include "tests/sim/retry_queue.h"
#include "tests/sim/sink.h"
#include "tests/sim/tables.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct replica_lane {
    int64_t seq_next;
    int64_t settled;
    enum outbox_state states[TABLE_ROWS_MAX];
};

struct replica {
    int64_t due_ms; /* 0: no copy is kept */
    bool of_sink;

    /* The writers' side. */
    size_t event_count;
    int64_t order_next[SIM_KEYS + 1];
    struct replica_lane lanes[SIM_LANES_MAX];
    struct lane_lease leases[SIM_LANES_MAX];
    struct fake_instances relays;
    size_t task_count;
    enum lane_task_state tasks[LANE_TASKS_MAX];

    /* The log's side. */
    struct fake_progress progress[BROKER_PARTITIONS_MAX];
    struct fake_tally totals[SIM_CONTENTS + 1];
    struct fake_last lasts[SIM_CONTENTS + 1][SIM_VOTERS + 1];
    struct fake_remark remarks[SIM_CONTENTS + 1];
    struct rollup_state state;
    struct sink_vote votes[SIM_EVENTS_MAX];
    struct fake_dead_version dead[BROKER_PARTITIONS_MAX][BROKER_RECORDS_MAX];
    int64_t dead_ends[BROKER_PARTITIONS_MAX];
    struct fake_housekeep_rows housekeep;
    struct months_holder holder;
    struct fake_parts parts;
};

struct replica *replica_open(void)
{
    struct replica *replica = calloc(1, sizeof(*replica));

    assert(replica);
    return replica;
}

void replica_close(struct replica *replica)
{
    free(replica);
}

void replica_begin_run(struct replica *replica, struct sim *sim)
{
    (void)sim;
    replica->due_ms = 0;
}

static void main_copy(struct replica *replica, const struct sim *sim)
{
    const struct tables *tables = sim->tables;

    memcpy(replica->order_next, sim->order_next, sizeof(replica->order_next));
    memcpy(replica->leases, tables->leases, sizeof(replica->leases));
    replica->relays = tables->relays;
    for (size_t lane = 0; lane < sim->plan.lanes; lane++) {
        const struct outbox_table *table = &tables->lanes[lane];
        struct replica_lane *copy = &replica->lanes[lane];

        copy->seq_next = table->fake.seq_next;
        copy->settled = table->fake.settled;
        for (int64_t seq = 1; seq < table->fake.seq_next; seq++)
            copy->states[seq] = table->rows[seq].state;
    }
    replica->task_count = sim->retry->count;
    for (size_t i = 0; i < replica->task_count; i++)
        replica->tasks[i] = sim->retry->tasks[i].state;
}

/* The copy has only rows that were committed when it was taken. The seqs of lost rows are given out
 * again. */
static void lane_restore(struct sim *sim, struct outbox_table *table,
                         const struct replica_lane *copy)
{
    int64_t last = 0;

    for (int64_t seq = 1; seq < table->fake.seq_next; seq++) {
        struct outbox_row *row = &table->rows[seq];
        bool kept = seq < copy->seq_next && copy->states[seq] >= OUTBOX_COMMITTED;

        if (!kept && row->state >= OUTBOX_COMMITTED) {
            sim->events[row->event].undone = true;
            sim_tell(sim, "main-db", sim->events[row->event].key,
                     "loses event %lld, seq %lld of lane %lld", (int64_t)row->event, seq,
                     (int64_t)row->lane);
        }
        row->state = kept ? copy->states[seq] : OUTBOX_NONE;
        if (kept)
            last = seq;
    }
    table->fake.seq_next = last + 1;
    table->fake.settled = copy->settled < last ? copy->settled : last;
    table->left = 0;
    for (int64_t seq = 1; seq <= last; seq++)
        table->left += table->rows[seq].state == OUTBOX_COMMITTED;
}

/* The database forgets the renewals that are lost; the holder believes its lease for as long as
 * before. */
static void lease_restore(struct lane_lease *lease, const struct lane_lease *copy)
{
    int64_t beaten_ms = lease->base.epoch == copy->base.epoch ? lease->beaten_ms : copy->beaten_ms;

    *lease = *copy;
    lease->beaten_ms = beaten_ms;
    lease->row.owner = NULL;
}

static void main_restore(const struct replica *replica, struct sim *sim)
{
    struct tables *tables = sim->tables;

    memcpy(sim->order_next, replica->order_next, sizeof(replica->order_next));
    for (size_t lane = 0; lane < sim->plan.lanes; lane++) {
        lease_restore(&tables->leases[lane], &replica->leases[lane]);
        lane_restore(sim, &tables->lanes[lane], &replica->lanes[lane]);
    }
    tables->relays = replica->relays;
    for (size_t i = 0; i < sim->retry->count; i++) {
        enum lane_task_state state = i < replica->task_count ? replica->tasks[i] : LANE_TASK_NONE;

        sim->retry->tasks[i].state = state == LANE_TASK_WRITTEN ? LANE_TASK_NONE : state;
    }
}

static void sink_copy(struct replica *replica, const struct sim *sim)
{
    const struct sink_tables *sink = sim->sink;

    memcpy(replica->progress, sink->progress, sizeof(replica->progress));
    memcpy(replica->totals, sink->totals, sizeof(replica->totals));
    memcpy(replica->lasts, sink->lasts, sizeof(replica->lasts));
    memcpy(replica->remarks, sink->remarks, sizeof(replica->remarks));
    replica->state = sink->state;
    replica->housekeep = sim->months->tables.old;
    replica->holder = sim->months->old_holder;
    if (sim->plan.housekeepers > 0)
        replica->parts = sim->months->tables.parts_old;
    replica->event_count = sim->event_count;
    memcpy(replica->votes, sink->votes, replica->event_count * sizeof(replica->votes[0]));
    for (int32_t n = 0; n < BROKER_PARTITIONS_MAX; n++) {
        replica->dead_ends[n] = sink->dead_ends[n];
        for (int64_t offset = 0; offset < replica->dead_ends[n]; offset++)
            replica->dead[n][offset] = sink->dead[n][offset].base.old;
    }
}

static void progress_restore(const struct replica *replica, struct sink_tables *sink)
{
    for (int32_t n = 0; n < BROKER_PARTITIONS_MAX; n++) {
        struct fake_progress *progress = &sink->progress[n];

        *progress = replica->progress[n];
        progress->row.owner = NULL;
        progress->now = progress->old;
    }
}

static void totals_restore(const struct replica *replica, struct sink_tables *sink)
{
    for (int64_t content = 1; content <= SIM_CONTENTS; content++) {
        struct fake_tally *total = &sink->totals[content];

        *total = replica->totals[content];
        total->row.owner = NULL;
        total->now = total->old;
        for (int64_t voter = 1; voter <= SIM_VOTERS; voter++) {
            struct fake_last *last = &sink->lasts[content][voter];

            *last = replica->lasts[content][voter];
            last->row.owner = NULL;
            last->now = last->old;
        }
        sink->remarks[content] = replica->remarks[content];
    }
}

/* Contents whose ends are lost end again, and may have other held votes then. */
static void ends_restore(struct sim *sim)
{
    for (size_t i = 0; i < sim->event_count; i++) {
        struct event *event = &sim->events[i];

        if (event->kind == EVENT_VOTE && !sim->sink->totals[event->key].old.ended)
            event->overtaken = false;
    }
}

static void log_restore(const struct replica *replica, struct sim *sim)
{
    struct sink_tables *sink = sim->sink;

    for (size_t i = 0; i < sim->event_count; i++) {
        struct sink_vote *vote = &sink->votes[i];
        bool kept = i < replica->event_count &&
                    (replica->votes[i].base.old_found || replica->votes[i].dropped);

        if ((vote->base.old_found || vote->dropped) && !kept) {
            sim->events[i].logged--;
            sim_tell(sim, "sink-db", sim->events[i].key, "loses event %lld from the log",
                     (int64_t)i, 0, 0);
        }
        *vote = kept ? replica->votes[i] : (struct sink_vote){0};
        vote->base.row.owner = NULL;
        vote->base.now_found = vote->base.old_found;
    }
    for (int32_t n = 0; n < BROKER_PARTITIONS_MAX; n++) {
        for (int64_t offset = 0; offset < sink->dead_ends[n]; offset++) {
            struct sink_dead *dead = &sink->dead[n][offset];
            bool was_found = dead->base.old.found;

            dead->base.old = (struct fake_dead_version){0};
            if (offset < replica->dead_ends[n])
                dead->base.old = replica->dead[n][offset];
            dead->base.now = dead->base.old;
            sim->events[dead->event].logged += dead->base.old.found - was_found;
        }
    }
}

static void sink_restore(const struct replica *replica, struct sim *sim)
{
    struct months *months = sim->months;

    progress_restore(replica, sim->sink);
    totals_restore(replica, sim->sink);
    log_restore(replica, sim);
    ends_restore(sim);
    sim->sink->state = replica->state;
    months->tables.now = months->tables.old = replica->housekeep;
    months->now_holder = months->old_holder = replica->holder;
    if (sim->plan.housekeepers > 0)
        months->tables.parts_now = months->tables.parts_old = replica->parts;
}

void replica_fall_behind(struct sim *sim)
{
    struct replica *replica = sim->replica;

    if (replica->due_ms != 0)
        return;
    replica->of_sink = !sim->plan.main_loses || sim_chance(sim, 500);
    replica->due_ms = sim_now(sim) + sim_between(sim, 1, sim_chance(sim, 500) ? 300 : 3000);
    if (replica->of_sink)
        sink_copy(replica, sim);
    else
        main_copy(replica, sim);
}

void replica_tend(struct sim *sim)
{
    struct replica *replica = sim->replica;
    struct db *db = replica->of_sink ? sim->sink_db : sim->main_db;

    if (replica->due_ms == 0 || sim_now(sim) < replica->due_ms)
        return;
    replica->due_ms = 0;
    if (sim->healed)
        return;
    db_crash(db, sim_between(sim, 0, 800));
    sim_tell(sim, db->name, STORY_ALL, "is replaced by a replica that is behind", 0, 0, 0);
    if (replica->of_sink)
        sink_restore(replica, sim);
    else
        main_restore(replica, sim);
}
