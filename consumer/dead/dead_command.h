/* SPDX-License-Identifier: MIT */
/* `tallybox dead list|show|replay|drop`: shows, replays and drops the records that could not be
 * applied. Main thread. */
#ifndef CONSUMER_DEAD_DEAD_COMMAND_H
#define CONSUMER_DEAD_DEAD_COMMAND_H

/* Returns an enum exit_code. */
int dead_command(int argc, char **argv);

#endif
