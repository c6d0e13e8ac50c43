/* SPDX-License-Identifier: MIT */
/* What the producer counts. Any thread. */
#ifndef PRODUCER_SERVE_METRICS_H
#define PRODUCER_SERVE_METRICS_H

#include "common/metrics.h"

extern struct metric serve_votes_changed;
extern struct metric serve_votes_unchanged;
extern struct metric serve_votes_deleted;
extern struct metric serve_votes_failed;
extern struct metric serve_commit_seconds;
extern struct metric serve_queue_votes;
extern struct metric serve_queue_reads;
extern struct metric serve_pages_kept;
extern struct metric serve_pages_read;
extern struct metric serve_pages_shared;
extern struct metric serve_pages_stale;
extern struct metric serve_removals;
extern struct metric serve_queue_removals;
extern struct metric serve_removal_oldest_age;
extern struct metric serve_page_cache_bytes;
extern struct metric serve_queue_remarks;
extern struct metric serve_recommended_kept;
extern struct metric serve_recommended_stale;
extern struct metric serve_recommended_building;
extern struct metric serve_recommended_refused;
extern struct metric serve_recommended_built;
extern struct metric serve_recommended_failed;
extern struct metric serve_recommended_queries;
extern struct metric serve_recommended_seconds;
extern struct metric serve_recommended_items;
extern struct metric serve_recommended_empty;
extern struct metric serve_recommended_bytes;
extern struct metric serve_recommended_queued;
extern struct metric serve_tasks_made;
extern struct metric serve_tasks_existed;
extern struct metric serve_tasks_refused;
extern struct metric serve_tries_done;
extern struct metric serve_tries_waiting;
extern struct metric serve_tries_exhausted;
extern struct metric serve_tries_not_begun;
extern struct metric serve_tries_unknown;
extern struct metric serve_queue_tries;
extern struct metric serve_queue_tasks;
extern struct metric serve_queue_dead;
extern struct metric serve_failed_reports;
extern struct metric serve_answers_2xx;
extern struct metric serve_answers_4xx;
extern struct metric serve_answers_5xx;

void serve_metrics_register(void);

#endif
