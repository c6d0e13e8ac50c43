/* SPDX-License-Identifier: MIT */
/* `tallybox retry edit`: replaces headers, parameters or options of one task that has not ended,
 * such as an outbox row that Kafka refused. Decides which headers an event of the relay keeps.
 * Main thread. */
#ifndef OUTBOX_RETRY_CLI_RETRY_EDIT_COMMAND_H
#define OUTBOX_RETRY_CLI_RETRY_EDIT_COMMAND_H

#include "common/buf.h"
#include "common/db/db.h"
#include "outbox/retry/cli/retry_request.h"

struct retry_handlers;

/* Appends the options of a task after an edit to out. before: those it has, or NULL. options: "" is
 * none; headers: a JSON object or a list of [name, value]; NULL: not given.
 *
 * A task of a client gets the options as they are given, and headers as their member. An event of
 * the relay keeps each member that options does not name, and each header that the relay has made:
 * headers that are given replace those of the application. Its ce_type, ce_source, ce_time and
 * original_timestamp are replaced if they are given. RC_REJECT: err names the fault. */
enum rc retry_edit_options(struct buf *out, const char *before, bool relays, const char *options,
                           const char *headers, struct err *err);

/* handlers: they check what the task would be. by: the operator's name. Returns an enum
 * exit_code. */
int retry_edit(struct db *db, const struct retry_handlers *handlers,
               const struct retry_request *request, const char *by);

#endif
