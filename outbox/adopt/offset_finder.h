/* SPDX-License-Identifier: MIT */
/* Converts between offsets of Debezium, which count events and rows inside of an event, and
 * positions of lanes, which count rows of the table in a transaction, by reading the transaction in
 * the log. Without database: the log comes through ops. One thread at a time. */
#ifndef OUTBOX_ADOPT_OFFSET_FINDER_H
#define OUTBOX_ADOPT_OFFSET_FINDER_H

#include "common/err.h"
#include "outbox/adopt/connect_offset.h"
#include "outbox/relay/stream/stream_ops.h"

/* Writes the position at which everything begins that the connector has not done. If it has done
 * all rows of the transaction, that is behind it. RC_REJECT: the offset is not of this log, or not
 * at the begin of a transaction or inside of one. RC_RETRY, RC_FATAL: as the stream. */
enum rc offset_find_position(const struct stream_log *log, struct connect_offset *offset,
                             struct stream_position *position, struct err *err);

/* Writes the offset at which a connector goes on behind the position; server_id is left alone.
 * RC_REJECT: the log does not have the rows that are done. RC_RETRY, RC_FATAL: as the stream. */
enum rc offset_find_offset(const struct stream_log *log, const struct stream_position *position,
                           struct connect_offset *offset, struct err *err);

#endif
