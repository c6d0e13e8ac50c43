/* SPDX-License-Identifier: MIT */
/* `tallybox vote`: votes without HTTP, through the same engine: one vote, or those of a CSV file in
 * batches. Main thread. */
#ifndef PRODUCER_VOTE_VOTE_COMMAND_H
#define PRODUCER_VOTE_VOTE_COMMAND_H

#include "common/config/settings.h"

#include <stdbool.h>

/* Returns an enum exit_code. */
int vote_command(int argc, char **argv);

/* Imports the file at path, plain or gzip; "-" is standard input. Prints a summary on stdout, as
 * JSON if json is set, and returns an enum exit_code. */
int vote_import(const struct settings *settings, const char *path, bool json);

#endif
