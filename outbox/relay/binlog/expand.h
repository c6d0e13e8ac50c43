/* SPDX-License-Identifier: MIT */
/* Bytes that MariaDB has compressed inside an event (log_bin_compress): the text of a statement, or
 * the rows of an event. Any thread, with a buf of its own. */
#ifndef OUTBOX_RELAY_BINLOG_EXPAND_H
#define OUTBOX_RELAY_BINLOG_EXPAND_H

#include "common/buf.h"
#include "common/err.h"
#include "outbox/relay/binlog/cursor.h"

/* Replaces the content of out with what the rest of the cursor expands to. The ceiling of out
 * bounds the memory, whatever length the bytes claim. RC_FATAL: the bytes are damaged, or expand to
 * more than out may hold. */
enum rc binlog_expand(struct buf *out, struct cursor compressed, struct err *err);

#endif
