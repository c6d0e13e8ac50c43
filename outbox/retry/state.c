/* SPDX-License-Identifier: MIT */
#include "outbox/retry/retry.h"

const char *task_state_name(enum task_state state)
{
    static const char *const names[TASK_STATES] = {[TASK_WAITING] = "waiting",
                                                   [TASK_RUNNING] = "running",
                                                   [TASK_QUEUED] = "queued",
                                                   [TASK_BLOCKED] = "blocked",
                                                   [TASK_PARKED] = "parked"};

    return (unsigned)state < TASK_STATES ? names[state] : "unknown";
}
