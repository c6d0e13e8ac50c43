/* SPDX-License-Identifier: MIT */
#include "outbox/relay/gap_closer.h"

/* The process shares its answers: most questions cost nothing. */
#define WRITERS_ASK_MS 250
#define WRITERS_AFTER_MS 1000
#define CLOSE_AFTER_MS 2000
#define PROBE_EVERY_MS 20
#define PROBE_AGAIN_MS 1000
#define PROBE_COUNT_MAX 64
/* Other people's transactions may hold a gap open this many times gap_wait_ms. */
#define GAP_WAITS_MAX 20

void gap_closer_init(struct gap_closer *closer, int64_t gap_wait_ms, int64_t gap_wait_multi_ms)
{
    *closer = (struct gap_closer){.gap_wait_ms = gap_wait_ms,
                                  .gap_wait_multi_ms = gap_wait_multi_ms,
                                  .writers_seen_ms = INT64_MIN / 2,
                                  .probe_count = 1};
}

/* Invariant: an answer counts for a gap only when the server was asked a second after the gap was
 * first seen. It may have been given to another lane, long before this one hears it: its age, not
 * the present time, says what it knows of. */
static void writers_apply(struct gaps *gaps, const struct source_writers *writers)
{
    for (size_t i = 0; i < gaps->count; i++) {
        struct gap *gap = &gaps->list[i];

        if (writers->asked_ms - gap->first_ms < WRITERS_AFTER_MS)
            continue;
        if (!gap->writer_known) {
            gap->writer = writers->newest;
            gap->writer_known = true;
        }
        if (writers->oldest == 0 || writers->oldest > gap->writer)
            gap->writers_ended = true;
    }
}

static enum rc writers_ask(struct gap_closer *closer, struct gaps *gaps,
                           const struct source *source, int64_t now_ms, struct err *err)
{
    struct source_writers writers = {0};
    enum rc rc;

    if (now_ms < closer->writers_at_ms)
        return RC_OK;
    closer->writers_at_ms = now_ms + WRITERS_ASK_MS;
    rc = source->writers(source->ctx, &writers, err);
    if (rc != RC_OK)
        return rc;
    /* What was seen before counts for as long as a gap waits when nothing can be seen. */
    if (writers.known && writers.asked_ms > closer->writers_seen_ms)
        closer->writers_seen_ms = writers.asked_ms;
    closer->writers_known = now_ms - closer->writers_seen_ms < closer->gap_wait_ms;
    if (writers.known)
        writers_apply(gaps, &writers);
    return RC_OK;
}

static bool is_due(const struct gap_closer *closer, const struct gap *gap, int64_t now_ms)
{
    int64_t age_ms = now_ms - gap->first_ms;

    if (now_ms < gap->probe_ms)
        return false;
    if (closer->several_nodes && age_ms < closer->gap_wait_multi_ms)
        return false;
    if (age_ms >= GAP_WAITS_MAX * closer->gap_wait_ms)
        return true;
    if (closer->writers_known)
        return gap->writers_ended && age_ms >= CLOSE_AFTER_MS;
    return age_ms >= closer->gap_wait_ms;
}

/* The first run of neighbours in the list that are all due, probe_count at most. */
static size_t choose(const struct gap_closer *closer, const struct gaps *gaps, int64_t now_ms,
                     struct seq_range *ranges, size_t *at)
{
    size_t count = 0;

    for (size_t i = 0; i < gaps->count && count < closer->probe_count; i++) {
        if (!is_due(closer, &gaps->list[i], now_ms)) {
            if (count > 0)
                break;
            continue;
        }
        if (count == 0)
            *at = i;
        ranges[count++] = gaps->list[i].range;
    }
    return count;
}

/* A merged gap may cover rows that stay in the table, those of stopped keys: in the end it is
 * closed when no open writer is in it. */
static bool may_close(const struct gap_closer *closer, const struct gap *gap, bool busy, bool found,
                      int64_t now_ms)
{
    if (busy)
        return false;
    return !found || now_ms - gap->first_ms >= GAP_WAITS_MAX * closer->gap_wait_ms;
}

enum rc gap_closer_step(struct gap_closer *closer, struct gaps *gaps, const struct source *source,
                        int64_t now_ms, size_t *closed, struct err *err)
{
    struct seq_range ranges[PROBE_COUNT_MAX];
    size_t at = 0;
    size_t count;
    bool busy = false;
    bool found = false;
    enum rc rc;

    *closed = 0;
    if (gaps->count == 0)
        return RC_OK;
    rc = writers_ask(closer, gaps, source, now_ms, err);
    if (rc != RC_OK || now_ms < closer->probe_at_ms)
        return rc;
    count = choose(closer, gaps, now_ms, ranges, &at);
    if (count == 0)
        return RC_OK;
    closer->probe_at_ms = now_ms + PROBE_EVERY_MS;
    rc = source->probe(source->ctx, ranges, count, &busy, &found, err);
    if (rc != RC_OK)
        return rc;
    if (count == 1 ? may_close(closer, &gaps->list[at], busy, found, now_ms) : !busy && !found) {
        gaps_close(gaps, at, count);
        *closed = count;
        if (closer->probe_count < PROBE_COUNT_MAX)
            closer->probe_count *= 2;
        return RC_OK;
    }
    /* One of several stands in the way: it is found one by one. */
    if (count == 1)
        gaps->list[at].probe_ms = now_ms + PROBE_AGAIN_MS;
    closer->probe_count = 1;
    return RC_OK;
}
