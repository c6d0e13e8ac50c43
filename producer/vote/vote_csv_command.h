/* SPDX-License-Identifier: MIT */
/* `tallybox vote --csv`: votes from a file, plain or gzip, in batches. One thread. */
#ifndef PRODUCER_VOTE_VOTE_CSV_COMMAND_H
#define PRODUCER_VOTE_VOTE_CSV_COMMAND_H

#include "common/config/settings.h"

#include <stdbool.h>

/* Imports the file at path; "-" is standard input. Prints a summary on stdout, as JSON if json is
 * set, and returns an enum exit_code. */
int vote_csv_run(const struct settings *settings, const char *path, bool json);

#endif
