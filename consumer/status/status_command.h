/* SPDX-License-Identifier: MIT */
/* `tallybox status`: how far every stage is, and who works on it. */
#ifndef CONSUMER_STATUS_STATUS_COMMAND_H
#define CONSUMER_STATUS_STATUS_COMMAND_H

/* Returns an enum exit_code: EXIT_UNAVAILABLE when a server was away. */
int status_command(int argc, char **argv);

#endif
