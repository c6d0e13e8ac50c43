/* SPDX-License-Identifier: MIT */
#include "tests/sim/sim.h"

#include "common/hash.h"
#include "common/id.h"
#include "tests/sim/db.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct sim *sim_running;

uint64_t sim_below(struct sim *sim, uint64_t limit)
{
    return rng_next(&sim->rng) % limit;
}

bool sim_chance(struct sim *sim, unsigned thousandths)
{
    return thousandths > 0 && sim_below(sim, 1000) < thousandths;
}

int64_t sim_between(struct sim *sim, int64_t low, int64_t high)
{
    return low + (int64_t)sim_below(sim, (uint64_t)(high - low + 1));
}

int64_t sim_now(const struct sim *sim)
{
    return sim->sched.now_ms;
}

bool sim_is_stream(const struct sim *sim, size_t lane)
{
    return (sim->plan.streams >> lane & 1) != 0;
}

uint64_t sim_rng(void)
{
    return rng_next(&sim_running->rng);
}

int64_t sim_wall_ms(void)
{
    return SIM_WALL_MS + sim_running->sched.now_ms;
}

int64_t sim_clock_us(void)
{
    return sim_running->sched.now_ms * 1000;
}

void sim_fail(struct sim *sim, int64_t key, const char *format, ...)
{
    va_list args;

    if (sim->failed)
        return;
    sim->failed = true;
    sim->focus = (struct story_focus){key, {STORY_NONE, STORY_NONE}};
    va_start(args, format);
    vsnprintf(sim->failure, sizeof(sim->failure), format, args);
    va_end(args);
}

void sim_focus(struct sim *sim, size_t event, size_t other)
{
    if (sim->focus.events[0] != STORY_NONE)
        return;
    sim->focus.events[0] = (int64_t)event;
    sim->focus.events[1] = (int64_t)other;
}

void sim_tell(struct sim *sim, const char *who, int64_t key, const char *format, int64_t a,
              int64_t b, int64_t c)
{
    story_tell(&sim->story, sim->sched.now_ms - SIM_START_MS, who, key, format, a, b, c);
}

/* The random part of the id holds the number: ids are unique, and found at once. */
size_t sim_event_make(struct sim *sim, enum event_kind kind, int64_t key)
{
    size_t number = sim->event_count++;
    struct event *event = &sim->events[number];
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

size_t sim_event_find(const struct sim *sim, const uint8_t id[16])
{
    size_t number = 0;

    for (int i = 12; i < 16; i++)
        number = number << 8 | id[i];
    assert(number > 0 && number <= sim->event_count);
    return number - 1;
}

struct proc *proc_add(struct sim *sim, void *role, void (*start)(struct proc *proc),
                      void (*end)(struct proc *proc))
{
    struct proc *proc = &sim->procs[sim->proc_count++];

    assert(sim->proc_count <= SIM_PROCS_MAX);
    memset(proc, 0, sizeof(*proc));
    proc->sim = sim;
    proc->role = role;
    proc->start = start;
    proc->end = end;
    return proc;
}

void proc_start(struct proc *proc, const char *kind, size_t number)
{
    struct sim *sim = proc->sim;

    /* An operator may give a name that stays, or each life has its own. */
    proc->lives++;
    proc->began_ms = sim_now(sim);
    snprintf(proc->name, sizeof(proc->name), "%s-%c%d", kind, (char)('a' + number),
             sim->seed % 2 == 0 ? 0 : proc->lives % 100);
    proc->alive = true;
    proc->stopping = false;
    proc->frozen_until_ms = proc->cut_until_ms = proc->slow_until_ms = proc->slowed_ms = 0;
    proc->calls_to_end = proc->calls_to_freeze = 0;
    proc->clock_offset_ms = sim_between(sim, 0, 1000000000);
    proc->fiber_count = 0;
    sim_tell(sim, proc->name, STORY_ALL, "starts", 0, 0, 0);
}

struct fiber *proc_thread(struct proc *proc, void (*main)(void *arg), void *arg)
{
    struct fiber *fiber = sched_start(&proc->sim->sched, main, arg, &proc->frozen_until_ms);

    assert(proc->fiber_count < SIM_PROC_FIBERS_MAX);
    proc->fibers[proc->fiber_count++] = fiber;
    return fiber;
}

int64_t proc_clock(const struct proc *proc)
{
    return proc->sim->sched.now_ms + proc->clock_offset_ms;
}

static void gone(struct proc *proc)
{
    struct sched *sched = &proc->sim->sched;
    struct fiber *self = NULL;

    proc->alive = false;
    proc->finished = proc->ends && !proc->sim->writing;
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
    struct sim *sim = proc->sim;

    sim_tell(sim, proc->name, STORY_ALL, "is killed", 0, 0, 0);
    proc->restart_ms = sim_now(sim) + sim_between(sim, 0, sim_chance(sim, 300) ? 5000 : 300);
    gone(proc);
}

void proc_exit(struct proc *proc)
{
    struct sim *sim = proc->sim;

    sim_tell(sim, proc->name, STORY_ALL, "exits", 0, 0, 0);
    proc->restart_ms = sim_now(sim) + sim_between(sim, 0, 500);
    gone(proc);
}

void proc_pass(struct proc *proc)
{
    struct sim *sim = proc->sim;
    int64_t ms = 0;

    if (proc->calls_to_end > 0 && --proc->calls_to_end == 0)
        proc_kill(proc);
    if (sim_now(sim) < proc->slow_until_ms) {
        sched_pause(&sim->sched, sim_between(sim, 0, sim->settings.relay.lease_ms / 4));
        proc->slowed_ms = sim_now(sim);
        return;
    }
    if (proc->calls_to_freeze > 0 && --proc->calls_to_freeze == 0) {
        proc->frozen_until_ms = sim_now(sim) + proc->freeze_ms;
        sim_tell(sim, proc->name, STORY_ALL, "is frozen for %lld ms", proc->freeze_ms, 0, 0);
    } else if (!sim_chance(sim, sim->plan.yield)) {
        return;
    }
    if (sim_chance(sim, sim->plan.slow))
        ms = sim_between(sim, 1, sim_chance(sim, 20) ? 1500 : 25);
    else if (sim_chance(sim, 300))
        ms = 1;
    sched_pause(&sim->sched, ms);
}
