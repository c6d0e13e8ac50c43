/* SPDX-License-Identifier: MIT */
#include "outbox/retry/operate.h"

#include "outbox/retry/change.h"

const char *retry_operation_name(enum retry_operation_kind kind)
{
    static const char *const names[] = {
        [OPERATION_RUN_NOW] = "run-now", [OPERATION_CANCEL] = "cancel",
        [OPERATION_UNPARK] = "unpark",   [OPERATION_REQUEUE] = "requeue",
        [OPERATION_EDIT] = "edit",
    };

    return names[kind];
}

const char *retry_change_name(enum retry_change_kind kind)
{
    static const char *const names[] = {
        [CHANGE_SCENE_PAUSE] = "pause",         [CHANGE_SCENE_RESUME] = "resume",
        [CHANGE_SCENE_SET] = "scene set",       [CHANGE_GROUP_SET] = "group set",
        [CHANGE_GROUP_ENABLE] = "group enable", [CHANGE_GROUP_DISABLE] = "group disable",
    };

    return names[kind];
}
