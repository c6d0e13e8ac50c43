/* SPDX-License-Identifier: MIT */
#include "tests/sim/chaos.h"

#include "common/hash.h"
#include "tests/sim/binlog.h"
#include "tests/sim/db.h"
#include "tests/sim/group.h"
#include "tests/sim/rankings.h"
#include "tests/sim/replica.h"
#include "tests/sim/sink.h"
#include "tests/sim/tasks.h"

#include <stdio.h>
#include <string.h>

#define TEND_MS 10
#define SET_BACK_MS 3600000
#define SET_BACK_TASKS_MS 20000

enum mishap {
    CHAOS_KILL,
    CHAOS_FREEZE,
    CHAOS_STOP,
    CHAOS_CRASH,
    CHAOS_CUT,
    CHAOS_LEADER,
    CHAOS_REBALANCE,
    CHAOS_CLOCK,
    CHAOS_SILENT,
    CHAOS_REFUSE,
    CHAOS_AWAY,
    CHAOS_GROW,
    CHAOS_SLOW,
    CHAOS_BEHIND,
    CHAOS_UNLOGGED,
    CHAOS_ACTIONS
};

/* Half of the runs are without a fault, the others have more or less of it. */
static unsigned rate(struct sim *sim, unsigned most)
{
    return sim_chance(sim, 500) ? (unsigned)sim_below(sim, most + 1) : 0;
}

static void lane_make(struct lane_settings *lane, size_t number)
{
    if (number == 0)
        snprintf(lane->name, sizeof(lane->name), "outbox");
    else
        snprintf(lane->name, sizeof(lane->name), "outbox_%zu", number);
    snprintf(lane->table, sizeof(lane->table), "%s", lane->name);
    snprintf(lane->topics, sizeof(lane->topics), "vote=vote-events");
}

static void settings_make(struct sim *sim)
{
    struct settings *settings = &sim->settings;

    memset(settings, 0, sizeof(*settings));
    for (size_t i = 0; i < SIM_LANES_MAX; i++)
        lane_make(&settings->lanes[i], i);
    snprintf(settings->relay.topic_prefix, sizeof(settings->relay.topic_prefix), "outbox.event.");
    settings->relay.read_rows_max = sim_between(sim, 4, 40);
    settings->relay.read_bytes_max = 16384;
    settings->relay.row_bytes_max = 1024;
    settings->relay.window_rows_max = sim_between(sim, 20, 100);
    settings->relay.poll_ms = sim_between(sim, 1, 8);
    settings->relay.poll_idle_ms = sim_between(sim, 10, 40);
    settings->relay.delete_rows_max = sim_between(sim, 10, 40);
    settings->relay.delete_wait_ms = sim_between(sim, 5, 100);
    settings->relay.gap_wait_ms = 9000;
    settings->relay.gaps_max = sim_between(sim, 8, 64);
    settings->relay.full_scan_ms = sim_between(sim, 500, 3000);
    settings->relay.send_timeout_ms = 800;
    settings->relay.diverted_keys_max = sim_between(sim, 2, 20);
    settings->relay.lease_ms = 2400;
    settings->retry.threads = sim_between(sim, 0, 3);
    settings->retry.batch_rows_max = sim_between(sim, 1, 20);
    settings->retry.in_flight_max = sim_between(sim, 1, 30);
    settings->retry.poll_ms = sim_between(sim, 10, 100);
    snprintf(settings->retry.poll_pace, sizeof(settings->retry.poll_pace), "%s",
             sim_chance(sim, 500) ? "delay" : "rate");
    settings->retry.poll_jitter_percent = 10;
    settings->retry.rescue_ms = sim_between(sim, 100, 600);
    snprintf(settings->retry.shards, sizeof(settings->retry.shards), "%s",
             sim_chance(sim, 500) ? "auto" : "0-15");
    settings->retry.lease_ms = 2400;
    settings->rollup.interval_ms = sim_between(sim, 300, 1500);
    settings->rollup.overlap_ms = 2000;
}

/* A third of the runs have a retry queue; half of these have little else. */
static void plan_tasks(struct sim *sim)
{
    struct plan *plan = &sim->plan;

    if (!sim_chance(sim, 400))
        return;
    plan->retries = (size_t)sim_between(sim, 1, SIM_RETRIES_MAX);
    plan->submitters = (size_t)sim_between(sim, 1, SIM_SUBMITTERS_MAX);
    plan->operators = 1;
    plan->task_fails = rate(sim, 600);
    plan->task_poison = rate(sim, 150);
    plan->task_slow = rate(sim, 300);
    plan->task_deaf = rate(sim, 500);
    plan->task_unlocked = rate(sim, 500);
    plan->task_compared = rate(sim, 1000);
    plan->task_lacking = rate(sim, 500);
    plan->task_keys = sim_between(sim, 1, SIM_TASK_KEYS);
    plan->submit_ms = sim_between(sim, 5, sim_chance(sim, 500) ? 40 : 250);
    plan->operator_ms = sim_between(sim, 4, sim_chance(sim, 500) ? 30 : 500);
    plan->tasks_left = sim_chance(sim, 300);
    if (sim_chance(sim, 300))
        return;
    plan->relays = plan->consumers = plan->rollups = plan->voters = plan->lanes = 1;
    plan->writers = 0;
}

/* One of five runs without a retry queue has housekeepers. In three of ten of these, calls are slow
 * and the log loses commits, so that both happen in the middle of a round. */
static void plan_housekeeping(struct sim *sim)
{
    struct plan *plan = &sim->plan;

    if (plan->retries > 0 || !sim_chance(sim, 200))
        return;
    plan->housekeepers = (size_t)sim_between(sim, 1, SIM_HOUSEKEEPERS_MAX);
    plan->housekeep_ms = sim_between(sim, 100, 1000);
    if (!sim_chance(sim, 300))
        return;
    plan->actions |= 1U << CHAOS_SLOW | 1U << CHAOS_BEHIND;
    plan->chaos_every_ms = sim_between(sim, 60, 400);
}

/* One run of twelve is about leases that are lost in the middle of a read or a move: many rows
 * are refused, relays are slow, and the database's clock jumps past leases. */
static void plan_fences(struct sim *sim)
{
    struct plan *plan = &sim->plan;

    if (!sim_chance(sim, 80))
        return;
    plan->relays = (size_t)sim_between(sim, 2, SIM_RELAYS_MAX);
    plan->lanes = plan->consumers = plan->rollups = plan->voters = 1;
    plan->writers = (size_t)sim_between(sim, 2, SIM_WRITERS_MAX);
    plan->bad_rows = (unsigned)sim_between(sim, 50, 250);
    plan->actions |= 1U << CHAOS_SLOW | 1U << CHAOS_CLOCK;
    plan->chaos_every_ms = sim_between(sim, 60, 400);
    plan->leases_jump = true;
}

/* In one of five runs that could, remarks are deleted. These decisions have a rng of their own: the
 * stories of all other seeds stay as they were. Deletions need a database that keeps what is
 * committed, a topic that keeps the order of keys, and, unless the consumer compares votes, a log
 * that takes all of them: a vote that is held when its content ends does not count. */
static void plan_removals(struct sim *sim)
{
    struct plan *plan = &sim->plan;
    uint64_t rng = sim->seed * UINT64_C(0xd1342543de82ef95) + 1;

    rng_next(&rng);
    if (rng_next(&rng) % 5 != 0 || plan->retries > 0 || plan->housekeepers > 0 || plan->main_loses)
        return;
    plan->serves = 1 + rng_next(&rng) % SIM_SERVES_MAX;
    plan->applications = rng_next(&rng) % (SIM_APPLICATIONS_MAX + 1);
    plan->remark_refused = rng_next(&rng) % 2 == 0 ? (unsigned)(rng_next(&rng) % 500) : 0;
    plan->rankings = rng_next(&rng) % 2 == 0;
    plan->grows = false;
    plan->actions &= ~(1U << CHAOS_BEHIND);
    if (!plan->anyone)
        plan->replayers = 0;
}

/* In one of three runs with several retry processes, their group has shards of its own. These
 * decisions have a rng of their own, as those of deletions. */
static void plan_group_shards(struct sim *sim)
{
    struct plan *plan = &sim->plan;
    uint64_t rng = sim->seed * UINT64_C(0xda942042e4dd58b5) + 1;

    rng_next(&rng);
    if (rng_next(&rng) % 3 != 0 || plan->retries < 2)
        return;
    plan->shard_lists_ms = 100 + (int64_t)(rng_next(&rng) % 3000);
    /* Where shards are fixed, no other process would run what this one lacks. */
    if (strcmp(sim->settings.retry.shards, "auto") != 0)
        plan->task_lacking = 0;
}

/* In one of three runs with a retry queue, tasks of a scene are calls of clients. */
static void plan_clients(struct sim *sim)
{
    uint64_t rng = sim->seed * UINT64_C(0xaef17502108ef2d9) + 1;

    rng_next(&rng);
    if (rng_next(&rng) % 3 == 0 && sim->plan.retries > 0)
        sim->plan.clients = 1 + rng_next(&rng) % SIM_CLIENTS_MAX;
}

/* In half of the runs with a retry queue, processes of serve try tasks first. */
static void plan_tries(struct sim *sim)
{
    uint64_t rng = sim->seed * UINT64_C(0x9e3779b97f4a7c15) + 1;

    rng_next(&rng);
    if (rng_next(&rng) % 2 == 0 && sim->plan.retries > 0)
        sim->plan.tries = 1 + rng_next(&rng) % SIM_TRIES_MAX;
}

/* In one of four runs whose writers' database keeps its commits, at least one lane reads the binary
 * log. These decisions have a rng of their own, as those of deletions. */
static void plan_streams(struct sim *sim)
{
    struct plan *plan = &sim->plan;
    uint64_t rng = sim->seed * UINT64_C(0xf1357aea2e62a9c5) + 1;

    rng_next(&rng);
    if (rng_next(&rng) % 4 != 0 || plan->main_loses)
        return;
    plan->streams = 1U << rng_next(&rng) % plan->lanes;
    plan->streams |= (unsigned)(rng_next(&rng) & rng_next(&rng)) & ((1U << plan->lanes) - 1);
    plan->streams_by_id = (unsigned)rng_next(&rng) & plan->streams;
    /* A process of serve would write before a lane has begun. */
    plan->streams_begin = rng_next(&rng) % 3 == 0 && plan->serves == 0;
    for (size_t i = 0; i < plan->lanes; i++) {
        struct lane_settings *lane = &sim->settings.lanes[i];

        if (!sim_is_stream(sim, i))
            continue;
        snprintf(lane->source, sizeof(lane->source), LANE_SOURCE_BINLOG);
        lane->keep_ms = (int64_t)(rng_next(&rng) % 3000);
        if (plan->streams_by_id >> i & 1)
            lane->keep_ids_max = rng_next(&rng) % 2 == 0 ? 20 : 100000;
    }
}

void chaos_plan(struct sim *sim)
{
    struct plan *plan = &sim->plan;

    settings_make(sim);
    *plan = (struct plan){
        .lanes = (size_t)sim_between(sim, 1, SIM_LANES_MAX),
        .relays = (size_t)sim_between(sim, 1, SIM_RELAYS_MAX),
        .consumers = (size_t)sim_between(sim, 1, SIM_CONSUMERS_MAX),
        .rollups = (size_t)sim_between(sim, 1, SIM_ROLLUPS_MAX),
        .voters = (size_t)sim_between(sim, 1, SIM_VOTERS_MAX),
        .writers = (size_t)sim_between(sim, 1, SIM_WRITERS_MAX),
        .partitions = (int32_t)sim_between(sim, 1, BROKER_PARTITIONS_MAX),
        .chaos_ms = sim_between(sim, 3000, 12000),
        .chaos_every_ms = sim_between(sim, 60, 1500),
        .actions = (unsigned)sim_below(sim, 1U << CHAOS_ACTIONS),
        .yield = (unsigned)sim_between(sim, 100, 600),
        .slow = rate(sim, 100),
        .db_fails = rate(sim, 30),
        .db_fatal = rate(sim, 100),
        .commit_lost = rate(sim, 250),
        .roll_back = rate(sim, 300),
        .hold = rate(sim, 100),
        .reserve_slowly = rate(sim, 200),
        .bad_rows = rate(sim, 60),
        .poison = rate(sim, 100),
        .tasks_skipped = rate(sim, 100),
        .ghosts = rate(sim, 1000),
        .ack_lost = rate(sim, 200),
        .broker_fails = rate(sim, 60),
        .holes = rate(sim, 100),
        .seeks_lost = rate(sim, 100),
        .writers_known = sim_chance(sim, 700),
        .grows = sim_chance(sim, 100),
        .eager = sim_chance(sim, 500),
    };
    plan_tasks(sim);
    if (plan->retries == 0)
        plan_fences(sim);
    plan->anyone = plan->writers > 0 && sim_chance(sim, 150);
    if (plan->anyone && sim_chance(sim, 500))
        plan->ends = (unsigned)sim_between(sim, 1, 15);
    plan->main_loses =
        plan->writers > 0 && plan->retries == 0 && !plan->leases_jump && sim_chance(sim, 100);
    /* An answer holds only where nothing committed is lost. */
    if (plan->anyone || plan->main_loses)
        plan->voters = 0;
    if (plan->main_loses)
        plan->actions |= 1U << CHAOS_BEHIND;
    if (sim_chance(sim, 200)) {
        plan->replayers = (size_t)sim_between(sim, 1, SIM_REPLAYERS_MAX);
        plan->actions |= 1U << CHAOS_UNLOGGED;
    }
    plan_housekeeping(sim);
    plan_removals(sim);
    plan_group_shards(sim);
    plan_clients(sim);
    plan_tries(sim);
    plan_streams(sim);
}

static void tend(void *arg)
{
    struct sim *sim = arg;

    for (;;) {
        db_tend(sim->main_db);
        db_tend(sim->sink_db);
        group_tend(sim->group);
        broker_tend(sim->broker);
        tasks_tend(sim);
        replica_tend(sim);
        binlog_tend(sim);
        for (size_t i = 0; i < sim->proc_count; i++) {
            struct proc *proc = &sim->procs[i];

            if (!proc->alive && !proc->finished && sim_now(sim) >= proc->restart_ms &&
                !(proc->ends && binlog_has_to_begin(sim)))
                proc->start(proc);
        }
        sched_pause(&sim->sched, TEND_MS);
    }
}

/* Short, or longer than every lease and session. */
static int64_t freeze_ms(struct sim *sim)
{
    return sim_chance(sim, 500) ? sim_between(sim, 1, 200) : sim_between(sim, 500, 5000);
}

/* The roll-up looks back by rollup.overlap_ms. A clock that goes back by more, and forward again
 * before any roll-up has looked at it, is more than it promises to see. */
static void clock_jump(struct sim *sim)
{
    bool of_main = sim_chance(sim, 500);
    struct db *db = of_main ? sim->main_db : sim->sink_db;
    int64_t most_ms = sim_chance(sim, 600) ? 300 : 4000;

    if (sim->plan.leases_jump) {
        of_main = true;
        db = sim->main_db;
        most_ms = 2 * sim->settings.relay.lease_ms;
    }
    /* Once in a run: an operator does not set a clock back by hours again and again. Tasks that
     * wait for a time, and published rows that are kept, wait for so much longer. */
    if (of_main && db->clock_ms > -SET_BACK_TASKS_MS / 2 && sim_chance(sim, 200))
        db_set_clock(db, db->clock_ms - (sim->plan.retries > 0 || sim->plan.streams != 0
                                             ? SET_BACK_TASKS_MS
                                             : SET_BACK_MS));
    else if (of_main)
        db_set_clock(db, db->clock_ms + sim_between(sim, -most_ms, most_ms));
    else
        db_set_clock(db, sim_between(sim, 0, sim->settings.rollup.overlap_ms / 4));
    sim_tell(sim, db->name, STORY_ALL, "has its clock set: %lld ms off", db->clock_ms, 0, 0);
}

/* The log takes no vote of a content for a while, or not all of them. */
static void log_refuse(struct sim *sim, int64_t content)
{
    struct sink_tables *sink = sim->sink;

    if (sim->plan.replayers == 0)
        return;
    sink->refused_until_ms[content] = sim_now(sim) + sim_between(sim, 1, 3000);
    sink->refused_bits[content] = (size_t)sim_below(sim, 4);
    sim_tell(sim, "sink", content, "refuses votes of content %lld, bits %lld", content,
             (int64_t)sink->refused_bits[content], 0);
}

static void happen(struct sim *sim, enum mishap mishap)
{
    struct proc *proc = &sim->procs[sim_below(sim, sim->proc_count)];
    int64_t now_ms = sim_now(sim);

    switch (mishap) {
    case CHAOS_KILL:
        proc->calls_to_end = sim_between(sim, 1, 60);
        break;
    case CHAOS_FREEZE:
        proc->calls_to_freeze = sim_between(sim, 1, 60);
        proc->freeze_ms = freeze_ms(sim);
        break;
    case CHAOS_STOP:
        if (proc->alive && !proc->stopping)
            sim_tell(sim, proc->name, STORY_ALL, "is asked to stop", 0, 0, 0);
        proc->stopping = true;
        break;
    case CHAOS_CRASH:
        db_crash(sim_chance(sim, 500) ? sim->main_db : sim->sink_db, sim_between(sim, 0, 1200));
        break;
    case CHAOS_CUT:
        proc->cut_until_ms = now_ms + sim_between(sim, 50, 3000);
        sim_tell(sim, proc->name, STORY_ALL, "is cut off for %lld ms", proc->cut_until_ms - now_ms,
                 0, 0);
        break;
    case CHAOS_LEADER:
        broker_move_leader(sim, (int)sim_below(sim, BROKER_TOPICS),
                           (int32_t)sim_below(sim, (uint64_t)sim->plan.partitions),
                           sim_between(sim, 0, 2000));
        break;
    case CHAOS_REBALANCE:
        group_rebalance(sim);
        break;
    case CHAOS_CLOCK:
        clock_jump(sim);
        break;
    case CHAOS_SILENT:
        sim->broker->silent_until_ms = now_ms + sim_between(sim, 1, 1500);
        break;
    case CHAOS_REFUSE:
        sim->broker->refuses_until_ms = now_ms + sim_between(sim, 1, 1500);
        break;
    case CHAOS_AWAY:
        sim->group->away_until_ms = now_ms + sim_between(sim, 1, 1500);
        break;
    case CHAOS_GROW:
        if (!sim->plan.grows || sim->plan.partitions == BROKER_PARTITIONS_MAX)
            break;
        sim->plan.partitions++;
        sim->grown = true;
        sim_tell(sim, "broker", STORY_ALL, "has %lld partitions now", sim->plan.partitions, 0, 0);
        group_rebalance(sim);
        break;
    case CHAOS_SLOW:
        proc->slow_until_ms = now_ms + sim_between(sim, 500, 6000);
        sim_tell(sim, proc->name, STORY_ALL, "is slow for %lld ms", proc->slow_until_ms - now_ms, 0,
                 0);
        break;
    case CHAOS_BEHIND:
        replica_fall_behind(sim);
        break;
    case CHAOS_UNLOGGED:
        log_refuse(sim, sim_between(sim, 1, SIM_CONTENTS));
        break;
    case CHAOS_ACTIONS:
        break;
    }
}

static void mishaps(void *arg)
{
    struct sim *sim = arg;

    while (!sim->healed && sim->plan.actions != 0) {
        enum mishap mishap = (enum mishap)sim_below(sim, CHAOS_ACTIONS);

        sched_pause(&sim->sched, sim_between(sim, 1, 2 * sim->plan.chaos_every_ms));
        while (!(sim->plan.actions & 1U << mishap))
            mishap = (mishap + 1) % CHAOS_ACTIONS;
        if (!sim->healed)
            happen(sim, mishap);
    }
}

void chaos_start(struct sim *sim)
{
    sched_start(&sim->sched, tend, sim, NULL);
    sched_start(&sim->sched, mishaps, sim, NULL);
    group_shards_start(sim);
    task_clients_start(sim);
}

void chaos_heal(struct sim *sim)
{
    sim_tell(sim, "chaos", STORY_ALL, "ends", 0, 0, 0);
    sim->healed = true;
    sim->writing = false;
    group_shards_heal(sim);
    task_clients_heal(sim);
    sim->rankings->healed_ms = sim_now(sim);
    if (sim->plan.rankings)
        sim->plan.slow = 0; /* processes are compared by the ms */
    for (size_t i = 0; i < sim->proc_count; i++) {
        struct proc *proc = &sim->procs[i];

        proc->frozen_until_ms = proc->cut_until_ms = proc->restart_ms = 0;
        proc->slow_until_ms = 0;
        proc->calls_to_end = proc->calls_to_freeze = 0;
    }
    sim->main_db->away_until_ms = sim->sink_db->away_until_ms = 0;
    sim->broker->silent_until_ms = sim->broker->refuses_until_ms = 0;
    sim->group->away_until_ms = 0;
    for (int topic = 0; topic < BROKER_TOPICS; topic++)
        for (int32_t i = 0; i < BROKER_PARTITIONS_MAX; i++)
            sim->broker->partitions[topic][i].down_until_ms = 0;
}
