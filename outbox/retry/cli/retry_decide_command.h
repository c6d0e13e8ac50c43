/* SPDX-License-Identifier: MIT */
/* `tallybox retry run-now|cancel|unpark|requeue`: counts the selected tasks, asks for
 * confirmation, and acts on them page by page. Main thread. */
#ifndef OUTBOX_RETRY_CLI_RETRY_DECIDE_COMMAND_H
#define OUTBOX_RETRY_CLI_RETRY_DECIDE_COMMAND_H

#include "common/db/db.h"
#include "outbox/retry/cli/retry_request.h"

/* The times of request are filled in. by: the operator's name. Returns an enum exit_code:
 * EXIT_FAILED when a task was left unchanged. */
int retry_decide(struct db *db, struct retry_request *request, const char *by);

#endif
