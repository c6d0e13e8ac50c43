/* SPDX-License-Identifier: MIT */
#include "consumer/singleton_role.h"

#include "common/loop.h"
#include "common/os.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

/* How much longer than a lease --once waits for another holder or for the database, so that a lease
 * whose holder died ends first. */
#define ONCE_MARGIN_MS 5000

struct singleton_role {
    const struct singleton_job *ops;
    const struct settings *settings;
    void *job; /* used by the loop's thread */
    struct loop loop;

    /* Guards the fields below, which the loop's thread writes and the admin server's reads. */
    pthread_mutex_t lock;
    bool reached; /* the database answered at least once */
    bool failing;
    int64_t late_since_ms;
    struct err err;
};

static int64_t step_role(void *arg, int64_t now_ms)
{
    struct singleton_role *role = arg;
    struct singleton_progress progress = {0};
    int64_t wait_ms = role->ops->step(role->job, now_ms, &progress);

    pthread_mutex_lock(&role->lock);
    role->reached = role->reached || progress.reached;
    role->failing = progress.failing;
    role->late_since_ms = progress.late_since_ms;
    role->err = *progress.err;
    pthread_mutex_unlock(&role->lock);
    return wait_ms;
}

enum rc singleton_role_open(void **opened, const struct singleton_job *job,
                            const struct role_env *env, struct err *err)
{
    const struct singleton_env job_env = {env->settings, env->stop, env->instance, false};
    struct singleton_role *role = calloc(1, sizeof(*role));
    enum rc rc;

    if (!role)
        return err_fail(err, RC_FATAL, 0, "out of memory");
    role->ops = job;
    role->settings = env->settings;
    role->late_since_ms = SINGLETON_ON_TIME;
    pthread_mutex_init(&role->lock, NULL);
    rc = loop_init(&role->loop, job->name, step_role, role, env->stop, err);
    if (rc == RC_OK)
        rc = job->open(&role->job, &job_env, err);
    if (rc == RC_OK)
        *opened = role;
    else
        singleton_role_close(role);
    return rc;
}

enum rc singleton_role_start(void *arg, struct err *err)
{
    struct singleton_role *role = arg;

    return loop_start(&role->loop, err);
}

void singleton_role_health(void *arg, struct health *health)
{
    struct singleton_role *role = arg;
    int64_t now_ms = os_now_ms();
    int64_t late_ms;
    struct err err;
    bool reached;
    bool failing;

    pthread_mutex_lock(&role->lock);
    reached = role->reached;
    failing = role->failing;
    err = role->err;
    late_ms = role->late_since_ms == SINGLETON_ON_TIME ? 0 : now_ms - role->late_since_ms;
    pthread_mutex_unlock(&role->lock);
    if (failing)
        health_bad(health, "sink database", "%s", err.text);
    else if (!reached)
        health_bad(health, "sink database", "not reached yet");
    else
        health_good(health, "sink database");
    if (late_ms > role->settings->admin.stale_ms)
        health_bad(health, role->ops->check, "due, but without progress for %" PRId64 " s",
                   late_ms / 1000);
    else
        health_good(health, role->ops->check);
}

void singleton_role_join(void *arg)
{
    struct singleton_role *role = arg;

    loop_join(&role->loop);
    role->ops->leave(role->job);
}

void singleton_role_close(void *arg)
{
    struct singleton_role *role = arg;

    if (role->job)
        role->ops->close(role->job);
    loop_done(&role->loop);
    pthread_mutex_destroy(&role->lock);
    free(role);
}

/* Steps until the run has ended. RC_RETRY: not in time; err tells why. */
static enum rc step_once(const struct singleton_job *ops, void *job, const struct stop *stop,
                         struct err *err)
{
    const int64_t wait_max_ms = ops->lease_ms + ONCE_MARGIN_MS;
    int64_t idle_since_ms = os_now_ms();

    for (;;) {
        struct singleton_progress progress = {0};
        int64_t wait_ms = ops->step(job, os_now_ms(), &progress);

        *err = *progress.err;
        if (wait_ms == LOOP_END)
            return progress.failing ? RC_FATAL : RC_OK;
        if (progress.working)
            idle_since_ms = os_now_ms();
        if (os_now_ms() - idle_since_ms > wait_max_ms) {
            if (!progress.failing)
                err_set(err, "another %s (%s) has been running for %" PRId64 " s; try again later",
                        ops->noun, progress.other, wait_max_ms / 1000);
            return RC_RETRY;
        }
        stop_wait(stop, wait_ms);
    }
}

enum rc singleton_run_once(const struct singleton_job *ops, const struct settings *settings,
                           void *counts, struct err *err)
{
    char owner[SINGLETON_OWNER_SIZE];
    const struct singleton_env env = {settings, NULL, owner, true};
    void *job = NULL;
    struct stop stop;
    char host[65];
    enum rc rc = stop_init(&stop, err);

    if (rc != RC_OK)
        return rc;
    os_host_name(host, sizeof(host));
    snprintf(owner, sizeof(owner), "%s-%ld-%04x-once", host, os_pid(),
             (unsigned)(os_random_u64() & 0xffff));
    rc = ops->open(&job, &env, err);
    if (rc == RC_OK) {
        rc = step_once(ops, job, &stop, err);
        ops->leave(job);
        ops->read_counts(job, counts);
    }
    if (job)
        ops->close(job);
    stop_done(&stop);
    return rc;
}
