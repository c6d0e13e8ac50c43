/* SPDX-License-Identifier: MIT */
/* `tallybox retry list|show|history`: prints active and ended tasks. Main thread. */
#ifndef OUTBOX_RETRY_CLI_RETRY_LIST_COMMAND_H
#define OUTBOX_RETRY_CLI_RETRY_LIST_COMMAND_H

#include "common/db/db.h"
#include "outbox/retry/cli/retry_request.h"

#include <stdint.h>

/* The times of request are filled in. now_ms: the database's clock. Return an enum exit_code. */
int retry_list(struct db *db, struct retry_request *request, int64_t now_ms);
int retry_show(struct db *db, struct retry_request *request, int64_t now_ms);

#endif
