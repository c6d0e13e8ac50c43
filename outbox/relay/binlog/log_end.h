/* SPDX-License-Identifier: MIT */
/* Whether a reader of a binary log is at its end. That nothing waits to be read says little: in the
 * middle of the log a reader may be faster than the server. A heartbeat says it, and so does an
 * event that is no older than seconds by the server's clock. With a log that was copied from
 * elsewhere later, as that of a replica which is behind, and that never rests for as long as a
 * heartbeat takes, the reader counts as behind. No I/O and no clock. One thread at a time. */
#ifndef OUTBOX_RELAY_BINLOG_LOG_END_H
#define OUTBOX_RELAY_BINLOG_LOG_END_H

#include "outbox/relay/binlog/change_stream.h"
#include "outbox/relay/binlog/event.h"

#include <stdbool.h>
#include <stdint.h>

struct log_end {
    bool found;                        /* the server has found where to begin */
    char first_file[BINLOG_FILE_SIZE]; /* there, as far as the reader knew; else "" */
    uint64_t first_offset;
    char beat_file[BINLOG_FILE_SIZE]; /* before that: the place of the last heartbeat */
    uint32_t beat_pos;
    bool beat;         /* the last event was a heartbeat that says that the log has no more */
    int64_t age_ms;    /* of the last event of a transaction when it came, by the server's clock */
    int64_t rested_ms; /* os_now_ms() when the server had nothing more last; 0: never */
};

/* Numbers of files have six digits, or more when they need more. Less than, equal to or greater
 * than 0, as strcmp(). */
int log_end_compare_files(const char *one, const char *other);

/* Reading begins at this place of the server's log, or at a GTID if file is "". age_ms: of the last
 * transaction before it. */
void log_end_begin(struct log_end *end, const char *file, uint64_t offset, int64_t age_ms);

/* An event has come. now_ms: what the server's clock shows, since 1970. */
void log_end_note_event(struct log_end *end, const struct binlog_event *event, int64_t now_ms);

/* The reader had taken all that the server had sent, and has waited since since_ms for the event
 * that has come now. Called before `changes` is given the event. Times are those of os_now_ms(). */
void log_end_note_wait(struct log_end *end, const struct change_stream *changes, int64_t since_ms,
                       int64_t now_ms);

/* Whether the log has nothing more, or no more than what a few seconds add. more: another event
 * waits to be read. */
bool log_end_is_reached(const struct log_end *end, const struct change_stream *changes, bool more);

/* Whether the reader is or was at the end a few seconds ago. Weaker: it also counts a wait that was
 * noted, so that the server's clock does not matter. now_ms: of os_now_ms(). */
bool log_end_is_near(const struct log_end *end, int64_t now_ms);

#endif
