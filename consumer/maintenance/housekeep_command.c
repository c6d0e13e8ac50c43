/* SPDX-License-Identifier: MIT */
#include "consumer/maintenance/housekeep_command.h"

#include "common/loop.h"
#include "common/options.h"
#include "common/os.h"
#include "consumer/maintenance/housekeep.h"
#include "consumer/maintenance/housekeep_mysql.h"
#include "consumer/maintenance/housekeep_once_command.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct housekeep_role_state {
    const struct settings *settings;
    struct housekeep_mysql *mysql;
    struct housekeep housekeep; /* of the loop's thread */
    struct loop loop;

    /* Guards what follows: written by the loop's thread, read by the admin's. */
    pthread_mutex_t lock;
    bool looked; /* the database answered once */
    bool failing;
    int64_t late_since_ms;
    struct err err;
};

static int64_t part_step(void *arg, int64_t now_ms)
{
    struct housekeep_role_state *part = arg;
    int64_t wait_ms;

    part->housekeep.config.interval_ms = part->settings->housekeep.interval_ms;
    part->housekeep.config.rules = housekeep_rules_of(part->settings);
    wait_ms = housekeep_step(&part->housekeep, now_ms);
    pthread_mutex_lock(&part->lock);
    part->looked = part->looked || part->housekeep.rc == RC_OK;
    part->failing = part->housekeep.failing;
    part->late_since_ms = part->housekeep.late_since_ms;
    part->err = part->housekeep.err;
    pthread_mutex_unlock(&part->lock);
    return wait_ms;
}

static void part_close(void *role)
{
    struct housekeep_role_state *part = role;

    housekeep_done(&part->housekeep);
    housekeep_mysql_close(part->mysql);
    loop_done(&part->loop);
    pthread_mutex_destroy(&part->lock);
    free(part);
}

static enum rc part_open(void **role, const struct role_env *env, struct err *err)
{
    struct housekeep_role_state *part = calloc(1, sizeof(*part));
    enum rc rc;

    if (!part)
        return err_fail(err, RC_FATAL, 0, "out of memory");
    housekeep_metrics_register();
    part->settings = env->settings;
    part->late_since_ms = SINGLETON_ON_TIME;
    pthread_mutex_init(&part->lock, NULL);
    rc = loop_init(&part->loop, "housekeep", part_step, part, env->stop, err);
    if (rc == RC_OK)
        rc = housekeep_mysql_open(&part->mysql, env->settings, err);
    if (rc == RC_OK) {
        const struct housekeep_config config = {
            .store = housekeep_mysql_store(part->mysql),
            .owner = env->instance,
            .rules = housekeep_rules_of(env->settings),
            .interval_ms = env->settings->housekeep.interval_ms,
            .lease_ms = HOUSEKEEP_LEASE_MS,
            .rng = os_random_u64,
            .stop = env->stop,
        };

        rc = housekeep_init(&part->housekeep, &config, err);
    }
    if (rc == RC_OK)
        *role = part;
    else
        part_close(part);
    return rc;
}

static enum rc part_start(void *role, struct err *err)
{
    struct housekeep_role_state *part = role;

    return loop_start(&part->loop, err);
}

static void part_health(void *role, struct health *health)
{
    struct housekeep_role_state *part = role;
    int64_t now_ms = os_now_ms();
    int64_t late_ms;
    struct err err;
    bool looked;
    bool failing;

    pthread_mutex_lock(&part->lock);
    looked = part->looked;
    failing = part->failing;
    err = part->err;
    late_ms = part->late_since_ms == SINGLETON_ON_TIME ? 0 : now_ms - part->late_since_ms;
    pthread_mutex_unlock(&part->lock);
    if (failing)
        health_bad(health, "sink database", "%s", err.text);
    else if (!looked)
        health_bad(health, "sink database", "not asked yet");
    else
        health_good(health, "sink database");
    if (late_ms > part->settings->admin.stale_ms)
        health_bad(health, "housekeeping", "due, and at a standstill for %" PRId64 " s",
                   late_ms / 1000);
    else
        health_good(health, "housekeeping");
}

static void part_join(void *role)
{
    struct housekeep_role_state *part = role;

    loop_join(&part->loop);
    housekeep_leave(&part->housekeep);
}

const struct role housekeep_role = {
    .name = "housekeep",
    .about = "Makes the partitions of vote_document for the months to come, drops those of months "
             "that need not be kept, and deletes old rows elsewhere, at every full "
             "housekeep.interval_ms of the database's clock (UTC). Any number may run: one of them "
             "works. With --once it does that a single time, now, and with --dry-run it says what "
             "it would do; `tallybox housekeep --once --help` tells more.",
    .open = part_open,
    .start = part_start,
    .health = part_health,
    .join = part_join,
    .close = part_close,
    .sections = "mysql,sink,housekeep",
};

int housekeep_command(role_gate gate, int argc, char **argv)
{
    const struct role *role = &housekeep_role;

    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--once") == 0 || strcmp(argv[i], "--dry-run") == 0)
            return housekeep_once_command(gate, argc, argv);
    return role_main(role->name, role->about, &role, 1, gate, argc, argv);
}
