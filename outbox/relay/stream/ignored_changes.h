/* SPDX-License-Identifier: MIT */
/* Reports changes of the outbox table in the binary log that make no record: updates of rows, and
 * statements of a session that writes its statements into the log instead of its rows. One that
 * names the table stops the lane (binlog/change_stream.h). Any other may write into it by a
 * trigger, a stored function or a view, which the log does not tell. One thread. */
#ifndef OUTBOX_RELAY_STREAM_IGNORED_CHANGES_H
#define OUTBOX_RELAY_STREAM_IGNORED_CHANGES_H

#include "common/metrics.h"
#include "outbox/relay/binlog/change_stream.h"

#include <stdbool.h>
#include <stdint.h>

/* Between two lines about the same kind of changes. */
#define IGNORED_CHANGES_SILENT_MS 60000

struct ignored_kind {
    struct metric *metric; /* borrowed */
    uint64_t seen;
    uint64_t unsaid; /* of them, since the last line */
    int64_t said_ms; /* 0: none was written */
};

struct ignored_changes {
    const char *lane; /* its name, borrowed */
    struct ignored_kind updates;
    struct ignored_kind statements;
};

/* Everything is borrowed. */
void ignored_changes_init(struct ignored_changes *ignored, const char *lane, struct metric *updates,
                          struct metric *statements);

/* Whether ignored_changes_note() has something to note. */
bool ignored_changes_any(const struct ignored_changes *ignored, const struct change_counts *counts);

/* Compares the counts with those of the last call, adds to the metrics, and writes a line for each
 * kind of which there are new ones, at most once in IGNORED_CHANGES_SILENT_MS, with the place of
 * the present transaction. Changes that are read again count again. now_ms: os_now_ms(), above 0.
 */
void ignored_changes_note(struct ignored_changes *ignored, const struct change_counts *counts,
                          const char *file, uint64_t offset, int64_t now_ms);

#endif
