/* SPDX-License-Identifier: MIT */
/* How threads run, sleep and end: the flag that ends a process, wakeups that end the wait of single
 * threads, and a loop that runs one engine step as a thread: calls it, sleeps for the time that it
 * returns or until its wakeup, and calls it again until stop. Threads sleep here and nowhere else.
 * Any thread may use stop and wakeups; the thread that owns a loop starts and joins it. */
#ifndef COMMON_LOOP_H
#define COMMON_LOOP_H

#include "common/err.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct stop {
    int fd; /* an eventfd that stays readable once stop was requested */
    atomic_bool requested;
    atomic_llong requested_ms; /* when, os_now_ms(); 0: not yet */
    atomic_bool failed;        /* a thread failed: exit non-zero */
};

/* RC_FATAL when the process has no file descriptor left. */
enum rc stop_init(struct stop *stop, struct err *err);
void stop_done(struct stop *stop);

/* Wakes every sleeper, now and from now on. Safe in a signal handler. */
void stop_request(struct stop *stop);

/* As stop_request(), and the process will exit with a failure. */
void stop_fail(struct stop *stop);

bool stop_requested(const struct stop *stop);

/* The moment, on the clock of os_now_ms(), at which so much of the time since the stop was
 * requested has passed; before that, counted from now. */
int64_t stop_until_ms(const struct stop *stop, int64_t ms);

/* Sleeps up to wait_ms (< 0: without end). True when stop was requested. */
bool stop_wait(const struct stop *stop, int64_t wait_ms);

/* An eventfd that ends the wait of one thread. A signal that no thread waits for is kept, once. */
struct wakeup {
    int fd;
};

enum rc wakeup_init(struct wakeup *wakeup, struct err *err);
void wakeup_done(struct wakeup *wakeup);
void wakeup_signal(const struct wakeup *wakeup);

/* Sleeps until the wakeup is signalled, stop is requested or wait_ms passed (< 0: without end), and
 * clears the signal. True when stop was requested. */
bool wakeup_wait(const struct wakeup *wakeup, const struct stop *stop, int64_t wait_ms);

/* Does a bounded amount of work and returns the time until its next call in milliseconds: 0 for at
 * once, LOOP_WAKEUP for only after its wakeup, LOOP_END for never. */
typedef int64_t (*loop_step)(void *engine, int64_t now_ms);

#define LOOP_WAKEUP (-1)
#define LOOP_END (-2)

struct loop {
    const char *name; /* of the thread, 15 characters at most; static */
    loop_step step;
    void *engine;
    struct stop *stop;
    struct wakeup wakeup;
    pthread_t thread;
    bool started;
    atomic_llong beat_ms; /* when the last step ended, os_now_ms() */
    atomic_llong busy_ms; /* when the step that runs now began; 0 while it sleeps */
    struct loop *next;    /* of those that are started */
};

/* Opens the wakeup, without a thread. The loop must not move in memory afterwards. */
enum rc loop_init(struct loop *loop, const char *name, loop_step step, void *engine,
                  struct stop *stop, struct err *err);
enum rc loop_start(struct loop *loop, struct err *err);

/* Waits for the thread's end; stop was requested, or the step returned LOOP_END. */
void loop_join(struct loop *loop);
void loop_done(struct loop *loop);

/* Reports that the current step of the calling thread still works, so that loops_stuck() counts
 * from now. For a step that waits for another thread in bounded parts. Does nothing on a thread
 * that runs no loop. */
void loop_goes_on(int64_t now_ms);

/* Wakes the loop's thread. Any thread. */
void loop_wake(struct loop *loop);

/* Whether a started loop of this process has been in one step for longer than within_ms without a
 * loop_goes_on(). name gets the name of the loop with the longest step. Any thread. */
#define LOOP_NAME_SIZE 16
bool loops_stuck(int64_t now_ms, int64_t within_ms, char name[LOOP_NAME_SIZE]);

#endif
