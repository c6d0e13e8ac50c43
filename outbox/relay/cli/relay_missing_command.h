/* SPDX-License-Identifier: MIT */
/* `tallybox relay publish-missing LANE`: publishes the rows of the table of a lane that reads the
 * binary log which never came through the log. Main thread. */
#ifndef OUTBOX_RELAY_CLI_RELAY_MISSING_COMMAND_H
#define OUTBOX_RELAY_CLI_RELAY_MISSING_COMMAND_H

/* argv[0] is "relay". Returns an enum exit_code. */
int relay_missing_command(int argc, char **argv);

#endif
