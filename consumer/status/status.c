/* SPDX-License-Identifier: MIT */
#include "consumer/status/status.h"

#include <stdio.h>
#include <string.h>

static void worsen_rc(enum rc *worst, const struct status_fault *fault)
{
    if (fault->rc == RC_OK || fault->no_schema || *worst == RC_FATAL)
        return;
    *worst = fault->rc == RC_RETRY ? RC_RETRY : RC_FATAL;
}

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

int64_t status_lag(const struct status *status, const struct status_partition *partition)
{
    int64_t next = partition->next_offset;

    if (partition->high == STATUS_UNKNOWN || status->progress_fault.rc != RC_OK)
        return STATUS_UNKNOWN;
    if (next < partition->low)
        next = partition->low;
    return partition->high > next ? partition->high - next : 0;
}

enum rc status_outcome(const struct status *status)
{
    enum rc worst = RC_OK;

    for (size_t i = 0; i < status->schema_count; i++)
        worsen_rc(&worst, &status->schemas[i].fault);
    worsen_rc(&worst, &status->outbox_fault);
    for (size_t i = 0; i < status->lane_count; i++)
        worsen_rc(&worst, &status->lanes[i].fault);
    worsen_rc(&worst, &status->written_fault);
    worsen_rc(&worst, &status->instances_fault);
    worsen_rc(&worst, &status->retry.fault);
    worsen_rc(&worst, &status->progress_fault);
    worsen_rc(&worst, &status->kafka_fault);
    worsen_rc(&worst, &status->dead_fault);
    worsen_rc(&worst, &status->rollup.fault);
    worsen_rc(&worst, &status->housekeep.fault);
    return worst;
}
