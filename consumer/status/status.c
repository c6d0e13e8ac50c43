/* SPDX-License-Identifier: MIT */
#include "consumer/status/status.h"

#include <stdio.h>

int64_t status_lag(const struct status *status, const struct status_partition *partition)
{
    int64_t next = partition->next_offset;

    if (partition->high == STATUS_UNKNOWN || status->progress_fault.rc != RC_OK)
        return STATUS_UNKNOWN;
    if (next < partition->low)
        next = partition->low;
    return partition->high > next ? partition->high - next : 0;
}

static void worsen(enum rc *worst, const struct status_fault *fault)
{
    if (fault->rc == RC_OK || fault->no_schema || *worst == RC_FATAL)
        return;
    *worst = fault->rc == RC_RETRY ? RC_RETRY : RC_FATAL;
}

enum rc status_outcome(const struct status *status)
{
    enum rc worst = RC_OK;

    for (size_t i = 0; i < status->schema_count; i++)
        worsen(&worst, &status->schemas[i].fault);
    worsen(&worst, &status->outbox_fault);
    for (size_t i = 0; i < status->lane_count; i++)
        worsen(&worst, &status->lanes[i].fault);
    worsen(&worst, &status->written_fault);
    worsen(&worst, &status->instances_fault);
    worsen(&worst, &status->retry.fault);
    worsen(&worst, &status->progress_fault);
    worsen(&worst, &status->kafka_fault);
    worsen(&worst, &status->dead_fault);
    worsen(&worst, &status->rollup.fault);
    worsen(&worst, &status->housekeep.fault);
    return worst;
}
