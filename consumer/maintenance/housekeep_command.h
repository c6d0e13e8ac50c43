/* SPDX-License-Identifier: MIT */
/* `tallybox housekeep`: partitions ahead and behind, and old rows; --once and --dry-run. Main
 * thread. */
#ifndef CONSUMER_MAINTENANCE_HOUSEKEEP_COMMAND_H
#define CONSUMER_MAINTENANCE_HOUSEKEEP_COMMAND_H

#include "common/daemon/role.h"
#include "consumer/consumer_metrics.h"

extern const struct role housekeep_role;

/* The daemon, or with --once or --dry-run one round. */
int housekeep_command(role_gate gate, int argc, char **argv);

#endif
