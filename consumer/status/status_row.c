/* SPDX-License-Identifier: MIT */
#include "consumer/status/status_row.h"

#include <stdio.h>
#include <string.h>

struct status_partition *status_partition_at(struct status *status, const char *topic,
                                             int32_t partition)
{
    struct status_partition *one = status->partitions;

    for (size_t i = 0; i < status->partition_count; i++, one++)
        if (one->partition == partition && strcmp(one->topic, topic) == 0)
            return one;
    if (status->partition_count == STATUS_PARTITIONS_MAX)
        return NULL;
    status->partition_count++;
    *one = (struct status_partition){
        .partition = partition,
        .next_offset = STATUS_UNKNOWN,
        .low = STATUS_UNKNOWN,
        .high = STATUS_UNKNOWN,
        .updated_ms = STATUS_UNKNOWN,
    };
    snprintf(one->topic, sizeof(one->topic), "%s", topic);
    return one;
}

void status_fail(struct status_fault *fault, enum rc rc, const struct err *err)
{
    if (fault->rc != RC_OK)
        return;
    fault->rc = rc;
    fault->err = *err;
}
