/* SPDX-License-Identifier: MIT */
#include "consumer/rollup/rollup_metrics.h"

#include <stddef.h>

struct metric rollup_contents = {.name = "tallybox_rollup_contents_total",
                                 .kind = METRIC_COUNTER,
                                 .help = "Contents that roll-ups looked at."};
struct metric rollup_remarks_changed = {.name = "tallybox_rollup_remarks_changed_total",
                                        .kind = METRIC_COUNTER,
                                        .help = "Remarks that got a newer total."};
struct metric rollup_seconds = {.name = "tallybox_rollup_seconds",
                                .kind = METRIC_SECONDS,
                                .help = "Time of each roll-up that was finished."};
struct metric rollup_last_success = {
    .name = "tallybox_rollup_last_success_timestamp_seconds",
    .kind = METRIC_GAUGE,
    .help = "When the last roll-up was finished, by whomever; 0: never, or not known yet."};
struct metric rollup_failures = {
    .name = "tallybox_rollup_failures_total",
    .kind = METRIC_COUNTER,
    .help = "Steps of a roll-up that failed and were tried again, and rows that were refused."};

void rollup_metrics_register(void)
{
    static struct metric *const all[] = {&rollup_contents, &rollup_remarks_changed, &rollup_seconds,
                                         &rollup_last_success, &rollup_failures};

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        metrics_register(all[i]);
}
