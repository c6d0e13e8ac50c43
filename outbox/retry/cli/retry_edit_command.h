/* SPDX-License-Identifier: MIT */
/* `tallybox retry edit`: replaces the parameters or options of one task that has not ended, such
 * as an outbox row that the broker refused. Main thread. */
#ifndef OUTBOX_RETRY_CLI_RETRY_EDIT_COMMAND_H
#define OUTBOX_RETRY_CLI_RETRY_EDIT_COMMAND_H

#include "common/db/db.h"
#include "outbox/retry/cli/retry_request.h"

/* Returns an enum exit_code. */
int retry_edit(struct db *db, const struct retry_request *request);

#endif
