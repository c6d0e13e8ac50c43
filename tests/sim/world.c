/* SPDX-License-Identifier: MIT */
#include "tests/sim/world.h"

#include "common/hash.h"
#include "common/id.h"
#include "tests/sim/db.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct world *world_running;

uint64_t world_below(struct world *world, uint64_t limit)
{
    return rng_next(&world->rng) % limit;
}

bool world_chance(struct world *world, unsigned thousandths)
{
    return thousandths > 0 && world_below(world, 1000) < thousandths;
}

int64_t world_between(struct world *world, int64_t low, int64_t high)
{
    return low + (int64_t)world_below(world, (uint64_t)(high - low + 1));
}

int64_t world_now(const struct world *world)
{
    return world->sched.now_ms;
}

uint64_t world_rng(void)
{
    return rng_next(&world_running->rng);
}

int64_t world_wall_ms(void)
{
    return SIM_WALL_MS + world_running->sched.now_ms;
}

int64_t world_clock_us(void)
{
    return world_running->sched.now_ms * 1000;
}

void world_fail(struct world *world, int64_t key, const char *format, ...)
{
    va_list args;

    if (world->failed)
        return;
    world->failed = true;
    world->focus = (struct story_focus){key, {STORY_NONE, STORY_NONE}};
    va_start(args, format);
    vsnprintf(world->failure, sizeof(world->failure), format, args);
    va_end(args);
}

void world_focus(struct world *world, size_t event, size_t other)
{
    if (world->focus.events[0] != STORY_NONE)
        return;
    world->focus.events[0] = (int64_t)event;
    world->focus.events[1] = (int64_t)other;
}

void world_tell(struct world *world, const char *who, int64_t key, const char *format, int64_t a,
                int64_t b, int64_t c)
{
    story_tell(&world->story, world->sched.now_ms - SIM_START_MS, who, key, format, a, b, c);
}

/* The random part of the id holds the number: ids are unique, and found at once. */
size_t world_event_make(struct world *world, enum event_kind kind, int64_t key)
{
    size_t number = world->event_count++;
    struct event *event = &world->events[number];
    uint8_t random_bytes[10] = {0};
    struct id id;

    assert(number < SIM_EVENTS_MAX);
    memset(event, 0, sizeof(*event));
    event->kind = kind;
    event->key = key;
    for (int i = 0; i < 4; i++)
        random_bytes[6 + i] = (uint8_t)((number + 1) >> (24 - 8 * i));
    id_make(&id, SIM_WALL_MS, random_bytes);
    id_format(&id, event->id);
    return number;
}

size_t world_event_find(const struct world *world, const uint8_t id[16])
{
    size_t number = 0;

    for (int i = 12; i < 16; i++)
        number = number << 8 | id[i];
    assert(number > 0 && number <= world->event_count);
    return number - 1;
}

struct proc *proc_add(struct world *world, void *role, void (*start)(struct proc *proc),
                      void (*end)(struct proc *proc))
{
    struct proc *proc = &world->procs[world->proc_count++];

    assert(world->proc_count <= SIM_PROCS_MAX);
    memset(proc, 0, sizeof(*proc));
    proc->world = world;
    proc->role = role;
    proc->start = start;
    proc->end = end;
    return proc;
}

void proc_start(struct proc *proc, const char *kind, size_t number)
{
    struct world *world = proc->world;

    /* An operator may give a name that stays, or each life has its own. */
    proc->lives++;
    proc->began_ms = world_now(world);
    snprintf(proc->name, sizeof(proc->name), "%s-%c%d", kind, (char)('a' + number),
             world->seed % 2 == 0 ? 0 : proc->lives % 100);
    proc->alive = true;
    proc->stopping = false;
    proc->frozen_until_ms = proc->cut_until_ms = proc->slow_until_ms = proc->slowed_ms = 0;
    proc->calls_to_end = proc->calls_to_freeze = 0;
    proc->clock_offset_ms = world_between(world, 0, 1000000000);
    proc->fiber_count = 0;
    world_tell(world, proc->name, STORY_ALL, "starts", 0, 0, 0);
}

struct fiber *proc_thread(struct proc *proc, void (*main)(void *arg), void *arg)
{
    struct fiber *fiber = sched_start(&proc->world->sched, main, arg, &proc->frozen_until_ms);

    assert(proc->fiber_count < SIM_PROC_FIBERS_MAX);
    proc->fibers[proc->fiber_count++] = fiber;
    return fiber;
}

int64_t proc_clock(const struct proc *proc)
{
    return proc->world->sched.now_ms + proc->clock_offset_ms;
}

static void gone(struct proc *proc)
{
    struct sched *sched = &proc->world->sched;
    struct fiber *self = NULL;

    proc->alive = false;
    proc->finished = proc->ends && !proc->world->writing;
    proc->end(proc);
    for (size_t i = 0; i < proc->fiber_count; i++) {
        struct fiber *fiber = proc->fibers[i];

        if (fiber == sched->current)
            self = fiber;
        else if (fiber->used && fiber->frozen_until_ms == &proc->frozen_until_ms)
            sched_end(sched, fiber);
    }
    proc->fiber_count = 0;
    if (self)
        sched_end(sched, self);
}

void proc_kill(struct proc *proc)
{
    struct world *world = proc->world;

    world_tell(world, proc->name, STORY_ALL, "is killed", 0, 0, 0);
    proc->restart_ms =
        world_now(world) + world_between(world, 0, world_chance(world, 300) ? 5000 : 300);
    gone(proc);
}

void proc_exit(struct proc *proc)
{
    struct world *world = proc->world;

    world_tell(world, proc->name, STORY_ALL, "exits", 0, 0, 0);
    proc->restart_ms = world_now(world) + world_between(world, 0, 500);
    gone(proc);
}

void proc_pass(struct proc *proc)
{
    struct world *world = proc->world;
    int64_t ms = 0;

    if (proc->calls_to_end > 0 && --proc->calls_to_end == 0)
        proc_kill(proc);
    if (world_now(world) < proc->slow_until_ms) {
        sched_pause(&world->sched, world_between(world, 0, world->settings.relay.lease_ms / 4));
        proc->slowed_ms = world_now(world);
        return;
    }
    if (proc->calls_to_freeze > 0 && --proc->calls_to_freeze == 0) {
        proc->frozen_until_ms = world_now(world) + proc->freeze_ms;
        world_tell(world, proc->name, STORY_ALL, "is frozen for %lld ms", proc->freeze_ms, 0, 0);
    } else if (!world_chance(world, world->plan.yield)) {
        return;
    }
    if (world_chance(world, world->plan.slow))
        ms = world_between(world, 1, world_chance(world, 20) ? 1500 : 25);
    else if (world_chance(world, 300))
        ms = 1;
    sched_pause(&world->sched, ms);
}
