/* SPDX-License-Identifier: MIT */
/* Fibers in virtual time. Every thread of every simulated process is one; a call into the world
 * gives the others their turn, in an order that the seed decides. A fiber that is not resumed any
 * more is what a killed thread is. One real thread. */
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
    jmp_buf here; /* where it goes on, once it was entered */
    char *stack;
    void (*main)(void *arg);
    void *arg;
    const int64_t *frozen_until_ms; /* of its process; it does not run before */
    int64_t due_ms;
    bool used;
    bool idle;  /* sleeps until a wakeup */
    bool rung;  /* a wakeup came while it worked */
    bool aside; /* what it waits for is not in its process */
    bool ended;
    bool entered;
};

struct sched {
    struct fiber fibers[SCHED_FIBERS_MAX];
    struct fiber *live[SCHED_FIBERS_MAX];
    size_t count;
    struct fiber *current; /* NULL: nobody runs */
    ucontext_t home;
    jmp_buf home_here;
    uint64_t *rng;
    int64_t now_ms;
    uint64_t switches;
};

/* For a new world; stacks are kept. */
void sched_reset(struct sched *sched, uint64_t *rng, int64_t now_ms);
void sched_done(struct sched *sched);

/* It begins at the next turn. frozen_until_ms may be NULL: never frozen. */
struct fiber *sched_start(struct sched *sched, void (*main)(void *arg), void *arg,
                          const int64_t *frozen_until_ms);

/* It never runs again. When it is the current one, this does not return. */
void sched_end(struct sched *sched, struct fiber *fiber);

/* The current fiber lets the others run for ms at least. */
void sched_pause(struct sched *sched, int64_t ms);

/* As sched_pause(), for something that goes on while its process is frozen. */
void sched_pause_aside(struct sched *sched, int64_t ms);

/* As sched_pause(), or until its wakeup; a signal from before counts. */
void sched_idle(struct sched *sched, int64_t ms);

/* Signals a fiber's wakeup. */
void sched_wake(struct sched *sched, struct fiber *fiber);

/* Gives one fiber its turn; time moves on to when it is due. False: there is none. */
bool sched_turn(struct sched *sched);

#endif
