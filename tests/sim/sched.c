/* SPDX-License-Identifier: MIT */
#define _DEFAULT_SOURCE /* _setjmp() */
#undef _FORTIFY_SOURCE  /* it takes a jump to another stack for a mistake */

#include "tests/sim/sched.h"

#include "common/hash.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define STACK_BYTES 262144

/* makecontext() hands over integers only. */
static struct sched *starting;

void sched_reset(struct sched *sched, uint64_t *rng, int64_t now_ms)
{
    assert(!sched->current);
    for (size_t i = 0; i < SCHED_FIBERS_MAX; i++)
        sched->fibers[i].used = false;
    sched->count = 0;
    sched->rng = rng;
    sched->now_ms = now_ms;
    sched->switches = 0;
}

void sched_done(struct sched *sched)
{
    for (size_t i = 0; i < SCHED_FIBERS_MAX; i++)
        free(sched->fibers[i].stack);
    memset(sched, 0, sizeof(*sched));
}

#ifdef __SANITIZE_ADDRESS__
/* The sanitizer knows stacks by the contexts that are swapped. */
static void leave(struct sched *sched, struct fiber *fiber)
{
    sched->current = NULL;
    swapcontext(&fiber->context, &sched->home);
}

static void enter(struct sched *sched, struct fiber *fiber)
{
    swapcontext(&sched->home, &fiber->context);
}
#else
/* A fiber is entered by its context once; from then on by jumps, which ask the kernel for nothing
 * (swapcontext() keeps a signal mask, and that was more than half of the time of a run). */
static void leave(struct sched *sched, struct fiber *fiber)
{
    sched->current = NULL;
    if (_setjmp(fiber->here) == 0)
        _longjmp(sched->home_here, 1);
}

static void enter(struct sched *sched, struct fiber *fiber)
{
    if (_setjmp(sched->home_here) != 0)
        return;
    if (fiber->entered)
        _longjmp(fiber->here, 1);
    fiber->entered = true;
    setcontext(&fiber->context);
}
#endif

static void begin(void)
{
    struct sched *sched = starting;
    struct fiber *fiber = sched->current;

    fiber->main(fiber->arg);
    sched_end(sched, fiber);
}

struct fiber *sched_start(struct sched *sched, void (*main)(void *arg), void *arg,
                          const int64_t *frozen_until_ms)
{
    struct fiber *fiber = sched->fibers;

    while (fiber < sched->fibers + SCHED_FIBERS_MAX && fiber->used)
        fiber++;
    assert(fiber < sched->fibers + SCHED_FIBERS_MAX);
    if (!fiber->stack)
        fiber->stack = malloc(STACK_BYTES);
    assert(fiber->stack);
    fiber->main = main;
    fiber->arg = arg;
    fiber->frozen_until_ms = frozen_until_ms;
    fiber->due_ms = sched->now_ms;
    fiber->used = true;
    fiber->idle = fiber->rung = fiber->aside = fiber->ended = fiber->entered = false;
    getcontext(&fiber->context);
    fiber->context.uc_stack.ss_sp = fiber->stack;
    fiber->context.uc_stack.ss_size = STACK_BYTES;
    fiber->context.uc_link = NULL;
    makecontext(&fiber->context, begin, 0);
    sched->live[sched->count++] = fiber;
    return fiber;
}

static void forget(struct sched *sched, struct fiber *fiber)
{
    size_t at = 0;

    while (sched->live[at] != fiber)
        at++;
    sched->count--;
    memmove(&sched->live[at], &sched->live[at + 1], (sched->count - at) * sizeof(struct fiber *));
    fiber->used = false;
}

void sched_end(struct sched *sched, struct fiber *fiber)
{
    fiber->ended = true;
    if (fiber == sched->current)
        leave(sched, fiber); /* its stack is in use: the turn gives it up */
    else
        forget(sched, fiber);
}

static void wait(struct sched *sched, int64_t ms)
{
    struct fiber *fiber = sched->current;

    fiber->due_ms = sched->now_ms + ms;
    leave(sched, fiber);
    fiber->idle = false;
}

void sched_pause(struct sched *sched, int64_t ms)
{
    wait(sched, ms);
}

void sched_pause_aside(struct sched *sched, int64_t ms)
{
    struct fiber *fiber = sched->current;

    fiber->aside = true;
    wait(sched, ms);
    fiber->aside = false;
}

void sched_idle(struct sched *sched, int64_t ms)
{
    struct fiber *fiber = sched->current;

    fiber->idle = true;
    wait(sched, fiber->rung ? 0 : ms);
    fiber->rung = false;
}

void sched_wake(struct sched *sched, struct fiber *fiber)
{
    if (fiber->idle && fiber->due_ms > sched->now_ms)
        fiber->due_ms = sched->now_ms;
    else if (!fiber->idle)
        fiber->rung = true;
}

/* Chooses the fiber that is due first; among equals a random number decides. */
static struct fiber *choose(struct sched *sched, int64_t *due_ms)
{
    struct fiber *best[SCHED_FIBERS_MAX];
    size_t count = 0;

    *due_ms = INT64_MAX;
    for (size_t i = 0; i < sched->count; i++) {
        struct fiber *fiber = sched->live[i];
        int64_t due = fiber->due_ms;

        if (fiber->frozen_until_ms && !fiber->aside && *fiber->frozen_until_ms > due)
            due = *fiber->frozen_until_ms;
        if (due < sched->now_ms)
            due = sched->now_ms;
        if (due > *due_ms)
            continue;
        if (due < *due_ms)
            count = 0;
        *due_ms = due;
        best[count++] = fiber;
    }
    if (count == 0)
        return NULL;
    return best[count == 1 ? 0 : rng_next(sched->rng) % count];
}

bool sched_turn(struct sched *sched)
{
    int64_t due_ms;
    struct fiber *fiber = choose(sched, &due_ms);

    if (!fiber)
        return false;
    sched->now_ms = due_ms;
    sched->switches++;
    sched->current = fiber;
    starting = sched;
    enter(sched, fiber);
    if (fiber->ended)
        forget(sched, fiber);
    return true;
}
