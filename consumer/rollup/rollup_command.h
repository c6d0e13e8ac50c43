/* SPDX-License-Identifier: MIT */
/* `tallybox rollup`: the role that copies totals to remark.votes once an interval, and --once,
 * which does it now and prints a summary. */
#ifndef CONSUMER_ROLLUP_ROLLUP_COMMAND_H
#define CONSUMER_ROLLUP_ROLLUP_COMMAND_H

#include "common/daemon/role.h"
#include "consumer/consumer_metrics.h"

extern const struct role rollup_role;

/* gate: called before the role starts, see role_gate. Returns an enum exit_code. */
int rollup_command(role_gate gate, int argc, char **argv);

#endif
