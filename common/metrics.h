/* SPDX-License-Identifier: MIT */
/* Prometheus metrics: static structs with atomic values, registered once at start, written by any
 * thread, rendered as text by the admin server. The same tables make the table of
 * docs/metrics.md. */
#ifndef COMMON_METRICS_H
#define COMMON_METRICS_H

#include "common/buf.h"

#include <stdatomic.h>
#include <stdint.h>

enum metric_kind { METRIC_COUNTER, METRIC_GAUGE, METRIC_SECONDS };

#define METRIC_BUCKETS 16

/* name: tallybox_<component>_<what>_<unit>, `_total` for counters. labels: `lane="outbox"` or NULL;
 * several metrics of one name with different labels are registered one after the other.
 * A METRIC_SECONDS is a histogram in seconds, 0.5 ms to 16 s in powers of two, fed in us. */
struct metric {
    const char *name;
    enum metric_kind kind;
    const char *help;
    const char *labels;
    atomic_llong value;                        /* counter, gauge; sum of a histogram in us */
    atomic_ullong buckets[METRIC_BUCKETS + 1]; /* the last one is +Inf */
    struct metric *next;
};

/* Adds a metric to the process' list. The struct (and its labels) must live as long as the
 * process; registering twice does nothing. Before threads start, or at the open of a part. */
void metrics_register(struct metric *metric);

void metric_add(struct metric *metric, int64_t count);
void metric_set(struct metric *metric, int64_t value);
int64_t metric_value(const struct metric *metric);
void metric_observe_us(struct metric *metric, int64_t us);

/* The exposition format 0.0.4 of everything registered, grouped by name; and the same list as a
 * Markdown table (name, kind, what it counts). A gauge whose name ends in _seconds and a counter
 * whose name ends in _seconds_total hold milliseconds and are rendered in seconds. */
void metrics_render(struct buf *out);
void metrics_render_table(struct buf *out);

#endif
