/* SPDX-License-Identifier: MIT */
/* MySQL's binary form of JSON documents, as rows of the binary log have it, as the text that the
 * server prints for them. Source: sql-common/json_binary.h of MySQL. Pure; any thread. */
#ifndef OUTBOX_RELAY_BINLOG_JSONB_H
#define OUTBOX_RELAY_BINLOG_JSONB_H

#include "common/buf.h"

#include <stdbool.h>
#include <stddef.h>

/* The server refuses documents that are deeper. */
#define JSONB_DEPTH_MAX 100

/* Appends the text. False: the bytes are damaged, or the ceiling of out is reached; then out may
 * have a part of it. No bytes at all are null, as for the server. */
bool jsonb_put(struct buf *out, const void *bytes, size_t len);

#endif
