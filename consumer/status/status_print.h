/* SPDX-License-Identifier: MIT */
/* Prints a status: the text for operators and the JSON for programs. Decides what to advise for a
 * missing part. Pure; any thread. */
#ifndef CONSUMER_STATUS_STATUS_PRINT_H
#define CONSUMER_STATUS_STATUS_PRINT_H

#include "common/buf.h"
#include "consumer/status/status.h"

/* The summary as its first line, however long, and then aligned text, up to 100 columns unless
 * names are very long. */
void status_print_text(const struct status *status, struct buf *out);

/* One JSON object with the same facts. Keys are stable, times and ages in ms. */
void status_print_json(const struct status *status, struct buf *out);

#endif
