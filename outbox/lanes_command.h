/* SPDX-License-Identifier: MIT */
/* `tallybox lanes`: shows and changes the number of lanes. Main thread. */
#ifndef OUTBOX_LANES_COMMAND_H
#define OUTBOX_LANES_COMMAND_H

int lanes_command(int argc, char **argv);

#endif
