/* SPDX-License-Identifier: MIT */
/* `tallybox retry run-now|cancel|unpark|requeue`: counts what is meant, asks, and does it page
 * after page. Main thread. */
#ifndef OUTBOX_RETRY_CLI_RETRY_DECIDE_COMMAND_H
#define OUTBOX_RETRY_CLI_RETRY_DECIDE_COMMAND_H

#include "common/db/db.h"
#include "outbox/retry/cli/retry_request.h"

/* The times of request are filled in. by: who does it. Returns an enum exit_code: EXIT_FAILED when
 * something was left as it was. */
int retry_decide(struct db *db, struct retry_request *request, const char *by);

#endif
