/* SPDX-License-Identifier: MIT */
/* The shared fake of the sink on a simulated connection, and promises about what it writes. */
#include "tests/sim/sink.h"

#include "consumer/apply/date.h"
#include "tests/sim/months.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* More than a partition has records; see sink_dead_at(). */
#define ID_STEP 100000

/* The tables */

static struct fake_vote *vote_of(void *ctx, const struct id *event_id)
{
    const struct sim *sim = ctx;

    return &sim->sink->votes[sim_event_find(sim, event_id->bytes)].base;
}

static struct fake_last *last_of(void *ctx, int64_t content_id, int64_t voter_id)
{
    const struct sim *sim = ctx;

    return &sim->sink->lasts[content_id][voter_id];
}

static struct fake_dead_row *dead_of(void *ctx, int32_t partition, int64_t offset)
{
    const struct sim *sim = ctx;
    struct sink_dead *dead = &sim->sink->dead[partition][offset];

    dead->base.id = (int64_t)partition * ID_STEP + offset + 1;
    dead->base.partition = partition;
    dead->base.offset = offset;
    dead->event = sim->broker->partitions[BROKER_VOTES][partition].records[offset].event;
    if (offset >= sim->sink->dead_ends[partition])
        sim->sink->dead_ends[partition] = offset + 1;
    return &dead->base;
}

struct sink_dead *sink_dead_at(const struct sim *sim, int64_t id)
{
    return &sim->sink->dead[(id - 1) / ID_STEP][(id - 1) % ID_STEP];
}

static struct fake_dead_row *next_dead(void *ctx, int32_t partition, int64_t after_offset)
{
    const struct sim *sim = ctx;

    for (int64_t offset = after_offset + 1; offset < sim->sink->dead_ends[partition]; offset++) {
        struct fake_dead_row *dead = &sim->sink->dead[partition][offset].base;

        if (dead->now.found || dead->old.found)
            return dead;
    }
    return NULL;
}

static int64_t dead_content(void *ctx, const struct fake_dead_row *dead)
{
    const struct sim *sim = ctx;

    return sim->events[((const struct sink_dead *)dead)->event].key;
}

static void tell_progress(void *ctx, const struct fake_progress *progress)
{
    struct sim *sim = ctx;
    const struct progress_row *now = &progress->now.row;

    if (now->next_offset != progress->old.row.next_offset)
        sim_tell(sim, "sink", STORY_DETAIL, "progress of partition %lld is %lld, epoch %lld",
                 progress - sim->sink->progress, now->next_offset, now->epoch);
}

static void check_vote(void *ctx, const struct fake_vote *vote)
{
    struct sim *sim = ctx;
    size_t number = (size_t)((const struct sink_vote *)vote - sim->sink->votes);

    sim->events[number].logged++;
    months_check_logged(sim, number);
    sim_tell(sim, "sink", sim->events[number].key,
             "event %lld is logged with content_seq %lld, votes %lld", (int64_t)number,
             vote->vote.content_seq, vote->vote.votes);
}

static void check_dead(void *ctx, struct fake_dead_row *dead, bool commit)
{
    struct sim *sim = ctx;
    size_t number = ((const struct sink_dead *)dead)->event;

    if (!commit)
        return;
    sim->events[number].logged += dead->now.found - dead->old.found;
    if (dead->now.found != dead->old.found)
        sim_tell(sim, "sink", sim->events[number].key, "event %lld is dead: %lld, class %lld",
                 (int64_t)number, dead->now.found, dead->now.class);
    if (dead->now.found && dead->now.class == FAKE_DEAD_TOO_OLD)
        months_check_too_old(sim, number);
}

/* Whether an earlier record of the same event was applied: the relay may publish an event again,
 * and the later record may be held. */
static bool was_applied(const struct sim *sim, int32_t partition, int64_t offset)
{
    const struct broker_partition *records = &sim->broker->partitions[BROKER_VOTES][partition];
    const struct sink_dead *dead = sim->sink->dead[partition];

    for (int64_t earlier = 0; earlier < offset; earlier++)
        if (records->records[earlier].event == dead[offset].event && !dead[earlier].base.now.found)
            return true;
    return false;
}

/* Held votes of a content that ends are stale when they are replayed. */
static void note_end(void *ctx, const struct fake_tally *tally)
{
    struct sim *sim = ctx;
    int64_t content = tally - sim->sink->totals;

    if (!tally->now.ended || tally->old.ended)
        return;
    sim_tell(sim, "sink", STORY_DETAIL, "the tally of content %lld ends", content, 0, 0);
    for (int32_t n = 0; n < BROKER_PARTITIONS_MAX; n++) {
        for (int64_t offset = 0; offset < sim->sink->dead_ends[n]; offset++) {
            const struct sink_dead *dead = &sim->sink->dead[n][offset];

            if (fake_dead_is_held(&dead->base.now) && sim->events[dead->event].key == content &&
                !was_applied(sim, n, offset))
                sim->events[dead->event].overtaken = true;
        }
    }
}

static void dead_clear(struct sink_tables *tables, int32_t partition)
{
    if (!tables->dead[partition])
        tables->dead[partition] = calloc(BROKER_RECORDS_MAX, sizeof(*tables->dead[partition]));
    else
        memset(tables->dead[partition], 0,
               (size_t)tables->dead_ends[partition] * sizeof(*tables->dead[partition]));
    assert(tables->dead[partition]);
    tables->dead_ends[partition] = 0;
}

void sink_begin_run(struct sink_tables *tables, struct sim *sim)
{
    if (!tables->votes)
        tables->votes = malloc(SIM_EVENTS_MAX * sizeof(*tables->votes));
    assert(tables->votes);
    for (int32_t i = 0; i < BROKER_PARTITIONS_MAX; i++)
        dead_clear(tables, i);
    memset(tables->votes, 0, SIM_EVENTS_MAX * sizeof(*tables->votes));
    memset(tables->progress, 0, sizeof(tables->progress));
    memset(tables->totals, 0, sizeof(tables->totals));
    memset(tables->lasts, 0, sizeof(tables->lasts));
    memset(tables->remarks, 0, sizeof(tables->remarks));
    for (int64_t content = 1; content <= SIM_CONTENTS; content++) {
        tables->remarks[content].found = !sim_chance(sim, 100);
        tables->remarks[content].due = tables->remarks[content].found;
    }
    memset(tables->refused_until_ms, 0, sizeof(tables->refused_until_ms));
    memset(&tables->state_row, 0, sizeof(tables->state_row));
    memset(&tables->state, 0, sizeof(tables->state));
    tables->fake = (struct fake_sink_tables){
        .progress = tables->progress,
        .partition_count = BROKER_PARTITIONS_MAX,
        .tallies = tables->totals,
        .vote_id_next = 1,
        .ctx = sim,
        .vote_of = vote_of,
        .last_of = last_of,
        .dead_of = dead_of,
        .next_dead = next_dead,
        .dead_content = dead_content,
        .on_progress = tell_progress,
        .on_tally = note_end,
        .on_vote = check_vote,
        .on_dead = check_dead,
    };
}

void sink_done(struct sink_tables *tables)
{
    free(tables->votes);
    for (int32_t i = 0; i < BROKER_PARTITIONS_MAX; i++)
        free(tables->dead[i]);
}

/* A connection */

static enum rc lock_begin(void *ctx, int64_t *begin_day, struct err *err)
{
    struct sink_adapter *adapter = ctx;

    return months_keep_begin(&adapter->link, begin_day, err);
}

static enum rc use_log(void *ctx, struct err *err)
{
    struct sink_adapter *adapter = ctx;

    return months_use_log(&adapter->link, err);
}

static bool is_refused(void *ctx, const struct vote_row *vote)
{
    const struct sink_adapter *adapter = ctx;
    const struct sim *sim = adapter->link.db->sim;
    int64_t content = vote->event.content_id;

    if (!months_have(sim, vote->event.occurred_ms / MS_PER_DAY))
        return true;
    return !sim->healed && sim_now(sim) < sim->sink->refused_until_ms[content] &&
           (sim_event_find(sim, vote->event.event_id.bytes) & sim->sink->refused_bits[content]) ==
               0;
}

static void note_claim(void *ctx, struct fake_progress *progress)
{
    const struct sink_adapter *adapter = ctx;
    struct sim *sim = adapter->link.db->sim;
    const struct proc *proc = adapter->link.proc;

    progress->now.claimer = proc;
    progress->now.claimer_life = proc->lives;
    sim_tell(sim, proc->name, STORY_ALL, "claims partition %lld with epoch %lld",
             progress - sim->sink->progress, progress->now.row.epoch, 0);
}

/* The promise: a fenced process writes nothing. */
static void check_move(void *ctx, struct fake_progress *progress, const struct progress_row *row)
{
    const struct sink_adapter *adapter = ctx;
    struct sim *sim = adapter->link.db->sim;
    const struct proc *proc = adapter->link.proc;

    (void)row;
    if (progress->now.claimer != proc || progress->now.claimer_life != proc->lives)
        sim_fail(sim, STORY_ALL,
                 "fence: %s writes into partition %d, which %s has claimed with epoch %lld",
                 proc->name, (int)(progress - sim->sink->progress), progress->now.row.owner,
                 (long long)progress->now.row.epoch);
}

void sink_adapter_init(struct sink_adapter *adapter, struct proc *proc)
{
    link_init(&adapter->link, proc, proc->sim->sink_db);
    adapter->fake = (struct fake_sink){
        .session = link_session(&adapter->link),
        .tables = &proc->sim->sink->fake,
        .progress_unlocked = proc->sim->fault == FAULT_PROGRESS_UNLOCKED,
        .duplicates_taken = proc->sim->fault == FAULT_NO_UNIQUE_KEY,
        .ctx = adapter,
        .lock_begin = lock_begin,
        .use_log = use_log,
        .refuses_vote = is_refused,
        .on_own = note_claim,
        .on_move = check_move,
    };
    adapter->ops = fake_sink_ops(&adapter->fake);
}
