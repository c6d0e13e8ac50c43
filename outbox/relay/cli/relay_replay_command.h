/* SPDX-License-Identifier: MIT */
/* `tallybox relay replay`: publishes rows again that a lane keeps. Main thread. */
#ifndef OUTBOX_RELAY_CLI_RELAY_REPLAY_COMMAND_H
#define OUTBOX_RELAY_CLI_RELAY_REPLAY_COMMAND_H

/* argv[0] is "relay", and the word "replay" is left out. Returns an enum exit_code. */
int relay_replay_command(int argc, char **argv);

#endif
