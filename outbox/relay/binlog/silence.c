/* SPDX-License-Identifier: MIT */
#include "outbox/relay/binlog/silence.h"

#define SILENCE_MS_MAX 300000

int64_t silence_choose_ms(struct silence *silence, int64_t base_ms)
{
    if (silence->found || silence->ms < base_ms)
        silence->ms = base_ms;
    silence->found = false;
    return silence->ms;
}

void silence_note_found(struct silence *silence)
{
    silence->found = true;
}

void silence_note_failure(struct silence *silence, bool was_silent)
{
    if (silence->found || !was_silent)
        return;
    silence->ms = silence->ms < SILENCE_MS_MAX / 2 ? 2 * silence->ms : SILENCE_MS_MAX;
}

bool silence_is_before_search(const struct binlog_event *event)
{
    return event->type == BINLOG_FORMAT || event->type == BINLOG_ROTATE ||
           event->type == BINLOG_PREVIOUS_GTIDS;
}
