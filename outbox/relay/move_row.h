/* SPDX-License-Identifier: MIT */
/* What a refused outbox row is as a task of the retry lane: the options of the handler `kafka`, with
 * which it publishes the very record that the relay would have sent. A headers column that makes no
 * record stands there as a text, which no handler takes: a person has to decide. Pure; any thread. */
#ifndef OUTBOX_RELAY_MOVE_ROW_H
#define OUTBOX_RELAY_MOVE_ROW_H

#include "common/buf.h"
#include "common/err.h"
#include "outbox/relay/relay_row.h"

/* Appends the JSON text. The row's payload is not looked at. topic "": it has none.
 * RC_FATAL: no memory. */
enum rc move_row_put_options(struct buf *out, const struct relay_row *row, const char *topic,
                             const char *lane, const char *source, struct err *err);

#endif
