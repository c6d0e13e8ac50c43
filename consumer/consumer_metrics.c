/* SPDX-License-Identifier: MIT */
#include "consumer/consumer_metrics.h"

#include <stddef.h>

struct metric consume_applied = {.name = "tallybox_consumer_applied_total",
                                 .kind = METRIC_COUNTER,
                                 .help = "Votes written into the log."};
struct metric consume_duplicates = {.name = "tallybox_consumer_duplicates_total",
                                    .kind = METRIC_COUNTER,
                                    .help = "Votes that were skipped because the log had them."};
struct metric consume_stale_votes = {.name = "tallybox_consumer_stale_votes_total",
                                     .kind = METRIC_COUNTER,
                                     .help = "Stale votes, which repeat their voter's last vote, "
                                             "are older than it, or come after the tombstone of "
                                             "their content, and change nothing."};
struct metric consume_ended_tallies = {
    .name = "tallybox_consumer_ended_tallies_total",
    .kind = METRIC_COUNTER,
    .help = "Tallies that a tombstone ended: later votes on these contents are stale."};
#define DEAD(class)                                                             \
    {                                                                           \
        .name = "tallybox_consumer_dead_total", .kind = METRIC_COUNTER,         \
        .help = "Records stored in dead_record, by the class of their reason.", \
        .labels = "reason_class=\"" class "\""                                  \
    }
/* Invariant: the order of record_classes (ingest/record.c). */
struct metric consume_dead[RECORD_CLASS_COUNT] = {
    DEAD("decode"),  DEAD("rule"),    DEAD("key"),   DEAD("tombstone"),
    DEAD("too_old"), DEAD("refused"), DEAD("behind")};
struct metric consume_batch_seconds = {
    .name = "tallybox_consumer_batch_seconds",
    .kind = METRIC_SECONDS,
    .help = "Time of one transaction of a batch, or of batches of several partitions."};
struct metric consume_went_back = {
    .name = "tallybox_consumer_went_back_total",
    .kind = METRIC_COUNTER,
    .help = "Times that the progress of a partition went back: the database lost commits."};
struct metric consume_lag = {.name = "tallybox_consumer_lag_records",
                             .kind = METRIC_GAUGE,
                             .help = "Records of this process's partitions that are not applied."};
struct metric consume_oldest_age = {
    .name = "tallybox_consumer_oldest_age_seconds",
    .kind = METRIC_GAUGE,
    .help = "Age of the oldest record that was fetched and is not applied; 0 when there is none."};
struct metric consume_partitions = {.name = "tallybox_consumer_partitions",
                                    .kind = METRIC_GAUGE,
                                    .help = "Partitions that this process holds."};
struct metric consume_stopped = {.name = "tallybox_consumer_stopped_partitions",
                                 .kind = METRIC_GAUGE,
                                 .help = "Partitions of this process that are stopped until an "
                                         "operator acts; the log and /readyz tell why."};
#define REBALANCES(event)                                                                         \
    {                                                                                             \
        .name = "tallybox_consumer_rebalances_total", .kind = METRIC_COUNTER,                     \
        .help = "Events of the consumer group for this process: partitions were assigned, "       \
                "revoked, or lost with its session. A rebalance has one or more, also without a " \
                "partition.",                                                                     \
        .labels = "event=\"" event "\""                                                           \
    }
struct metric consume_assigned = REBALANCES("assigned");
struct metric consume_revoked = REBALANCES("revoked");
struct metric consume_lost = REBALANCES("lost");
struct metric consume_rebalance_pause = {
    .name = "tallybox_consumer_rebalance_pause_seconds",
    .kind = METRIC_SECONDS,
    .help = "How long a rebalance paused a partition of this process: from its revocation, or from "
            "its assignment if another process had it, until its records are read."};
struct metric consume_held = {.name = "tallybox_consumer_held_contents",
                              .kind = METRIC_GAUGE,
                              .help = "Contents of the group that are held because the database "
                                      "refused a vote, at the last search."};
struct metric consume_tasks = {.name = "tallybox_consumer_tasks_total",
                               .kind = METRIC_COUNTER,
                               .help = "Tasks submitted to the retry queue for held contents."};

void consume_metrics_register(void)
{
    static struct metric *const all[] = {
        &consume_applied,       &consume_stale_votes,
        &consume_ended_tallies, &consume_duplicates,
        &consume_batch_seconds, &consume_held,
        &consume_lag,           &consume_oldest_age,
        &consume_partitions,    &consume_stopped,
        &consume_tasks,         &consume_went_back,
        &consume_assigned,      &consume_revoked,
        &consume_lost,          &consume_rebalance_pause,
    };

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        metrics_register(all[i]);
    for (size_t i = 0; i < RECORD_CLASS_COUNT; i++)
        metrics_register(&consume_dead[i]);
}

struct metric rollup_contents = {.name = "tallybox_rollup_contents_total",
                                 .kind = METRIC_COUNTER,
                                 .help = "Contents that roll-ups read."};
struct metric rollup_remarks_changed = {.name = "tallybox_rollup_remarks_changed_total",
                                        .kind = METRIC_COUNTER,
                                        .help = "Remarks that got a newer total."};
struct metric rollup_seconds = {.name = "tallybox_rollup_seconds",
                                .kind = METRIC_SECONDS,
                                .help = "Time of each roll-up that was finished."};
struct metric rollup_last_success = {
    .name = "tallybox_rollup_last_success_timestamp_seconds",
    .kind = METRIC_GAUGE,
    .help = "When the last roll-up was finished, by any process; 0: never, or not known yet."};
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
#define MARKED(table)                                                              \
    {                                                                              \
        .name = "tallybox_housekeep_marked_rows_total", .kind = METRIC_COUNTER,    \
        .help = "Rows of deleted contents marked for the removal of their votes.", \
        .labels = "table=\"" table "\""                                            \
    }
struct metric housekeep_deleted[HOUSEKEEP_KINDS] = {
    [HOUSEKEEP_INSTANCES] = DELETED("instance"),
    [HOUSEKEEP_PROGRESS] = DELETED("consumer_progress"),
    [HOUSEKEEP_DEAD] = DELETED("dead_record"),
    [HOUSEKEEP_HISTORY] = DELETED("dead_history"),
    [HOUSEKEEP_TASKS] = DELETED("retry_task_history"),
    [HOUSEKEEP_ATTEMPTS] = DELETED("retry_attempt"),
    [HOUSEKEEP_AUDIT] = DELETED("retry_audit"),
    [HOUSEKEEP_CHANGES] = DELETED("recommended_change"),
    [HOUSEKEEP_EXPIRED_REMARKS] = MARKED("remark"),
    [HOUSEKEEP_EXPIRED_CONTENTS] = MARKED("deleted_content"),
};
struct metric housekeep_postponed = {
    .name = "tallybox_housekeep_postponed",
    .kind = METRIC_GAUGE,
    .help = "Changes of partitions that the last round postponed; the log tells why."};
struct metric housekeep_last_success = {
    .name = "tallybox_housekeep_last_success_timestamp_seconds",
    .kind = METRIC_GAUGE,
    .help = "When the last round was finished, by any process; 0: never, or not known yet."};
struct metric housekeep_failures = {
    .name = "tallybox_housekeep_failures_total",
    .kind = METRIC_COUNTER,
    .help = "Steps of a round that failed, and were tried again or postponed."};

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
