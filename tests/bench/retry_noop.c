/* SPDX-License-Identifier: MIT */
/* `tallybox retry` with one handler, noop, which does nothing: measures the cost of the retry queue
 * itself. retry_noop retry [--config FILE] [--set NAME=VALUE]... as the role of the program */
#include "common/daemon/role.h"
#include "outbox/retry/handler.h"
#include "outbox/retry/retry_command.h"
#include "schema/migrate/migrate_command.h"

static enum rc noop_open(void **handler, const struct retry_handler_env *env, struct err *err)
{
    static int opened;

    (void)env;
    (void)err;
    *handler = &opened;
    return RC_OK;
}

static void noop_run(void *handler, size_t worker, const struct retry_job *job,
                     struct attempt_result *attempt)
{
    (void)handler;
    (void)worker;
    (void)job;
    attempt->end = ATTEMPT_DONE;
}

static void noop_close(void *handler)
{
    (void)handler;
}

static const struct retry_handler noop = {
    .name = "noop",
    .about = "Does nothing.",
    .open = noop_open,
    .run = noop_run,
    .close = noop_close,
};

static const struct retry_handler *const handlers[] = {&noop};

int main(int argc, char **argv)
{
    const struct role *const role = &retry_role;
    const struct retry_handlers noop_alone = {handlers, 1, NULL, NULL};
    const struct role_process process = {role->name,  role->about, &role, 1,   schema_gate,
                                         &noop_alone, NULL,        0,     NULL};

    return role_main(&process, argc - 1, argv + 1);
}
