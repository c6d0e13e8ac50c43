/* SPDX-License-Identifier: MIT */
/* The audit of `tallybox retry ACTION`: each action that changes something has a row, and
 * `tallybox retry audit` lists the rows. Main thread. */
#ifndef OUTBOX_RETRY_CLI_RETRY_AUDIT_COMMAND_H
#define OUTBOX_RETRY_CLI_RETRY_AUDIT_COMMAND_H

#include "common/db/db.h"
#include "outbox/retry/cli/retry_request.h"

/* Writes the row of the action and its number into request->audit_id. If it cannot be written the
 * action must not begin. by: the operator's name. */
enum rc retry_audit_begin(struct db *db, struct retry_request *request, const char *by,
                          struct err *err);

/* Tells that the action was refused and changed nothing. Without an answer of the database the row
 * stays as it is: unknown. */
void retry_audit_refuse(struct db *db, const struct retry_request *request);

/* Lists the rows. Returns an enum exit_code. */
int retry_audit(struct db *db, const struct retry_request *request);

#endif
