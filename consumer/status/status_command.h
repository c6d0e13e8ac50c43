/* SPDX-License-Identifier: MIT */
/* `tallybox status`: the state of each stage and the instance that works on it. */
#ifndef CONSUMER_STATUS_STATUS_COMMAND_H
#define CONSUMER_STATUS_STATUS_COMMAND_H

#include "consumer/status/status_mysql.h"

/* Returns an enum exit_code: EXIT_UNAVAILABLE if a server could not be reached. */
int status_command(status_compare compare, int argc, char **argv);

#endif
