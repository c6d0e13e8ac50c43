/* SPDX-License-Identifier: MIT */
#include "consumer/maintenance/housekeep_metrics.h"

#include <stddef.h>

struct metric housekeep_made = {.name = "tallybox_housekeep_partitions_made_total",
                                .kind = METRIC_COUNTER,
                                .help = "Partitions of vote_document made ahead."};
struct metric housekeep_dropped = {.name = "tallybox_housekeep_partitions_dropped_total",
                                   .kind = METRIC_COUNTER,
                                   .help = "Partitions of vote_document dropped."};
struct metric housekeep_folded = {.name = "tallybox_housekeep_folded_rows_total",
                                  .kind = METRIC_COUNTER,
                                  .help =
                                      "Rows of vote_document added to vote_base, to be dropped."};

#define DELETED(table)                                                           \
    {                                                                            \
        .name = "tallybox_housekeep_deleted_rows_total", .kind = METRIC_COUNTER, \
        .help = "Old rows deleted.", .labels = "table=\"" table "\""             \
    }
struct metric housekeep_deleted[HOUSEKEEP_KINDS] = {
    [HOUSEKEEP_INSTANCES] = DELETED("instance"),
    [HOUSEKEEP_PROGRESS] = DELETED("consumer_progress"),
    [HOUSEKEEP_DEAD] = DELETED("dead_record"),
    [HOUSEKEEP_HISTORY] = DELETED("dead_history"),
    [HOUSEKEEP_TASKS] = DELETED("retry_task_history"),
    [HOUSEKEEP_ATTEMPTS] = DELETED("retry_attempt"),
};
struct metric housekeep_postponed = {
    .name = "tallybox_housekeep_postponed",
    .kind = METRIC_GAUGE,
    .help = "Changes of partitions that the last round put off; the log says why."};
struct metric housekeep_last_success = {
    .name = "tallybox_housekeep_last_success_timestamp_seconds",
    .kind = METRIC_GAUGE,
    .help = "When the last round was finished, by whomever; 0: never, or not known yet."};
struct metric housekeep_failures = {
    .name = "tallybox_housekeep_failures_total",
    .kind = METRIC_COUNTER,
    .help = "Steps of a round that failed, and were tried again or put off."};

void housekeep_metrics_register(void)
{
    static struct metric *const all[] = {
        &housekeep_made,      &housekeep_dropped,      &housekeep_folded,
        &housekeep_postponed, &housekeep_last_success, &housekeep_failures,
    };

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        metrics_register(all[i]);
    for (size_t i = 0; i < HOUSEKEEP_KINDS; i++)
        metrics_register(&housekeep_deleted[i]);
}
