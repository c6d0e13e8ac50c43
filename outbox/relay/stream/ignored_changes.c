/* SPDX-License-Identifier: MIT */
#include "outbox/relay/stream/ignored_changes.h"

#include "common/log.h"

#include <inttypes.h>

void ignored_changes_init(struct ignored_changes *ignored, const char *lane, struct metric *updates,
                          struct metric *statements)
{
    *ignored = (struct ignored_changes){
        .lane = lane, .updates = {.metric = updates}, .statements = {.metric = statements}};
}

bool ignored_changes_any(const struct ignored_changes *ignored, const struct change_counts *counts)
{
    return counts->updates != ignored->updates.seen || ignored->updates.unsaid > 0 ||
           counts->statements != ignored->statements.seen || ignored->statements.unsaid > 0;
}

/* Whether a line is due; *count is what it tells. */
static bool take(struct ignored_kind *kind, uint64_t seen, int64_t now_ms, uint64_t *count)
{
    if (seen != kind->seen) {
        metric_add(kind->metric, (int64_t)(seen - kind->seen));
        kind->unsaid += seen - kind->seen;
        kind->seen = seen;
    }
    if (kind->unsaid == 0 ||
        (kind->said_ms > 0 && now_ms - kind->said_ms < IGNORED_CHANGES_SILENT_MS))
        return false;
    *count = kind->unsaid;
    kind->unsaid = 0;
    kind->said_ms = now_ms;
    return true;
}

#define FORMAT "lane=%s count=%" PRIu64 " last=%s:%" PRIu64

void ignored_changes_note(struct ignored_changes *ignored, const struct change_counts *counts,
                          const char *file, uint64_t offset, int64_t now_ms)
{
    uint64_t count = 0;

    if (take(&ignored->updates, counts->updates, now_ms, &count))
        log_event(LOG_WARN, "rows_updated", FORMAT, ignored->lane, count, file, offset);
    if (take(&ignored->statements, counts->statements, now_ms, &count))
        log_event(LOG_WARN, "statements_in_log", FORMAT, ignored->lane, count, file, offset);
}
