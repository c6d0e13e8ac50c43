/* SPDX-License-Identifier: MIT */
/* Prints tables of the retry queue as Markdown: the fields of a policy, the named waits, the
 * handlers. RETRY.md contains them as printed. Pure; any thread. */
#ifndef OUTBOX_RETRY_CLI_RETRY_TABLES_H
#define OUTBOX_RETRY_CLI_RETRY_TABLES_H

#include "common/buf.h"
#include "outbox/retry/handler.h"

void retry_tables_fields(struct buf *out);
void retry_tables_waits(struct buf *out);
void retry_tables_handlers(struct buf *out, const struct retry_handlers *handlers);

#endif
