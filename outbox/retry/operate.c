/* SPDX-License-Identifier: MIT */
#include "outbox/retry/operate.h"

const char *retry_operation_name(enum retry_operation_kind kind)
{
    static const char *const names[] = {
        [OPERATION_RUN_NOW] = "run-now", [OPERATION_CANCEL] = "cancel",
        [OPERATION_UNPARK] = "unpark",   [OPERATION_REQUEUE] = "requeue",
        [OPERATION_EDIT] = "edit",
    };

    return names[kind];
}
