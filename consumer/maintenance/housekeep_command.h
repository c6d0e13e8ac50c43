/* SPDX-License-Identifier: MIT */
/* `tallybox housekeep`: the role that makes and drops partitions and deletes old rows, and its
 * options --once and --dry-run. Main thread. */
#ifndef CONSUMER_MAINTENANCE_HOUSEKEEP_COMMAND_H
#define CONSUMER_MAINTENANCE_HOUSEKEEP_COMMAND_H

#include "common/daemon/role.h"
#include "consumer/consumer_metrics.h"

extern const struct role housekeep_role;

/* Runs the role or, with --once or --dry-run, one round. gate: called before the role starts, see
 * role_gate. Returns an enum exit_code. */
int housekeep_command(role_gate gate, int argc, char **argv);

#endif
