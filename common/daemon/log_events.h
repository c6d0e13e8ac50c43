/* SPDX-License-Identifier: MIT */
/* The one table of log events: every event of the program, its level, its meaning and what an
 * operator does. `tallybox events` prints it and OPERATIONS.md holds a copy that a test compares;
 * the lint compares it with the calls of log_event() and log_error(). */
#ifndef COMMON_DAEMON_LOG_EVENTS_H
#define COMMON_DAEMON_LOG_EVENTS_H

#include "common/buf.h"

#include <stddef.h>

struct log_event_info {
    const char *name;
    const char *level; /* "info", "warn or info" ... */
    const char *meaning;
    const char *action; /* "" where there is nothing to do */
};

/* *count: of them. Static. */
const struct log_event_info *log_events(size_t *count);

/* Appends the Markdown table. */
void log_events_put_table(struct buf *out);

/* `tallybox events`. */
int log_events_command(int argc, char **argv);

#endif
