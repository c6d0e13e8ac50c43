/* SPDX-License-Identifier: MIT */
#include "outbox/retry/retry.h"

#include <string.h>

static const char *const owner_names[RETRY_OWNERS] = {
    [OWNER_CLIENT] = "client",
    [OWNER_RELAY] = "relay",
    [OWNER_CONSUMER] = "consumer",
};

const char *retry_owner_name(enum retry_owner owner)
{
    return (unsigned)owner < RETRY_OWNERS ? owner_names[owner] : "unknown";
}

bool retry_owner_read(const char *name, size_t len, enum retry_owner *owner)
{
    for (unsigned i = 0; i < RETRY_OWNERS; i++) {
        if (strlen(owner_names[i]) == len && memcmp(owner_names[i], name, len) == 0) {
            *owner = (enum retry_owner)i;
            return true;
        }
    }
    return false;
}

const char *task_state_name(enum task_state state)
{
    static const char *const names[TASK_STATES] = {[TASK_WAITING] = "waiting",
                                                   [TASK_RUNNING] = "running",
                                                   [TASK_QUEUED] = "queued",
                                                   [TASK_BLOCKED] = "blocked",
                                                   [TASK_PARKED] = "parked"};

    return (unsigned)state < TASK_STATES ? names[state] : "unknown";
}
