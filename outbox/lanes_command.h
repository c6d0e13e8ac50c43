/* SPDX-License-Identifier: MIT */
/* `tallybox lanes`: shows and changes the number of lanes. */
#ifndef OUTBOX_LANES_COMMAND_H
#define OUTBOX_LANES_COMMAND_H

/* Runs the command and returns its exit code. Main thread; installs handlers for SIGINT and
 * SIGTERM. */
int lanes_command(int argc, char **argv);

#endif
