/* SPDX-License-Identifier: MIT */
#include "outbox/outbox.h"

#include <stdint.h>
#include <stdio.h>

size_t outbox_lane_of(const char *aggregate_id, size_t lane_count)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);

    for (const char *at = aggregate_id; *at; at++)
        hash = (hash ^ (unsigned char)*at) * UINT64_C(0x100000001b3);
    return (size_t)(hash % lane_count);
}

void outbox_lane_name(char name[OUTBOX_LANE_NAME_SIZE], size_t lane)
{
    if (lane == 0)
        snprintf(name, OUTBOX_LANE_NAME_SIZE, "outbox");
    else
        snprintf(name, OUTBOX_LANE_NAME_SIZE, "outbox_%zu", lane);
}
