/* SPDX-License-Identifier: MIT */
/* Spans of time as text: a whole number and a unit, "500ms", "30s", "5m", "2h", "7d". Pure; any
 * thread. */
#ifndef OUTBOX_RETRY_POLICY_SPAN_H
#define OUTBOX_RETRY_POLICY_SPAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Ten years: longer waits are mistakes. */
#define SPAN_MS_MAX (INT64_C(3650) * 86400000)

#define SPAN_TEXT_SIZE 24

/* 0..SPAN_MS_MAX, in ms. False: it is no span, and *ms is left alone. */
bool span_parse(const char *text, size_t len, int64_t *ms);

/* Writes the span in the largest unit that is exact. */
void span_text(int64_t ms, char text[SPAN_TEXT_SIZE]);

#endif
