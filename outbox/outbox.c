/* SPDX-License-Identifier: MIT */
#include "outbox/outbox.h"

#include "common/hash.h"

#include <stdio.h>
#include <string.h>

size_t outbox_lane_of(const char *aggregate_id, size_t lane_count)
{
    return (size_t)(hash_fnv1a(HASH_START, aggregate_id, strlen(aggregate_id)) % lane_count);
}

void outbox_lane_name(char name[OUTBOX_LANE_NAME_SIZE], size_t lane)
{
    if (lane == 0)
        snprintf(name, OUTBOX_LANE_NAME_SIZE, "outbox");
    else
        snprintf(name, OUTBOX_LANE_NAME_SIZE, "outbox_%zu", lane);
}

enum rc outbox_check_header(const char *name, struct err *err)
{
    static const char *const own_names[] = {"id", "seq", "lane", "ce_id", "ce_specversion"};

    if (name[0] == '\0')
        return err_fail(err, RC_REJECT, 0, "headers: a name is empty");
    for (size_t i = 0; i < sizeof(own_names) / sizeof(own_names[0]); i++) {
        if (strcmp(name, own_names[i]) == 0)
            return err_fail(err, RC_REJECT, 0, "headers: \"%s\" is reserved for the relay", name);
    }
    return RC_OK;
}
