/* SPDX-License-Identifier: MIT */
/* What housekeeping tells Prometheus. Any thread. */
#ifndef CONSUMER_MAINTENANCE_HOUSEKEEP_METRICS_H
#define CONSUMER_MAINTENANCE_HOUSEKEEP_METRICS_H

#include "common/metrics.h"
#include "consumer/maintenance/housekeep.h"

extern struct metric housekeep_made;
extern struct metric housekeep_dropped;
extern struct metric housekeep_folded;
extern struct metric housekeep_deleted[HOUSEKEEP_KINDS];
extern struct metric housekeep_postponed;
extern struct metric housekeep_last_success;
extern struct metric housekeep_failures;

void housekeep_metrics_register(void);

#endif
