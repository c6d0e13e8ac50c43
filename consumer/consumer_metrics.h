/* SPDX-License-Identifier: MIT */
/* The metrics of the roles consume, rollup and housekeep. Any thread may write them. */
#ifndef CONSUMER_CONSUMER_METRICS_H
#define CONSUMER_CONSUMER_METRICS_H

#include "common/metrics.h"
#include "consumer/ingest/record.h"
#include "consumer/maintenance/old_rows.h"

extern struct metric consume_applied;
extern struct metric consume_duplicates;
extern struct metric consume_stale_votes;
extern struct metric consume_ended_tallies;
extern struct metric consume_went_back;
extern struct metric consume_dead[RECORD_CLASS_COUNT];
extern struct metric consume_batch_seconds;
extern struct metric consume_lag;
extern struct metric consume_oldest_age; /* ms; rendered in seconds (common/metrics.h) */
extern struct metric consume_partitions;
extern struct metric consume_stopped;
extern struct metric consume_assigned; /* three events of one metric */
extern struct metric consume_revoked;
extern struct metric consume_lost;
extern struct metric consume_rebalance_pause;
extern struct metric consume_held;
extern struct metric consume_tasks;

extern struct metric rollup_contents;
extern struct metric rollup_remarks_changed;
extern struct metric rollup_seconds;
/* ms since 1970 by the clock of the database; rendered in seconds */
extern struct metric rollup_last_success;
extern struct metric rollup_failures;

extern struct metric housekeep_made;
extern struct metric housekeep_dropped;
extern struct metric housekeep_folded;
extern struct metric housekeep_deleted[HOUSEKEEP_KINDS];
extern struct metric housekeep_postponed;
extern struct metric housekeep_last_success; /* as rollup_last_success */
extern struct metric housekeep_failures;

/* Each registers the metrics of one role. Invariant: a process exports only metrics that its roles
 * set, because a time of 0 that no role sets looks like work that was never done (alert
 * TallyboxRollupLate; test_consumer_metrics). A second call has no effect. */
void consume_metrics_register(void);
void rollup_metrics_register(void);
void housekeep_metrics_register(void);

#endif
