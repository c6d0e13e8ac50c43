/* SPDX-License-Identifier: MIT */
/* How long a server may send nothing before a stream of its binary log counts as lost. MariaDB
 * before 11.4 is silent while it searches where to begin, so a stream that was lost by silence
 * before the server had found that is given twice as long the next time. Any other failure says
 * nothing about the search. One thread at a time. */
#ifndef OUTBOX_RELAY_BINLOG_SILENCE_H
#define OUTBOX_RELAY_BINLOG_SILENCE_H

#include "outbox/relay/binlog/event.h"

#include <stdbool.h>
#include <stdint.h>

/* A zeroed one is ready for use. */
struct silence {
    int64_t ms;
    bool found; /* since the last silence_choose_ms() */
};

/* The time for the next stream, base_ms or more. */
int64_t silence_choose_ms(struct silence *silence, int64_t base_ms);

/* The server has found where to begin. */
void silence_note_found(struct silence *silence);

/* The stream has failed; was_silent: because the server sent nothing for so long. */
void silence_note_failure(struct silence *silence, bool was_silent);

/* Whether an event of this type may come before the server searches where to begin. */
bool silence_is_before_search(const struct binlog_event *event);

#endif
