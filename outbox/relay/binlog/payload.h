/* SPDX-License-Identifier: MIT */
/* A transaction that MySQL has put into one event, most often compressed by zstd
 * (binlog_transaction_compression): the events inside it, one after the other. Its expanded size
 * may be many gigabytes, so only one of its events is in memory at a time. One thread at a time
 * uses a payload. */
#ifndef OUTBOX_RELAY_BINLOG_PAYLOAD_H
#define OUTBOX_RELAY_BINLOG_PAYLOAD_H

#include "common/buf.h"
#include "common/err.h"
#include "outbox/relay/binlog/cursor.h"
#include "outbox/relay/binlog/event.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct binlog_payload {
    struct ZSTD_DCtx_s *zstd; /* made once */
    struct buf event;         /* the bytes of the event that was taken last */
    struct cursor left;       /* of the outer event, not expanded yet */
    bool compressed;
    bool ended; /* zstd has seen the end of its frame */
};

/* A zeroed payload is ready; event_bytes_max bounds the memory for one event inside. */
void binlog_payload_init(struct binlog_payload *payload, size_t event_bytes_max);
void binlog_payload_done(struct binlog_payload *payload);

/* Begins with an event of the type BINLOG_TRANSACTION_PAYLOAD, from which it borrows until the last
 * of its events was taken. RC_FATAL: it is damaged, or compressed in a way that is not known. */
enum rc binlog_payload_begin(struct binlog_payload *payload, const struct binlog_event *outer,
                             struct err *err);

/* Takes the next event, which has no checksum of its own and is valid until the next call; *found
 * is false behind the last one. */
enum rc binlog_payload_next(struct binlog_payload *payload, struct binlog_event *event, bool *found,
                            struct err *err);

#endif
