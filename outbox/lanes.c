/* SPDX-License-Identifier: MIT */
#include "outbox/lanes.h"

#include "common/hash.h"

#include <inttypes.h>
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

enum rc lanes_check(const struct lanes *lanes, int64_t lane_count, struct err *err)
{
    if (lanes->next != 0)
        return err_fail(
            err, RC_RETRY, LANES_CHANGE,
            "`tallybox lanes set %" PRId64 "` is changing the number of lanes from %" PRId64
            ": no votes are accepted until it has finished; if that command was stopped, run it "
            "again, or `tallybox lanes set %" PRId64 "` to undo it",
            lanes->next, lanes->count, lanes->count);
    if (lanes->count != lane_count)
        return err_fail(err, RC_REJECT, LANES_OTHER_COUNT,
                        "api.lane_count = %" PRId64 ", but the database has %" PRId64
                        " (table outbox_lanes): set it to %" PRId64
                        ", or run `tallybox lanes set %" PRId64 "`",
                        lane_count, lanes->count, lanes->count, lane_count);
    return RC_OK;
}

enum rc lanes_check_start(const struct lanes *lanes, int64_t lane_count, struct err *err)
{
    const struct lanes settled = {.count = lanes->count};

    return lanes->next == lane_count ? RC_OK : lanes_check(&settled, lane_count, err);
}
