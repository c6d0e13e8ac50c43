/* SPDX-License-Identifier: MIT */
/* `tallybox metrics`: what the admin pages of the roles show. */
#ifndef COMMON_DAEMON_METRICS_COMMAND_H
#define COMMON_DAEMON_METRICS_COMMAND_H

#include <stddef.h>

/* Registers the metrics of a part of the program. */
typedef void (*metrics_registrar)(void);

int metrics_command(const metrics_registrar *registrars, size_t count, int argc, char **argv);

#endif
