/* SPDX-License-Identifier: MIT */
/* `tallybox metrics`: what the admin pages of the roles show. Main thread. */
#ifndef COMMON_DAEMON_METRICS_COMMAND_H
#define COMMON_DAEMON_METRICS_COMMAND_H

#include "common/daemon/role.h"

#include <stddef.h>

/* Returns an enum exit_code. */
int metrics_command(const struct role *const *roles, size_t count, int argc, char **argv);

#endif
