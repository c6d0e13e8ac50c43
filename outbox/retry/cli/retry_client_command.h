/* SPDX-License-Identifier: MIT */
/* `tallybox retry clients`: lists the clients of each group. Main thread. */
#ifndef OUTBOX_RETRY_CLI_RETRY_CLIENT_COMMAND_H
#define OUTBOX_RETRY_CLI_RETRY_CLIENT_COMMAND_H

#include "common/db/db.h"
#include "outbox/retry/cli/retry_request.h"

/* Returns an enum exit_code. */
int retry_clients(struct db *db, const struct retry_request *request);

#endif
