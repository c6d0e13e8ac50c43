/* SPDX-License-Identifier: MIT */
/* The reference of what operators see: `tallybox events` prints the one table of log events (every
 * event of the program, its level, its meaning and what an operator does), and `tallybox metrics`
 * what the admin pages of the roles show. OPERATIONS.md holds a copy of the table, which a test
 * compares; the lint compares the table with the calls of log_event() and log_error(). Main
 * thread. */
#ifndef COMMON_DAEMON_REFERENCE_COMMAND_H
#define COMMON_DAEMON_REFERENCE_COMMAND_H

#include "common/buf.h"
#include "common/daemon/role.h"

#include <stddef.h>

/* Appends the events as a Markdown table. */
void events_put_table(struct buf *out);

/* Both return an enum exit_code. */
int events_command(int argc, char **argv);
int metrics_command(const struct role *const *roles, size_t count, int argc, char **argv);

#endif
