/* SPDX-License-Identifier: MIT */
/* `tallybox retry ACTION`: the operator's commands for tasks of the retry queue. Finds the action,
 * and runs those that only read: list, show, history, and the tables of the reference. Without an
 * action `tallybox retry` is the role. Main thread. */
#ifndef OUTBOX_RETRY_CLI_RETRY_ACTION_COMMAND_H
#define OUTBOX_RETRY_CLI_RETRY_ACTION_COMMAND_H

#include "common/options.h"

#include <stdbool.h>
#include <stddef.h>

struct retry_handlers;

/* Returns whether the command line contains a word that is neither an option nor the value of an
 * option, so that it names an action, known or not. argv[0] is "retry". */
bool retry_action_asked(int argc, char **argv);

/* The actions and examples of --help, also for the page of the role. */
extern const struct option_action retry_actions[];
extern const size_t retry_action_count;
extern const char retry_examples[];

/* handlers: of the program, as `retry handlers` lists them. Returns an enum exit_code. */
int retry_action_command(const struct retry_handlers *handlers, int argc, char **argv);

#endif
