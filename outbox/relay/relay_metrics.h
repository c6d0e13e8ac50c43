/* SPDX-License-Identifier: MIT */
/* The relay's metrics of each lane. Any thread. */
#ifndef OUTBOX_RELAY_RELAY_METRICS_H
#define OUTBOX_RELAY_RELAY_METRICS_H

#include "common/metrics.h"

#include <stddef.h>

#define RELAY_LANES_MAX 64

struct relay_metrics {
    struct metric published;
    struct metric deleted;
    struct metric refused;
    struct metric moved;
    struct metric resets;
    struct metric origins_lost;
    struct metric gaps_closed;
    struct metric gaps_found;
    struct metric rows;
    struct metric oldest_age;
    struct metric open_gaps;
    struct metric in_flight;
    struct metric in_window;
    struct metric diverted_keys;
    struct metric lease_held;
    struct metric lease_epoch;
    struct metric send_seconds;
    char labels[80];
};

/* Registers the metrics of one lane, so that generated lists of all metrics contain them. */
void relay_metrics_register(void);

/* Registers and returns the metrics of the lane with this number, below RELAY_LANES_MAX (asserted).
 * They live as long as the process. */
struct relay_metrics *relay_metrics_of(size_t number, const char *lane);

#endif
