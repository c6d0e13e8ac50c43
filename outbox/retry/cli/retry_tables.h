/* SPDX-License-Identifier: MIT */
/* The tables of the retry queue's reference, as Markdown. RETRY.md contains them as printed. Pure;
 * any thread. */
#ifndef OUTBOX_RETRY_CLI_RETRY_TABLES_H
#define OUTBOX_RETRY_CLI_RETRY_TABLES_H

#include "common/buf.h"
#include "outbox/retry/handler.h"

/* Append the fields of a policy, the named lists of waits, the named policies, and the handlers. */
void retry_tables_put_fields(struct buf *out);
void retry_tables_put_waits(struct buf *out);
void retry_tables_put_presets(struct buf *out);
void retry_tables_put_handlers(struct buf *out, const struct retry_handlers *handlers);

#endif
