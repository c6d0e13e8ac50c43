/* SPDX-License-Identifier: MIT */
/* Record headers as dead_record keeps them: JSON in plain ASCII, [[name, base64 or null], ...], in
 * the record's order. Pure; any thread. */
#ifndef CONSUMER_INGEST_HEADERS_ROW_H
#define CONSUMER_INGEST_HEADERS_ROW_H

#include "common/buf.h"

#include <stddef.h>

/* One array: begin, add each, end. index counts from 0. A name's bytes that are not ASCII become
 * \u0080..\u00ff one by one, so that any name comes back as it was. value NULL: null. */
void headers_begin(struct buf *out);
void headers_add(struct buf *out, size_t index, const char *name, const void *value, size_t len);
void headers_end(struct buf *out);

#endif
