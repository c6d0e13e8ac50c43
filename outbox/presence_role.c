/* SPDX-License-Identifier: MIT */
#include "outbox/presence_role.h"

#include "common/condition.h"
#include "common/loop.h"
#include "outbox/presence_mysql.h"

#include <stdlib.h>

/* A reader counts an instance as dead after relay.lease_ms of the settings of this process, which
 * its heartbeat records. */
#define BEATS_PER_LEASE 3

struct presence {
    const struct role_env *env;
    struct presence_mysql mysql;
    struct loop loop;
    struct condition recorded;
    bool beaten; /* the last heartbeat was written */
    bool lost;   /* it was not */
};

/* The roles themselves report an unavailable server. */
static int64_t presence_step(void *ctx, int64_t now_ms)
{
    struct presence *presence = ctx;
    struct err err = {0};
    enum rc rc = presence_mysql_beat(&presence->mysql, presence->env, &err);

    presence->beaten = rc == RC_OK;
    presence->lost = rc != RC_OK;
    if (rc == RC_OK)
        condition_ok(&presence->recorded, now_ms);
    else if (rc != RC_RETRY)
        condition_fail(&presence->recorded, now_ms, &err);
    return presence->env->settings->relay.lease_ms / BEATS_PER_LEASE;
}

static void presence_close(void *role)
{
    struct presence *presence = role;

    db_close(presence->mysql.db);
    buf_done(&presence->mysql.sql);
    loop_done(&presence->loop);
    condition_done(&presence->recorded);
    free(presence);
}

static enum rc presence_open(void **role, const struct role_env *env, struct err *err)
{
    struct presence *presence = calloc(1, sizeof(*presence));
    enum rc rc;

    if (!presence)
        return err_fail(err, RC_FATAL, 0, "no memory for the heartbeat");
    presence->env = env;
    rc = loop_init(&presence->loop, "presence", presence_step, presence, env->stop, err);
    if (rc != RC_OK) {
        free(presence);
        return rc;
    }
    condition_init(&presence->recorded, CONDITION_CHECK, "check=instance role=%s",
                   env->parts[0].role->name);
    rc = db_open(&presence->mysql.db, &env->settings->mysql, err);
    if (rc == RC_OK)
        *role = presence;
    else
        presence_close(presence);
    return rc;
}

static enum rc presence_start(void *role, struct err *err)
{
    struct presence *presence = role;

    return loop_start(&presence->loop, err);
}

/* The row of a process that cannot reach the database, or whose role failed, stays, and `tallybox
 * status` shows it as dead. A role may fail before the first heartbeat. */
static void presence_join(void *role)
{
    struct presence *presence = role;

    loop_join(&presence->loop);
    if (!presence->lost && atomic_load(&presence->env->stop->failed))
        (void)presence_mysql_fail(&presence->mysql, presence->env, NULL);
    else if (presence->beaten)
        (void)presence_mysql_remove(&presence->mysql, presence->env, NULL);
}

const struct role presence_role = {
    .name = "presence",
    .about = "Records the roles of the process for `tallybox status`.",
    .open = presence_open,
    .start = presence_start,
    .join = presence_join,
    .close = presence_close,
};
