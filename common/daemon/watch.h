/* SPDX-License-Identifier: MIT */
/* Watches over a process from inside: says in the log when it stops being ready, why, and when it
 * is ready again; keeps the service manager informed; and feeds its watchdog as long as every loop
 * finishes its steps. One thread. */
#ifndef COMMON_DAEMON_WATCH_H
#define COMMON_DAEMON_WATCH_H

#include "common/daemon/notify.h"
#include "common/daemon/readiness.h"

#include <stdbool.h>
#include <stdint.h>

struct watch {
    const char *role; /* in the log; static */
    struct readiness *readiness;
    const struct notify *notify;
    int64_t watchdog_ms; /* a step that takes longer starves the watchdog; 0: there is none */
    int64_t bad_since_ms;
    bool bad;
    bool said; /* that it is bad */
    bool starving;
    char status[sizeof(((struct health *)NULL)->why)]; /* the manager knows this one */
};

/* All are borrowed. */
void watch_init(struct watch *watch, const char *role, struct readiness *readiness,
                const struct notify *notify, int64_t watchdog_ms);

/* Looks once; in how many milliseconds it wants to be called again. */
int64_t watch_step(struct watch *watch, int64_t now_ms);

#endif
