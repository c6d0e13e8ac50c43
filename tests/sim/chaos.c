/* SPDX-License-Identifier: MIT */
#include "tests/sim/chaos.h"

#include "tests/sim/db.h"
#include "tests/sim/group.h"
#include "tests/sim/replica.h"
#include "tests/sim/sink.h"
#include "tests/sim/tasks.h"

#include <stdio.h>
#include <string.h>

#define TEND_MS 10
#define SET_BACK_MS 3600000
#define SET_BACK_TASKS_MS 20000

enum mishap {
    MISHAP_KILL,
    MISHAP_FREEZE,
    MISHAP_STOP,
    MISHAP_CRASH,
    MISHAP_CUT,
    MISHAP_LEADER,
    MISHAP_REBALANCE,
    MISHAP_CLOCK,
    MISHAP_SILENT,
    MISHAP_REFUSE,
    MISHAP_AWAY,
    MISHAP_GROW,
    MISHAP_SLOW,
    MISHAP_BEHIND,
    MISHAP_UNLOGGED,
    MISHAPS
};

/* Half of the worlds know nothing of a fault, the others more or less of it. */
static unsigned rate(struct world *world, unsigned most)
{
    return world_chance(world, 500) ? (unsigned)world_below(world, most + 1) : 0;
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

static void settings_make(struct world *world)
{
    struct settings *settings = &world->settings;

    memset(settings, 0, sizeof(*settings));
    for (size_t i = 0; i < SIM_LANES_MAX; i++)
        lane_make(&settings->lanes[i], i);
    snprintf(settings->relay.topic_prefix, sizeof(settings->relay.topic_prefix), "outbox.event.");
    settings->relay.read_rows_max = world_between(world, 4, 40);
    settings->relay.read_bytes_max = 16384;
    settings->relay.row_bytes_max = 1024;
    settings->relay.window_rows_max = world_between(world, 20, 100);
    settings->relay.poll_ms = world_between(world, 1, 8);
    settings->relay.poll_idle_ms = world_between(world, 10, 40);
    settings->relay.delete_rows_max = world_between(world, 10, 40);
    settings->relay.delete_wait_ms = world_between(world, 5, 100);
    settings->relay.gap_wait_ms = 9000;
    settings->relay.gaps_max = world_between(world, 8, 64);
    settings->relay.full_scan_ms = world_between(world, 500, 3000);
    settings->relay.send_timeout_ms = 800;
    settings->relay.diverted_keys_max = world_between(world, 2, 20);
    settings->relay.lease_ms = 2400;
    settings->retry.threads = world_between(world, 0, 3);
    settings->retry.batch_rows_max = world_between(world, 1, 20);
    settings->retry.in_flight_max = world_between(world, 1, 30);
    settings->retry.poll_ms = world_between(world, 10, 100);
    snprintf(settings->retry.poll_pace, sizeof(settings->retry.poll_pace), "%s",
             world_chance(world, 500) ? "delay" : "rate");
    settings->retry.poll_jitter_percent = 10;
    settings->retry.rescue_ms = world_between(world, 100, 600);
    snprintf(settings->retry.shards, sizeof(settings->retry.shards), "%s",
             world_chance(world, 500) ? "auto" : "0-15");
    settings->retry.lease_ms = 2400;
    settings->rollup.interval_ms = world_between(world, 300, 1500);
    settings->rollup.overlap_ms = 2000;
}

/* A third of the worlds has a retry queue of its own; half of these little else. */
static void plan_tasks(struct world *world)
{
    struct plan *plan = &world->plan;

    if (!world_chance(world, 400))
        return;
    plan->retries = (size_t)world_between(world, 1, SIM_RETRIES_MAX);
    plan->submitters = (size_t)world_between(world, 1, SIM_SUBMITTERS_MAX);
    plan->operators = 1;
    plan->task_fails = rate(world, 600);
    plan->task_poison = rate(world, 150);
    plan->task_slow = rate(world, 300);
    plan->task_deaf = rate(world, 500);
    plan->task_unlocked = rate(world, 500);
    plan->task_compared = rate(world, 1000);
    plan->task_lacking = rate(world, 500);
    plan->task_keys = world_between(world, 1, SIM_TASK_KEYS);
    plan->submit_ms = world_between(world, 5, world_chance(world, 500) ? 40 : 250);
    plan->operator_ms = world_between(world, 4, world_chance(world, 500) ? 30 : 500);
    plan->tasks_left = world_chance(world, 300);
    if (world_chance(world, 300))
        return;
    plan->relays = plan->consumers = plan->rollups = plan->voters = plan->lanes = 1;
    plan->writers = 0;
}

/* Of the worlds without a retry queue, one in five keeps house. In three in ten of these, slow
 * calls and a log that loses commits meet in the middle of a round. */
static void plan_housekeeping(struct world *world)
{
    struct plan *plan = &world->plan;

    if (plan->retries > 0 || !world_chance(world, 200))
        return;
    plan->housekeepers = (size_t)world_between(world, 1, SIM_HOUSEKEEPERS_MAX);
    plan->housekeep_ms = world_between(world, 100, 1000);
    if (!world_chance(world, 300))
        return;
    plan->actions |= 1U << MISHAP_SLOW | 1U << MISHAP_BEHIND;
    plan->chaos_every_ms = world_between(world, 60, 400);
}

/* One world in twelve is about leases that are lost in the middle of a read or a move: many rows
 * are refused, relays are slow, and the database's clock jumps past leases. */
static void plan_fences(struct world *world)
{
    struct plan *plan = &world->plan;

    if (!world_chance(world, 80))
        return;
    plan->relays = (size_t)world_between(world, 2, SIM_RELAYS_MAX);
    plan->lanes = plan->consumers = plan->rollups = plan->voters = 1;
    plan->writers = (size_t)world_between(world, 2, SIM_WRITERS_MAX);
    plan->bad_rows = (unsigned)world_between(world, 50, 250);
    plan->actions |= 1U << MISHAP_SLOW | 1U << MISHAP_CLOCK;
    plan->chaos_every_ms = world_between(world, 60, 400);
    plan->leases_jump = true;
}

void chaos_plan(struct world *world)
{
    struct plan *plan = &world->plan;

    settings_make(world);
    *plan = (struct plan){
        .lanes = (size_t)world_between(world, 1, SIM_LANES_MAX),
        .relays = (size_t)world_between(world, 1, SIM_RELAYS_MAX),
        .consumers = (size_t)world_between(world, 1, SIM_CONSUMERS_MAX),
        .rollups = (size_t)world_between(world, 1, SIM_ROLLUPS_MAX),
        .voters = (size_t)world_between(world, 1, SIM_VOTERS_MAX),
        .writers = (size_t)world_between(world, 1, SIM_WRITERS_MAX),
        .partitions = (int32_t)world_between(world, 1, BROKER_PARTITIONS_MAX),
        .chaos_ms = world_between(world, 3000, 12000),
        .chaos_every_ms = world_between(world, 60, 1500),
        .actions = (unsigned)world_below(world, 1U << MISHAPS),
        .yield = (unsigned)world_between(world, 100, 600),
        .slow = rate(world, 100),
        .db_fails = rate(world, 30),
        .db_fatal = rate(world, 100),
        .commit_lost = rate(world, 250),
        .roll_back = rate(world, 300),
        .hold = rate(world, 100),
        .reserve_slowly = rate(world, 200),
        .bad_rows = rate(world, 60),
        .poison = rate(world, 100),
        .tasks_skipped = rate(world, 100),
        .ghosts = rate(world, 1000),
        .ack_lost = rate(world, 200),
        .broker_fails = rate(world, 60),
        .holes = rate(world, 100),
        .seeks_lost = rate(world, 100),
        .writers_known = world_chance(world, 700),
        .grows = world_chance(world, 100),
        .eager = world_chance(world, 500),
    };
    plan_tasks(world);
    if (plan->retries == 0)
        plan_fences(world);
    plan->anyone = plan->writers > 0 && world_chance(world, 150);
    plan->main_loses =
        plan->writers > 0 && plan->retries == 0 && !plan->leases_jump && world_chance(world, 100);
    /* An answer holds only where nothing committed is lost. */
    if (plan->anyone || plan->main_loses)
        plan->voters = 0;
    if (plan->main_loses)
        plan->actions |= 1U << MISHAP_BEHIND;
    if (world_chance(world, 200)) {
        plan->replayers = (size_t)world_between(world, 1, SIM_REPLAYERS_MAX);
        plan->actions |= 1U << MISHAP_UNLOGGED;
    }
    plan_housekeeping(world);
}

static void tend(void *arg)
{
    struct world *world = arg;

    for (;;) {
        db_tend(world->main_db);
        db_tend(world->sink_db);
        group_tend(world->group);
        broker_tend(world->broker);
        tasks_tend(world);
        replica_tend(world);
        for (size_t i = 0; i < world->proc_count; i++) {
            struct proc *proc = &world->procs[i];

            if (!proc->alive && !proc->finished && world_now(world) >= proc->restart_ms)
                proc->start(proc);
        }
        sched_pause(&world->sched, TEND_MS);
    }
}

/* Short, or longer than every lease and session. */
static int64_t freeze_ms(struct world *world)
{
    return world_chance(world, 500) ? world_between(world, 1, 200)
                                    : world_between(world, 500, 5000);
}

/* The roll-up looks back by rollup.overlap_ms. A clock that goes back by more, and forward again
 * before any roll-up has looked at it, is more than it promises to see. */
static void clock_jump(struct world *world)
{
    bool of_main = world_chance(world, 500);
    struct db *db = of_main ? world->main_db : world->sink_db;
    int64_t most_ms = world_chance(world, 600) ? 300 : 4000;

    if (world->plan.leases_jump) {
        of_main = true;
        db = world->main_db;
        most_ms = 2 * world->settings.relay.lease_ms;
    }
    /* Once, so far: nobody sets a clock back by hours again and again. Tasks that wait for a time
     * wait for so much longer. */
    if (of_main && db->clock_ms > -SET_BACK_TASKS_MS / 2 && world_chance(world, 200))
        db->clock_ms -= world->plan.retries > 0 ? SET_BACK_TASKS_MS : SET_BACK_MS;
    else if (of_main)
        db->clock_ms += world_between(world, -most_ms, most_ms);
    else
        db->clock_ms = world_between(world, 0, world->settings.rollup.overlap_ms / 4);
    world_tell(world, db->name, STORY_ALL, "has its clock set: %lld ms off", db->clock_ms, 0, 0);
}

/* The log takes no vote of a content for a while, or not all of them. */
static void log_refuse(struct world *world, int64_t content)
{
    struct sink_tables *sink = world->sink;

    if (world->plan.replayers == 0)
        return;
    sink->refused_until_ms[content] = world_now(world) + world_between(world, 1, 3000);
    sink->refused_bits[content] = (size_t)world_below(world, 4);
    world_tell(world, "sink", content, "refuses votes of content %lld, bits %lld", content,
               (int64_t)sink->refused_bits[content], 0);
}

static void happen(struct world *world, enum mishap mishap)
{
    struct proc *proc = &world->procs[world_below(world, world->proc_count)];
    int64_t now_ms = world_now(world);

    switch (mishap) {
    case MISHAP_KILL:
        proc->calls_to_end = world_between(world, 1, 60);
        break;
    case MISHAP_FREEZE:
        proc->calls_to_freeze = world_between(world, 1, 60);
        proc->freeze_ms = freeze_ms(world);
        break;
    case MISHAP_STOP:
        if (proc->alive && !proc->stopping)
            world_tell(world, proc->name, STORY_ALL, "is asked to stop", 0, 0, 0);
        proc->stopping = true;
        break;
    case MISHAP_CRASH:
        db_crash(world_chance(world, 500) ? world->main_db : world->sink_db,
                 world_between(world, 0, 1200));
        break;
    case MISHAP_CUT:
        proc->cut_until_ms = now_ms + world_between(world, 50, 3000);
        world_tell(world, proc->name, STORY_ALL, "is cut off for %lld ms",
                   proc->cut_until_ms - now_ms, 0, 0);
        break;
    case MISHAP_LEADER:
        broker_move_leader(world, (int)world_below(world, BROKER_TOPICS),
                           (int32_t)world_below(world, (uint64_t)world->plan.partitions),
                           world_between(world, 0, 2000));
        break;
    case MISHAP_REBALANCE:
        group_rebalance(world);
        break;
    case MISHAP_CLOCK:
        clock_jump(world);
        break;
    case MISHAP_SILENT:
        world->broker->silent_until_ms = now_ms + world_between(world, 1, 1500);
        break;
    case MISHAP_REFUSE:
        world->broker->refuses_until_ms = now_ms + world_between(world, 1, 1500);
        break;
    case MISHAP_AWAY:
        world->group->away_until_ms = now_ms + world_between(world, 1, 1500);
        break;
    case MISHAP_GROW:
        if (!world->plan.grows || world->plan.partitions == BROKER_PARTITIONS_MAX)
            break;
        world->plan.partitions++;
        world->grown = true;
        world_tell(world, "broker", STORY_ALL, "has %lld partitions now", world->plan.partitions, 0,
                   0);
        group_rebalance(world);
        break;
    case MISHAP_SLOW:
        proc->slow_until_ms = now_ms + world_between(world, 500, 6000);
        world_tell(world, proc->name, STORY_ALL, "is slow for %lld ms",
                   proc->slow_until_ms - now_ms, 0, 0);
        break;
    case MISHAP_BEHIND:
        replica_fall_behind(world);
        break;
    case MISHAP_UNLOGGED:
        log_refuse(world, world_between(world, 1, SIM_CONTENTS));
        break;
    case MISHAPS:
        break;
    }
}

static void mishaps(void *arg)
{
    struct world *world = arg;

    while (!world->healed && world->plan.actions != 0) {
        enum mishap mishap = (enum mishap)world_below(world, MISHAPS);

        sched_pause(&world->sched, world_between(world, 1, 2 * world->plan.chaos_every_ms));
        while (!(world->plan.actions & 1U << mishap))
            mishap = (mishap + 1) % MISHAPS;
        if (!world->healed)
            happen(world, mishap);
    }
}

void chaos_start(struct world *world)
{
    sched_start(&world->sched, tend, world, NULL);
    sched_start(&world->sched, mishaps, world, NULL);
}

void chaos_heal(struct world *world)
{
    world_tell(world, "world", STORY_ALL, "heals", 0, 0, 0);
    world->healed = true;
    world->writing = false;
    for (size_t i = 0; i < world->proc_count; i++) {
        struct proc *proc = &world->procs[i];

        proc->frozen_until_ms = proc->cut_until_ms = proc->restart_ms = 0;
        proc->slow_until_ms = 0;
        proc->calls_to_end = proc->calls_to_freeze = 0;
    }
    world->main_db->away_until_ms = world->sink_db->away_until_ms = 0;
    world->broker->silent_until_ms = world->broker->refuses_until_ms = 0;
    world->group->away_until_ms = 0;
    for (int topic = 0; topic < BROKER_TOPICS; topic++)
        for (int32_t i = 0; i < BROKER_PARTITIONS_MAX; i++)
            world->broker->partitions[topic][i].down_until_ms = 0;
}
