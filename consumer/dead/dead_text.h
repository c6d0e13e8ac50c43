/* SPDX-License-Identifier: MIT */
/* Dead records for people and for scripts. Whatever bytes a record holds, a terminal gets printable
 * text: what is not is shown as hexadecimal digits, in JSON as base64. Pure; any thread. */
#ifndef CONSUMER_DEAD_DEAD_TEXT_H
#define CONSUMER_DEAD_DEAD_TEXT_H

#include "common/buf.h"
#include "consumer/dead/dead.h"

#include <stdbool.h>
#include <stdint.h>

/* The list: a head, and a line for each record. now_ms: the clock that died_ms comes from. */
void dead_list_head(struct buf *out, bool decided);
void dead_list_row(struct buf *out, const struct dead_view *view, int64_t now_ms);

/* One record, whole. */
void dead_show_text(struct buf *out, const struct dead_view *view, int64_t now_ms);

/* One record as a JSON object; whole: with payload and headers. No memory: out becomes failed. */
void dead_json(struct buf *out, const struct dead_view *view, bool whole);

#endif
