/* SPDX-License-Identifier: MIT */
/* `tallybox relay ACTION`: the operator's commands for lanes, beside the role. Finds the action and
 * runs it. Each action has a table of options and a page of --help of its own. Without an action
 * `tallybox relay` is the role. Main thread. */
#ifndef OUTBOX_RELAY_CLI_RELAY_ACTION_COMMAND_H
#define OUTBOX_RELAY_CLI_RELAY_ACTION_COMMAND_H

#include "common/options.h"

#include <stdbool.h>
#include <stddef.h>

/* Returns whether the command line contains a word that is neither an option nor the value of an
 * option of every command, so that it names an action, known or not. argv[0] is "relay". */
bool relay_action_asked(int argc, char **argv);

/* The actions, for the page of the role. */
extern const struct option_action relay_actions[];
extern const size_t relay_action_count;

/* Runs the action that the command line names; it gets the arguments without that word. argv[0] is
 * "relay". Returns an enum exit_code. */
int relay_action_command(int argc, char **argv);

#endif
