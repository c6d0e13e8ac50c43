/* SPDX-License-Identifier: MIT */
/* `tallybox housekeep --once` and `--dry-run`: one round now, or what it would do. Main thread. */
#ifndef CONSUMER_MAINTENANCE_HOUSEKEEP_ONCE_COMMAND_H
#define CONSUMER_MAINTENANCE_HOUSEKEEP_ONCE_COMMAND_H

#include "common/config/settings.h"
#include "common/daemon/role.h"
#include "consumer/maintenance/housekeep.h"

struct housekeep_rules housekeep_rules_of(const struct settings *settings);

/* Returns an enum exit_code. */
int housekeep_once_command(role_gate gate, int argc, char **argv);

#endif
