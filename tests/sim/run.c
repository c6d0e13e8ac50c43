/* SPDX-License-Identifier: MIT */
#include "tests/sim/run.h"

#include "tests/sim/broker.h"
#include "tests/sim/chaos.h"
#include "tests/sim/db.h"
#include "tests/sim/group.h"
#include "tests/sim/months.h"
#include "tests/sim/promises.h"
#include "tests/sim/replays.h"
#include "tests/sim/replica.h"
#include "tests/sim/retry_queue.h"
#include "tests/sim/roles.h"
#include "tests/sim/sink.h"
#include "tests/sim/tables.h"
#include "tests/sim/tasks.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DRAIN_MS 150000
#define SWITCHES_MAX 6000000
#define REST_EVERY_MS 50

struct run {
    struct world world;
    struct db main_db;
    struct db sink_db;
    struct tables tables;
    struct retry_tables retry;
    struct broker_model broker;
    struct group_model group;
    struct sink_tables sink;
    struct task_tables tasks;
    struct replay_tables replays;
    struct months months;
    struct roles *roles;
};

struct run *run_open(void)
{
    struct run *run = calloc(1, sizeof(*run));

    assert(run);
    run->roles = roles_open();
    run->world.events = calloc(SIM_EVENTS_MAX, sizeof(struct event));
    assert(run->world.events);
    run->world.main_db = &run->main_db;
    run->world.sink_db = &run->sink_db;
    run->world.tables = &run->tables;
    run->world.retry = &run->retry;
    run->world.broker = &run->broker;
    run->world.group = &run->group;
    run->world.sink = &run->sink;
    run->world.tasks = &run->tasks;
    run->world.replica = replica_open();
    run->world.replays = &run->replays;
    run->world.months = &run->months;
    return run;
}

void run_close(struct run *run)
{
    sched_done(&run->world.sched);
    story_done(&run->world.story);
    tables_done(&run->tables);
    retry_done(&run->retry);
    broker_done(&run->broker);
    sink_done(&run->sink);
    tasks_done(&run->tasks);
    replica_close(run->world.replica);
    db_done(&run->main_db);
    db_done(&run->sink_db);
    roles_close(run->roles);
    free(run->world.events);
    free(run);
}

static void begin(struct run *run, uint64_t seed, enum model_fault fault)
{
    struct world *world = &run->world;

    world_running = world;
    world->seed = seed;
    world->rng = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
    world->fault = fault;
    world->writing = true;
    world->healed = world->grown = world->failed = false;
    world->proc_count = 0;
    world->event_count = 0;
    memset(world->order_next, 0, sizeof(world->order_next));
    sched_reset(&world->sched, &world->rng, SIM_START_MS);
    chaos_plan(world);
    db_begin_world(&run->main_db, world, "main-db");
    db_begin_world(&run->sink_db, world, "sink-db");
    run->sink_db.idle_ms_max = world->settings.rollup.overlap_ms / 2;
    tables_begin_world(&run->tables, world);
    retry_begin_world(&run->retry, world);
    broker_begin_world(&run->broker, world);
    group_begin_world(&run->group, world);
    sink_begin_world(&run->sink, world);
    tasks_begin_world(&run->tasks, world);
    replica_begin_world(world->replica, world);
    replays_begin_world(&run->replays, world);
    months_begin_world(&run->months, world);
    votes_begin_world(world);
    roles_add(run->roles, world);
    chaos_start(world);
}

/* Turns until a time, a failure, or rest when that is looked for. */
static bool turns(struct world *world, int64_t until_ms, bool rests)
{
    int64_t look_ms = 0;
    struct waiting waiting = {0};

    while (!world->failed && world_now(world) < until_ms) {
        if (!sched_turn(&world->sched))
            return false;
        if (world->sched.switches > SWITCHES_MAX)
            world_fail(world, STORY_ALL, "stuck: time stands still");
        if (!rests || world_now(world) < look_ms)
            continue;
        look_ms = world_now(world) + REST_EVERY_MS;
        if (promises_rest(world, &waiting))
            return true;
    }
    if (rests)
        world_fail(world, waiting.key, "stuck: %d s after everything was well again, %s",
                   DRAIN_MS / 1000, waiting.text);
    return false;
}

static void end(struct run *run)
{
    struct world *world = &run->world;

    for (size_t i = 0; i < world->proc_count; i++)
        if (world->procs[i].alive)
            proc_kill(&world->procs[i]);
}

static void live(struct run *run, uint64_t seed, enum model_fault fault)
{
    struct world *world = &run->world;

    begin(run, seed, fault);
    turns(world, SIM_START_MS + world->plan.chaos_ms, false);
    if (!world->failed) {
        chaos_heal(world);
        if (turns(world, world_now(world) + DRAIN_MS, true))
            promises_check(world);
    }
    end(run);
}

void run_seed(struct run *run, uint64_t seed, enum model_fault fault, struct run_result *result)
{
    struct world *world = &run->world;

    story_begin(&world->story, false, &(struct story_focus){0});
    live(run, seed, fault);
    *result = (struct run_result){
        .failed = world->failed,
        .focus = world->focus,
        .hash = world->story.hash,
        .steps = world->sched.switches,
        .events = world->event_count,
        .ms = world_now(world) - SIM_START_MS,
    };
    if (world->failed)
        snprintf(result->failure, sizeof(result->failure), "%s", world->failure);
}

uint64_t run_hear(struct run *run, uint64_t seed, enum model_fault fault,
                  const struct story_focus *focus)
{
    story_begin(&run->world.story, true, focus);
    live(run, seed, fault);
    return run->world.story.hash;
}

void run_tell(struct run *run, uint64_t seed, enum model_fault fault,
              const struct story_focus *focus)
{
    run_hear(run, seed, fault, focus);
    story_print(&run->world.story);
}
