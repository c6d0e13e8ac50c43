/* SPDX-License-Identifier: MIT */
/* The retry queue's own tables of words as Markdown: what a policy may say, the waits with a name,
 * the handlers. RETRY.md has them as the program prints them. Pure; any thread. */
#ifndef OUTBOX_RETRY_CLI_RETRY_TABLES_H
#define OUTBOX_RETRY_CLI_RETRY_TABLES_H

#include "common/buf.h"
#include "outbox/retry/handler.h"

void retry_tables_fields(struct buf *out);
void retry_tables_waits(struct buf *out);
void retry_tables_handlers(struct buf *out, const struct retry_handlers *handlers);

#endif
