/* SPDX-License-Identifier: MIT */
/* The metrics of the roll-up. Any thread may write them. */
#ifndef CONSUMER_ROLLUP_ROLLUP_METRICS_H
#define CONSUMER_ROLLUP_ROLLUP_METRICS_H

#include "common/metrics.h"

extern struct metric rollup_contents;
extern struct metric rollup_remarks_changed;
extern struct metric rollup_seconds;
extern struct metric rollup_last_success; /* ms since 1970, by the database's clock */
extern struct metric rollup_failures;

void rollup_metrics_register(void);

#endif
