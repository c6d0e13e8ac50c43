/* SPDX-License-Identifier: MIT */
/* Whether a process can work, and why not: collects the health of its roles. The main thread sets
 * the state of the process; any thread may read. */
#ifndef COMMON_DAEMON_READINESS_H
#define COMMON_DAEMON_READINESS_H

#include "common/buf.h"
#include "common/err.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

/* Collects why something is not ready. Any number of lines, one per dependency. */
struct health {
    struct buf *out;
    bool ready;
    char why[256]; /* the first line of health_bad(), without the newline */
};

/* A role, as its readiness is asked. */
struct readiness_part {
    const char *name;                                  /* of the role, in front of its lines */
    void (*health)(void *role, struct health *health); /* NULL: the role is always ready */
    void *role;
};

/* "dependency: reason" makes it not ready. */
void health_bad(struct health *health, const char *dependency, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* "dependency: warning: ..." leaves the process ready: it works, but the operator should know. */
void health_warn(struct health *health, const char *dependency, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void health_good(struct health *health, const char *dependency);

enum readiness_state { READINESS_WAITING, READINESS_RUNNING, READINESS_STOPPING };

struct readiness {
    _Atomic enum readiness_state state;
    /* Written before state becomes RUNNING, read after it. */
    const struct readiness_part *parts;
    size_t count;
    /* Guards waiting. Also held while the roles report their health, which does not block: after
     * readiness_set_stopping() no role is called. */
    pthread_mutex_t lock;
    char waiting[sizeof(((struct err *)NULL)->text)];
};

void readiness_init(struct readiness *readiness);
void readiness_done(struct readiness *readiness);

/* Stores why the process is not ready yet. */
void readiness_set_waiting(struct readiness *readiness, const struct err *err);

/* Starts calling the health functions of the roles. parts are borrowed until readiness_done(). */
void readiness_set_running(struct readiness *readiness, const struct readiness_part *parts,
                           size_t count);

/* The process is not ready from now on, and no role is called. */
void readiness_set_stopping(struct readiness *readiness);

/* One line per dependency, with its role in front. */
void readiness_ask(struct readiness *readiness, struct health *health);

#endif
