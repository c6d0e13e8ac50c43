/* SPDX-License-Identifier: MIT */
/* What the consumer counts. Any thread. */
#ifndef CONSUMER_CONSUME_METRICS_H
#define CONSUMER_CONSUME_METRICS_H

#include "common/metrics.h"
#include "consumer/ingest/judge.h"

extern struct metric consume_applied;
extern struct metric consume_duplicates;
extern struct metric consume_stale_votes;
extern struct metric consume_went_back;
extern struct metric consume_dead[JUDGE_CLASS_COUNT];
extern struct metric consume_batch_seconds;
extern struct metric consume_lag;
extern struct metric consume_oldest_age;
extern struct metric consume_partitions;
extern struct metric consume_stopped;
extern struct metric consume_held;
extern struct metric consume_tasks;

/* Registers these and the roll-up's; a second call does nothing. */
void consume_metrics_register(void);

#endif
