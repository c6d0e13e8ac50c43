/* SPDX-License-Identifier: MIT */
#include "outbox/relay/stream/unread_changes.h"

#include "common/log.h"

#include <inttypes.h>

void unread_changes_init(struct unread_changes *unread, const char *lane, struct metric *updates,
                         struct metric *statements)
{
    *unread = (struct unread_changes){
        .lane = lane, .updates = {.metric = updates}, .statements = {.metric = statements}};
}

bool unread_changes_any(const struct unread_changes *unread, const struct change_counts *counts)
{
    return counts->updates != unread->updates.seen || unread->updates.unsaid > 0 ||
           counts->statements != unread->statements.seen || unread->statements.unsaid > 0;
}

/* Whether a line is due; *count is what it tells. */
static bool take(struct unread_kind *kind, uint64_t seen, int64_t now_ms, uint64_t *count)
{
    if (seen != kind->seen) {
        metric_add(kind->metric, (int64_t)(seen - kind->seen));
        kind->unsaid += seen - kind->seen;
        kind->seen = seen;
    }
    if (kind->unsaid == 0 ||
        (kind->said_ms > 0 && now_ms - kind->said_ms < UNREAD_CHANGES_SILENT_MS))
        return false;
    *count = kind->unsaid;
    kind->unsaid = 0;
    kind->said_ms = now_ms;
    return true;
}

#define FORMAT "lane=%s count=%" PRIu64 " last=%s:%" PRIu64

void unread_changes_note(struct unread_changes *unread, const struct change_counts *counts,
                         const char *file, uint64_t offset, int64_t now_ms)
{
    uint64_t count = 0;

    if (take(&unread->updates, counts->updates, now_ms, &count))
        log_event(LOG_WARN, "rows_updated", FORMAT, unread->lane, count, file, offset);
    if (take(&unread->statements, counts->statements, now_ms, &count))
        log_event(LOG_WARN, "statements_in_log", FORMAT, unread->lane, count, file, offset);
}
