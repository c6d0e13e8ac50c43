/* SPDX-License-Identifier: MIT */
/* `tallybox retry ACTION`: looks after the tasks of the retry queue. Without an action `tallybox
 * retry` is the role. Main thread. */
#ifndef OUTBOX_RETRY_CLI_RETRY_ACTION_COMMAND_H
#define OUTBOX_RETRY_CLI_RETRY_ACTION_COMMAND_H

#include <stdbool.h>

/* Does the command line hold a word that is no option and no option's value, so that it asks for an
 * action? Also when there is no action of that name. argv[0] is "retry". */
bool retry_action_asked(int argc, char **argv);

/* Returns an enum exit_code. */
int retry_action_command(int argc, char **argv);

#endif
