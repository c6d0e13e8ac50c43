/* SPDX-License-Identifier: MIT */
/* Dead records as text and as JSON. Bytes that a terminal cannot print are shown as hexadecimal
 * digits in text and as base64 in JSON. Pure; any thread. */
#ifndef CONSUMER_DEAD_DEAD_TEXT_H
#define CONSUMER_DEAD_DEAD_TEXT_H

#include "common/buf.h"
#include "consumer/dead/dead.h"

#include <stdbool.h>
#include <stdint.h>

/* The list: a heading and one line for each record. now_ms must come from the same clock as
 * died_ms. */
void dead_list_head(struct buf *out, bool decided);
void dead_list_row(struct buf *out, const struct dead_view *view, int64_t now_ms);

/* One record with payload and headers. */
void dead_show_text(struct buf *out, const struct dead_view *view, int64_t now_ms);

/* One record as a JSON object; whole: with payload and headers. If memory runs out, out becomes
 * failed. */
void dead_json(struct buf *out, const struct dead_view *view, bool whole);

#endif
