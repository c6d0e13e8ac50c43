/* SPDX-License-Identifier: MIT */
/* `tallybox retry edit`: replaces headers, parameters or options of one task that has not ended;
 * `tallybox retry requeue ID` with the same options makes a corrected task of one that has. Main
 * thread. */
#ifndef OUTBOX_RETRY_CLI_RETRY_EDIT_COMMAND_H
#define OUTBOX_RETRY_CLI_RETRY_EDIT_COMMAND_H

#include "common/db/db.h"
#include "outbox/retry/cli/retry_request.h"

struct retry_handlers;

/* handlers: they check what the task would be. by: the operator's name. Returns an enum
 * exit_code. */
int retry_edit(struct db *db, const struct retry_handlers *handlers, struct retry_request *request,
               const char *by);

#endif
