/* SPDX-License-Identifier: MIT */
/* The flag that ends a process, and wakeups that end the wait of single threads. Threads sleep here
 * and nowhere else, until their wakeup, the stop, or a time-out. Any thread. */
#ifndef COMMON_STOP_H
#define COMMON_STOP_H

#include "common/err.h"

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

#endif
