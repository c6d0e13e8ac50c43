/* SPDX-License-Identifier: MIT */
/* Fibers in virtual time. Each thread of each simulated process is a fiber; a call to a fake server
 * lets other fibers run, in an order that the seed decides. A killed thread is a fiber that is
 * never resumed. One real thread. */
#ifndef TESTS_SIM_SCHED_H
#define TESTS_SIM_SCHED_H

#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <ucontext.h>

#define SCHED_FIBERS_MAX 160

struct fiber {
    ucontext_t context;
    jmp_buf here; /* where it continues, once it was entered */
    char *stack;
    void (*main)(void *arg);
    void *arg;
    const int64_t *frozen_until_ms; /* of its process; it does not run before */
    int64_t due_ms;
    bool used;
    bool idle;  /* sleeps until a wakeup */
    bool rung;  /* a wakeup came while it worked */
    bool aside; /* it runs although its process is frozen: it waits for a server */
    bool ended;
    bool entered;
};

struct sched {
    struct fiber fibers[SCHED_FIBERS_MAX];
    struct fiber *live[SCHED_FIBERS_MAX];
    size_t count;
    struct fiber *current; /* NULL: none runs */
    ucontext_t home;
    jmp_buf home_here;
    uint64_t *rng;
    int64_t now_ms;
    uint64_t switches;
};

/* Prepares for a new run. Stacks are kept. */
void sched_reset(struct sched *sched, uint64_t *rng, int64_t now_ms);
void sched_done(struct sched *sched);

/* Starts a fiber, which first runs at a later sched_turn(). frozen_until_ms is the process's, or
 * NULL: never frozen. */
struct fiber *sched_start(struct sched *sched, void (*main)(void *arg), void *arg,
                          const int64_t *frozen_until_ms);

/* The fiber never runs again. Does not return when it is the current one. */
void sched_end(struct sched *sched, struct fiber *fiber);

/* The current fiber lets the others run for ms at least. */
void sched_pause(struct sched *sched, int64_t ms);

/* As sched_pause(), for work that continues while its process is frozen. */
void sched_pause_aside(struct sched *sched, int64_t ms);

/* As sched_pause(), or until its wakeup. A wakeup that was signalled before ends it at once. */
void sched_idle(struct sched *sched, int64_t ms);

/* Signals a fiber's wakeup. */
void sched_wake(struct sched *sched, struct fiber *fiber);

/* Resumes one fiber, after moving the time to when it is due. False: there is no fiber. */
bool sched_turn(struct sched *sched);

#endif
