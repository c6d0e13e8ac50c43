/* SPDX-License-Identifier: MIT */
/* Watches a process from inside: logs when and why it stops being ready and when it is ready again,
 * informs the service manager, and feeds its watchdog while every loop finishes its steps. One
 * thread. */
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
    char status[sizeof(((struct health *)NULL)->why)]; /* the last status that the manager got */
};

/* All are borrowed. */
void watch_init(struct watch *watch, const char *role, struct readiness *readiness,
                const struct notify *notify, int64_t watchdog_ms);

/* Checks once. Returns the time until the next call in milliseconds. */
int64_t watch_step(struct watch *watch, int64_t now_ms);

#endif
