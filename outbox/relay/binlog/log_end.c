/* SPDX-License-Identifier: MIT */
#include "outbox/relay/binlog/log_end.h"

#include "outbox/relay/binlog/silence.h"

#include <stdio.h>
#include <string.h>

/* A reader that was at the end of the log so lately, or whose last event is not older, is near it.
 * Servers tell seconds. */
#define NEAR_MS 3000
/* A server that still has transactions sends one within this time. In the middle of the log a
 * reader that is faster than the server waits, too, but not so long. */
#define END_WAIT_MS 100

int log_end_compare_files(const char *one, const char *other)
{
    size_t one_len = strlen(one);
    size_t other_len = strlen(other);

    return one_len == other_len ? strcmp(one, other) : (one_len < other_len ? -1 : 1);
}

void log_end_begin(struct log_end *end, const char *file, uint64_t offset, int64_t age_ms)
{
    *end = (struct log_end){.first_offset = offset, .age_ms = age_ms};
    snprintf(end->first_file, sizeof(end->first_file), "%s", file);
}

/* MySQL sends heartbeats while it searches where to begin, which may take long, with the place that
 * it has reached. If it is not known where that is, the search has ended when it stands still. */
static bool has_found_begin(struct log_end *end, const struct binlog_event *event)
{
    char file[BINLOG_FILE_SIZE];
    bool same;
    int order;

    if (event->type != BINLOG_HEARTBEAT)
        return !silence_is_before_search(event);
    snprintf(file, sizeof(file), "%.*s", (int)event->body_len, (const char *)event->body);
    same = strcmp(file, end->beat_file) == 0 && event->next_pos == end->beat_pos;
    memcpy(end->beat_file, file, sizeof(end->beat_file));
    end->beat_pos = event->next_pos;
    if (!end->first_file[0])
        return same;
    order = log_end_compare_files(file, end->first_file);
    /* Its offset has 32 bits. */
    return order > 0 ||
           (order == 0 && (event->next_pos >= end->first_offset || end->first_offset > UINT32_MAX));
}

void log_end_note_event(struct log_end *end, const struct binlog_event *event, int64_t now_ms)
{
    if (!end->found)
        end->found = has_found_begin(end, event);
    end->beat = end->found && binlog_event_is_heartbeat(event);
    if (binlog_event_has_own_time(event))
        end->age_ms = now_ms - (int64_t)event->time_s * 1000;
}

/* Before the first transaction the server searches where to begin, and one that has begun is in the
 * log as a whole: neither wait is one for the end of the log. */
void log_end_note_wait(struct log_end *end, const struct change_stream *changes, int64_t since_ms,
                       int64_t now_ms)
{
    if (changes->has_last && changes->state == CHANGE_OUTSIDE && now_ms - since_ms >= END_WAIT_MS)
        end->rested_ms = now_ms;
}

bool log_end_is_reached(const struct log_end *end, const struct change_stream *changes, bool more)
{
    return changes->state == CHANGE_OUTSIDE && (end->age_ms < NEAR_MS || (end->beat && !more));
}

bool log_end_is_near(const struct log_end *end, int64_t now_ms)
{
    return end->age_ms < NEAR_MS || (end->rested_ms > 0 && now_ms - end->rested_ms < NEAR_MS);
}
