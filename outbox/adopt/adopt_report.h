/* SPDX-License-Identifier: MIT */
/* What `tallybox adopt` prints, as text and as JSON. Pure; any thread. */
#ifndef OUTBOX_ADOPT_ADOPT_REPORT_H
#define OUTBOX_ADOPT_ADOPT_REPORT_H

#include "common/buf.h"
#include "outbox/adopt/connector.h"
#include "outbox/adopt/router_map.h"
#include "outbox/relay/stream/stream_ops.h"

#include <stdbool.h>

struct adopt_report {
    const struct connector *connector;
    const struct router_map *map;
    bool looked;                      /* for the position */
    struct stream_position *position; /* NULL: not looked for, or not found */
    const char *why_not;              /* "": it was found */
    bool unchecked;                   /* whether the connector is stopped */
    bool begun;                       /* it is saved */
    bool replaced;                    /* in place of another one */
};

void adopt_report_put_text(struct buf *out, const struct adopt_report *report);
void adopt_report_put_json(struct buf *out, const struct adopt_report *report);

#endif
