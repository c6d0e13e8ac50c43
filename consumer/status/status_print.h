/* SPDX-License-Identifier: MIT */
/* How a status is shown: decides the words for a person and the JSON for a program, what is late,
 * and what to do about a missing part. Pure; any thread. */
#ifndef CONSUMER_STATUS_STATUS_PRINT_H
#define CONSUMER_STATUS_STATUS_PRINT_H

#include "common/buf.h"
#include "consumer/status/status.h"

/* Aligned text, up to 100 columns where names are no longer than usual. */
void status_print_text(const struct status *status, struct buf *out);

/* One JSON object with the same facts. Keys are stable, times and ages in ms. */
void status_print_json(const struct status *status, struct buf *out);

#endif
