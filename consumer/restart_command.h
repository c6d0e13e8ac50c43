/* SPDX-License-Identifier: MIT */
/* `tallybox consume --restart-partition TOPIC/PARTITION@earliest|latest|OFFSET`: an operator
 * decides where consuming continues after a partition stopped, because its records are not those
 * that were read before. Main thread. */
#ifndef CONSUMER_RESTART_COMMAND_H
#define CONSUMER_RESTART_COMMAND_H

#include <stdbool.h>

/* Whether the option is among the arguments. */
bool restart_asked(int argc, char **argv);

/* Sets the partition's offset in consumer_progress and fences its owner, which may keep running:
 * its next batch is refused, and it claims the partition again at the new offset. Returns an enum
 * exit_code. */
int restart_command(int argc, char **argv);

#endif
