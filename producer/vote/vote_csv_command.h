/* SPDX-License-Identifier: MIT */
/* `tallybox vote --csv`: votes from a file, plain or gzip, in batches. One thread. */
#ifndef PRODUCER_VOTE_VOTE_CSV_COMMAND_H
#define PRODUCER_VOTE_VOTE_CSV_COMMAND_H

#include "common/config/settings.h"

#include <stdbool.h>

/* path "-": standard input. Returns an enum exit_code, after a summary on stdout, as JSON if
 * asked to. */
int vote_csv_run(const struct settings *settings, const char *path, bool json);

#endif
