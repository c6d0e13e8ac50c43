/* SPDX-License-Identifier: MIT */
/* `tallybox serve`: the HTTP API, its committers, readers of totals and clerks of tasks. */
#ifndef PRODUCER_SERVE_COMMAND_H
#define PRODUCER_SERVE_COMMAND_H

#include "common/role.h"
#include "producer/serve_metrics.h" /* serve_metrics_register(), for `tallybox metrics` */

struct retry_handlers;

/* The handlers that tasks may name; before the role is opened, and for its life. */
void serve_take_handlers(const struct retry_handlers *handlers);

extern const struct role serve_role;

#endif
