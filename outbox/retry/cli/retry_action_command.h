/* SPDX-License-Identifier: MIT */
/* `tallybox retry ACTION`: looks after the tasks of the retry queue. Without an action `tallybox
 * retry` is the role. Main thread. */
#ifndef OUTBOX_RETRY_CLI_RETRY_ACTION_COMMAND_H
#define OUTBOX_RETRY_CLI_RETRY_ACTION_COMMAND_H

#include <stdbool.h>

struct retry_handlers;

/* Does the command line hold a word that is no option and no option's value, so that it asks for an
 * action? Also when there is no action of that name. argv[0] is "retry". */
bool retry_action_asked(int argc, char **argv);

/* handlers: of the program, as `retry handlers` lists them. Returns an enum exit_code. */
int retry_action_command(const struct retry_handlers *handlers, int argc, char **argv);

#endif
