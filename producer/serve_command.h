/* SPDX-License-Identifier: MIT */
/* `tallybox serve`: the HTTP API, its committers and its readers of totals. */
#ifndef PRODUCER_SERVE_COMMAND_H
#define PRODUCER_SERVE_COMMAND_H

#include "common/role.h"
#include "producer/serve_metrics.h" /* serve_metrics_register(), for `tallybox metrics` */

extern const struct role serve_role;

#endif
