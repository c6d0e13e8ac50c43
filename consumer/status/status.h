/* SPDX-License-Identifier: MIT */
/* Says what the facts of a status mean: lag, what is late, what to do about a missing part; and
 * puts them into words for a person or into JSON for a program. Pure. */
#ifndef CONSUMER_STATUS_STATUS_H
#define CONSUMER_STATUS_STATUS_H

#include "common/buf.h"
#include "consumer/status/status_row.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Records that may still be read and are not applied; unknown while Kafka or the sink is away. */
int64_t status_lag(const struct status *status, const struct status_partition *partition);

/* RC_OK, or the gravest of what could not be shown: RC_FATAL before RC_RETRY. A schema that is not
 * there yet is something to show. */
enum rc status_outcome(const struct status *status);

/* Aligned text, up to 100 columns where names are no longer than usual. */
void status_text(const struct status *status, struct buf *out);

/* One JSON object with the same facts. Keys are stable, times and ages in ms. */
void status_json(const struct status *status, struct buf *out);

#endif
