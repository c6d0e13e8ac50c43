/* SPDX-License-Identifier: MIT */
#include "tests/sim/run.h"

#include "tests/sim/binlog.h"
#include "tests/sim/broker.h"
#include "tests/sim/chaos.h"
#include "tests/sim/db.h"
#include "tests/sim/group.h"
#include "tests/sim/months.h"
#include "tests/sim/promises.h"
#include "tests/sim/rankings.h"
#include "tests/sim/removals.h"
#include "tests/sim/replays.h"
#include "tests/sim/replica.h"
#include "tests/sim/retry_queue.h"
#include "tests/sim/roles.h"
#include "tests/sim/sink.h"
#include "tests/sim/tables.h"
#include "tests/sim/tasks.h"
#include "tests/sim/votes.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DRAIN_MS 150000
#define SWITCHES_MAX 6000000
#define REST_EVERY_MS 50

struct run {
    struct sim sim;
    struct db main_db;
    struct db sink_db;
    struct tables tables;
    struct retry_tables retry;
    struct fake_broker broker;
    struct fake_group group;
    struct sink_tables sink;
    struct task_tables tasks;
    struct replay_tables replays;
    struct months months;
    struct removal_tables removals;
    struct ranking_tables rankings;
    struct binlog binlog;
    struct roles *roles;
};

struct run *run_open(void)
{
    struct run *run = calloc(1, sizeof(*run));

    assert(run);
    run->roles = roles_open();
    run->sim.events = calloc(SIM_EVENTS_MAX, sizeof(struct event));
    assert(run->sim.events);
    run->sim.main_db = &run->main_db;
    run->sim.sink_db = &run->sink_db;
    run->sim.tables = &run->tables;
    run->sim.retry = &run->retry;
    run->sim.broker = &run->broker;
    run->sim.group = &run->group;
    run->sim.sink = &run->sink;
    run->sim.tasks = &run->tasks;
    run->sim.replica = replica_open();
    run->sim.replays = &run->replays;
    run->sim.months = &run->months;
    run->sim.removals = &run->removals;
    run->sim.rankings = &run->rankings;
    run->sim.binlog = &run->binlog;
    return run;
}

void run_close(struct run *run)
{
    sched_done(&run->sim.sched);
    story_done(&run->sim.story);
    tables_done(&run->tables);
    binlog_done(&run->binlog);
    retry_done(&run->retry);
    broker_done(&run->broker);
    sink_done(&run->sink);
    tasks_done(&run->tasks);
    replica_close(run->sim.replica);
    db_done(&run->main_db);
    db_done(&run->sink_db);
    roles_close(run->roles);
    free(run->sim.events);
    free(run);
}

static void begin(struct run *run, uint64_t seed, enum sim_fault fault)
{
    struct sim *sim = &run->sim;

    sim_running = sim;
    sim->seed = seed;
    sim->rng = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
    sim->fault = fault;
    sim->writing = true;
    sim->healed = sim->grown = sim->failed = false;
    sim->proc_count = 0;
    sim->event_count = 0;
    memset(sim->order_next, 0, sizeof(sim->order_next));
    sched_reset(&sim->sched, &sim->rng, SIM_START_MS);
    chaos_plan(sim);
    db_begin_run(&run->main_db, sim, "main-db");
    db_begin_run(&run->sink_db, sim, "sink-db");
    run->sink_db.idle_ms_max = sim->settings.rollup.overlap_ms / 2;
    tables_begin_run(&run->tables, sim);
    binlog_begin_run(&run->binlog, sim);
    retry_begin_run(&run->retry, sim);
    broker_begin_run(&run->broker, sim);
    group_begin_run(&run->group, sim);
    sink_begin_run(&run->sink, sim);
    tasks_begin_run(&run->tasks, sim);
    replica_begin_run(sim->replica, sim);
    replays_begin_run(&run->replays, sim);
    months_begin_run(&run->months, sim);
    votes_begin_run(sim);
    removals_begin_run(&run->removals, sim);
    rankings_begin_run(&run->rankings, sim);
    roles_add(run->roles, sim);
    chaos_start(sim);
}

/* Turns until a time, a failure, or rest when that is looked for. */
static bool turns(struct sim *sim, int64_t until_ms, bool rests)
{
    int64_t look_ms = 0;
    struct waiting waiting = {0};

    while (!sim->failed && sim_now(sim) < until_ms) {
        if (!sched_turn(&sim->sched))
            return false;
        if (sim->sched.switches > SWITCHES_MAX)
            sim_fail(sim, STORY_ALL, "stuck: time stands still");
        if (!rests || sim_now(sim) < look_ms)
            continue;
        look_ms = sim_now(sim) + REST_EVERY_MS;
        if (promises_rest(sim, &waiting))
            return true;
    }
    if (rests)
        sim_fail(sim, waiting.key, "stuck: %d s after everything was well again, %s",
                 DRAIN_MS / 1000, waiting.text);
    return false;
}

static void end(struct run *run)
{
    struct sim *sim = &run->sim;

    for (size_t i = 0; i < sim->proc_count; i++)
        if (sim->procs[i].alive)
            proc_kill(&sim->procs[i]);
}

static void live(struct run *run, uint64_t seed, enum sim_fault fault)
{
    struct sim *sim = &run->sim;

    begin(run, seed, fault);
    turns(sim, SIM_START_MS + sim->plan.chaos_ms, false);
    if (!sim->failed) {
        chaos_heal(sim);
        if (turns(sim, sim_now(sim) + DRAIN_MS, true))
            promises_check(sim);
    }
    end(run);
}

void run_seed(struct run *run, uint64_t seed, enum sim_fault fault, struct run_result *result)
{
    struct sim *sim = &run->sim;

    story_begin(&sim->story, false, &(struct story_focus){0});
    live(run, seed, fault);
    *result = (struct run_result){
        .failed = sim->failed,
        .focus = sim->focus,
        .hash = sim->story.hash,
        .steps = sim->sched.switches,
        .events = sim->event_count,
        .ms = sim_now(sim) - SIM_START_MS,
    };
    if (sim->failed)
        snprintf(result->failure, sizeof(result->failure), "%s", sim->failure);
}

uint64_t run_hear(struct run *run, uint64_t seed, enum sim_fault fault,
                  const struct story_focus *focus)
{
    story_begin(&run->sim.story, true, focus);
    live(run, seed, fault);
    return run->sim.story.hash;
}

void run_tell(struct run *run, uint64_t seed, enum sim_fault fault, const struct story_focus *focus)
{
    run_hear(run, seed, fault, focus);
    story_print(&run->sim.story);
}
