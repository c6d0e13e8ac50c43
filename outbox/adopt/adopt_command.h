/* SPDX-License-Identifier: MIT */
/* `tallybox adopt`: a lane takes the place of a Debezium connector with the outbox event router, or
 * gives it back. */
#ifndef OUTBOX_ADOPT_ADOPT_COMMAND_H
#define OUTBOX_ADOPT_ADOPT_COMMAND_H

/* Runs the command and returns its exit code. Main thread. */
int adopt_command(int argc, char **argv);

#endif
