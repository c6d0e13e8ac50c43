/* SPDX-License-Identifier: MIT */
/* The one flag that ends a process, and bells that wake single threads. Sleeping happens here and
 * nowhere else: a sleeper hears its bell, the stop, or its time-out. Any thread. */
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
    atomic_bool failed;        /* somebody could not go on: exit non-zero */
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

/* A bell wakes the one thread that waits on it. A ring that nobody hears is kept, once. */
struct bell {
    int fd;
};

enum rc bell_init(struct bell *bell, struct err *err);
void bell_done(struct bell *bell);
void bell_ring(const struct bell *bell);

/* Sleeps until the bell rang, stop was requested or wait_ms passed (< 0: without end);
 * takes the ring back. True when stop was requested. */
bool bell_wait(const struct bell *bell, const struct stop *stop, int64_t wait_ms);

#endif
