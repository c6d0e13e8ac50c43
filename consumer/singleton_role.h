/* SPDX-License-Identifier: MIT */
/* What the roles under a singleton lease (rollup, housekeep) share: one thread that calls the step
 * of a job, the readiness of the role, and --once. The functions singleton_role_* are those of
 * struct role; the threads that may call them are described there. */
#ifndef CONSUMER_SINGLETON_ROLE_H
#define CONSUMER_SINGLETON_ROLE_H

#include "common/daemon/role.h"
#include "common/err.h"
#include "consumer/singleton_lease.h"

#include <stdbool.h>
#include <stdint.h>

/* The state of a job after a step. The pointers are valid until the next step. */
struct singleton_progress {
    bool failing;          /* err is the reason */
    bool reached;          /* the step's calls to the database worked */
    bool working;          /* the job holds the lease and does not fail */
    int64_t late_since_ms; /* SINGLETON_ON_TIME while no due work is delayed */
    const char *other;     /* the instance that holds the lease; "": none but this one */
    const struct err *err;
};

/* What a job gets at open. Lives longer than the job. */
struct singleton_env {
    const struct settings *settings;
    struct stop *stop; /* NULL with once */
    const char *owner; /* of the lease; unique among all processes */
    bool once;         /* one run, due or not, and then LOOP_END */
};

struct singleton_job {
    const char *name;  /* of the role and of its thread */
    const char *check; /* the readiness check that fails when due work is late: "roll-up" */
    const char *noun;  /* for messages: "roll-up" */
    int64_t lease_ms;

    enum rc (*open)(void **job, const struct singleton_env *env, struct err *err);
    /* A loop_step that also fills progress. */
    int64_t (*step)(void *job, int64_t now_ms, struct singleton_progress *progress);
    /* Gives the lease back if it is held. No step follows. */
    void (*leave)(void *job);
    void (*read_counts)(const void *job, void *counts);
    void (*close)(void *job);
};

enum rc singleton_role_open(void **role, const struct singleton_job *job,
                            const struct role_env *env, struct err *err);
enum rc singleton_role_start(void *role, struct err *err);
void singleton_role_health(void *role, struct health *health);
void singleton_role_join(void *role);
void singleton_role_close(void *role);

/* Runs the job once, now, and stores in *counts what read_counts() tells; after a failure that is
 * what was done until then. RC_RETRY: another process held the lease, or the database could not be
 * reached, for longer than a lease. */
enum rc singleton_run_once(const struct singleton_job *job, const struct settings *settings,
                           void *counts, struct err *err);

#endif
