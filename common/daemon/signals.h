/* SPDX-License-Identifier: MIT */
/* Turns SIGTERM and SIGINT into a stop, on a thread of its own. A second signal, or a stop that
 * takes too long, ends the process at once with EXIT_FAILED; that is as safe as a kill. The thread
 * also calls the functions of struct signals_chores. Only the main thread calls this module. */
#ifndef COMMON_DAEMON_SIGNALS_H
#define COMMON_DAEMON_SIGNALS_H

#include "common/config/settings.h"
#include "common/err.h"
#include "common/loop.h"

#include <pthread.h>
#include <stdint.h>

/* Further work of the thread; it calls each of these functions. */
struct signals_chores {
    void (*hang_up)(void *ctx);                 /* SIGHUP came; not called once a stop began */
    int64_t (*look)(void *ctx, int64_t now_ms); /* returns the time until the next call in ms */
    /* Called repeatedly during a stop, with its duration so far. */
    void (*stop_lasts)(void *ctx, int64_t now_ms, int64_t spent_ms, int64_t timeout_ms);
    void *ctx;
};

struct signals {
    struct stop *stop;
    const struct settings *settings;
    struct signals_chores chores;
    struct wakeup finished; /* signalled when the stop is complete */
    int fd;                 /* signals arrive here */
    pthread_t thread;
};

/* Call before any other thread starts: they inherit the blocked signal mask. RC_FATAL: no file
 * descriptor or thread left; nothing was started. */
enum rc signals_start(struct signals *signals, struct stop *stop, const struct settings *settings,
                      const struct signals_chores *chores, struct err *err);

/* Call when all roles have ended: ends the thread. */
void signals_end(struct signals *signals);

#endif
