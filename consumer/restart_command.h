/* SPDX-License-Identifier: MIT */
/* `tallybox consume --restart-partition TOPIC/PARTITION@earliest|latest|OFFSET`: a person decides
 * where a partition goes on whose records are not what they were. Main thread. */
#ifndef CONSUMER_RESTART_COMMAND_H
#define CONSUMER_RESTART_COMMAND_H

#include <stdbool.h>

/* Is the option among the arguments? */
bool restart_asked(int argc, char **argv);

/* Sets the partition's place in consumer_progress and fences its owner, who may go on running: its
 * next batch is refused, and it takes the partition up again at the new place. Returns an enum
 * exit_code. */
int restart_command(int argc, char **argv);

#endif
