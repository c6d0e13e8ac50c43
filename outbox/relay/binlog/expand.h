/* SPDX-License-Identifier: MIT */
/* Events that MariaDB compresses one by one (log_bin_compress): statements and rows. Any thread,
 * with a buf of its own. */
#ifndef OUTBOX_RELAY_BINLOG_EXPAND_H
#define OUTBOX_RELAY_BINLOG_EXPAND_H

#include "common/buf.h"
#include "common/err.h"
#include "outbox/relay/binlog/event.h"

/* Turns a compressed event into the plain one: its type, and its body, which is then in out. Other
 * events stay as they are. The ceiling of out bounds the memory, whatever length the event claims.
 * RC_FATAL: the bytes are damaged, or longer than out may be. */
enum rc binlog_expand(struct binlog_event *event, struct buf *out,
                      const struct binlog_format *format, struct err *err);

#endif
