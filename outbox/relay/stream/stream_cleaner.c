/* SPDX-License-Identifier: MIT */
#include "outbox/relay/stream/stream_cleaner.h"

#include "common/hash.h"
#include "common/log.h"
#include "common/loop.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

#define BACKOFF_BASE_MS 100
#define BACKOFF_CAP_MS 5000

/* Longest wait before it looks for an entry again. */
#define IDLE_MS 1000

/* A list of the oldest rows passes all deleted rows that the server keeps for an old snapshot. It
 * takes at most this part of the time. */
#define LIST_PART 20

/* All rows that were committed so long ago have been published. It leaves half a minute to save
 * them. */
#define CURRENT_MS 30000

void stream_cleaner_init(struct stream_cleaner *cleaner, struct lane *lane,
                         const struct cleaner_ops *ops, uint64_t seed)
{
    memset(cleaner, 0, sizeof(*cleaner));
    cleaner->lane = lane;
    cleaner->ops = *ops;
    cleaner->keep_ms = lane->own->keep_ms;
    cleaner->rng = seed;
    cleaner->rows_max = CLEANER_ROWS_MAX;
    cleaner->backoff = (struct backoff){.base_ms = BACKOFF_BASE_MS, .cap_ms = BACKOFF_CAP_MS};
    condition_init(&cleaner->removing, CONDITION_DEPENDENCY,
                   "dep=mysql role=relay reason=cannot_remove_rows lane=%s", lane->name);
    condition_init(&cleaner->unpublished, CONDITION_CHECK,
                   "check=unpublished_rows role=relay lane=%s", lane->name);
}

void stream_cleaner_done(struct stream_cleaner *cleaner)
{
    if (!cleaner->lane)
        return;
    buf_done(&cleaner->entry.seqs);
    condition_done(&cleaner->removing);
    condition_done(&cleaner->unpublished);
    cleaner->lane = NULL;
}

/* After a failure the entry is read again: the database may be another one. */
static int64_t record_failure(struct stream_cleaner *cleaner, int64_t now_ms, const struct err *err)
{
    int64_t wait_ms = backoff_next_ms(&cleaner->backoff, rng_next(&cleaner->rng));

    condition_fail(&cleaner->removing, now_ms, err);
    cleaner->has_entry = false;
    cleaner->wait_until_ms = now_ms + wait_ms;
    return wait_ms;
}

static void record_success(struct stream_cleaner *cleaner, int64_t now_ms)
{
    condition_ok(&cleaner->removing, now_ms);
    backoff_reset(&cleaner->backoff);
}

static void forget_unpublished(struct stream_cleaner *cleaner, int64_t now_ms)
{
    condition_ok(&cleaner->unpublished, now_ms);
    metric_set(&cleaner->lane->metrics->unpublished, 0);
}

static void change_lease(struct stream_cleaner *cleaner, int64_t epoch, int64_t now_ms)
{
    cleaner->epoch = epoch;
    cleaner->has_table = cleaner->has_entry = false;
    cleaner->lists[0].is_known = false;
    cleaner->list_at_ms = now_ms;
    cleaner->wait_until_ms = 0;
    record_success(cleaner, now_ms);
    if (epoch == 0)
        forget_unpublished(cleaner, now_ms);
}

static int64_t read_table(struct stream_cleaner *cleaner, int64_t now_ms)
{
    const struct lane *lane = cleaner->lane;
    struct err err = {0};
    enum rc rc = cleaner->ops.table(cleaner->ops.ctx, &cleaner->table, &err);

    if (rc != RC_OK)
        return record_failure(cleaner, now_ms, &err);
    record_success(cleaner, now_ms);
    cleaner->has_table = true;
    if (!cleaner->table.has_seq && !cleaner->told) {
        log_event(LOG_WARN, "rows_not_removed",
                  "lane=%s table=%s text=\"seq is not the primary key of the table\"", lane->name,
                  lane->own->table);
        cleaner->told = true;
    }
    return 0;
}

/* Keeps the seqs of `now` that are also in `before`; both are ascending. Returns their number, and
 * the lowest one. */
static size_t count_in_both(const struct cleaner_list *before, const struct cleaner_list *now,
                            int64_t *lowest)
{
    size_t count = 0;
    size_t i = 0;

    for (size_t j = 0; j < now->count; j++) {
        while (i < before->count && before->seqs[i] < now->seqs[j])
            i++;
        if (i == before->count || before->seqs[i] != now->seqs[j])
            continue;
        if (count++ == 0)
            *lowest = now->seqs[j];
    }
    return count;
}

static void report_unpublished(struct stream_cleaner *cleaner, int64_t now_ms)
{
    const struct lane *lane = cleaner->lane;
    struct err err = {0};
    int64_t lowest = 0;
    size_t count = count_in_both(&cleaner->lists[0], &cleaner->lists[1], &lowest);

    metric_set(&lane->metrics->unpublished, (int64_t)count);
    if (count == 0) {
        condition_ok(&cleaner->unpublished, now_ms);
        return;
    }
    err_fail(&err, RC_REJECT, 0,
             "%s%zu rows of table %s, from seq %" PRId64 " on, are older than keep_ms and are not "
             "known to be published: they were written past the binary log (sql_log_bin = 0), or "
             "before the lane began, or while keep_ms was -1. Insert those again, with a new seq, "
             "that are to be published, and delete all of them",
             count == CLEANER_LISTED_MAX ? "at least " : "", count, lane->own->table, lowest);
    condition_fail(&cleaner->unpublished, now_ms, &err);
}

/* The metric is the age of what the reader has not published yet; the minute between two lists is
 * longer than CURRENT_MS, so that it is not that of a lane that has only begun. */
static bool lane_is_current(const struct stream_cleaner *cleaner)
{
    /* Published rows are in no entry while positions cannot be saved. */
    return !condition_read(&cleaner->lane->deleting, NULL) &&
           metric_value(&cleaner->lane->metrics->oldest_age) <= CURRENT_MS;
}

static int64_t list_old_rows(struct stream_cleaner *cleaner, int64_t now_ms)
{
    struct cleaner_list *list = &cleaner->lists[1];
    struct err err = {0};
    enum rc rc = cleaner->ops.list_old(cleaner->ops.ctx, cleaner->keep_ms + CLEANER_MARGIN_MS,
                                       list->seqs, CLEANER_LISTED_MAX, &list->count, &err);
    int64_t took_ms = lane_now(cleaner->lane, now_ms) - now_ms;

    cleaner->list_at_ms =
        now_ms + (took_ms * LIST_PART > CLEANER_LIST_MS ? took_ms * LIST_PART : CLEANER_LIST_MS);
    if (rc != RC_OK) {
        err_wrap(&err, "looking for rows that did not come through the binary log");
        condition_fail(&cleaner->unpublished, now_ms, &err);
        return IDLE_MS;
    }
    list->is_known = true;
    if (cleaner->lists[0].is_known && lane_is_current(cleaner))
        report_unpublished(cleaner, now_ms);
    cleaner->lists[0] = *list;
    return IDLE_MS;
}

static int64_t take_entry(struct stream_cleaner *cleaner, int64_t now_ms)
{
    struct cleaner_entry *entry = &cleaner->entry;
    struct err err = {0};
    bool found = false;
    int64_t wait_ms = IDLE_MS;
    enum rc rc = cleaner->ops.oldest(cleaner->ops.ctx, cleaner->keep_ms, entry, &found, &err);

    if (rc == RC_OK && entry->seqs.failed)
        rc = err_fail(&err, RC_RETRY, 0, "no memory for the seqs of published rows");
    if (rc != RC_OK)
        return record_failure(cleaner, now_ms, &err);
    record_success(cleaner, now_ms);
    if (found && entry->age_ms >= cleaner->keep_ms) {
        cleaner->has_entry = true;
        cleaner->left = (struct seq_ranges){.data = entry->seqs.data, .len = entry->seqs.len};
        return 0;
    }
    if (now_ms >= cleaner->list_at_ms && cleaner->table.has_seq && cleaner->table.has_created_at)
        return list_old_rows(cleaner, now_ms);
    if (found && cleaner->keep_ms - entry->age_ms < wait_ms)
        wait_ms = cleaner->keep_ms - entry->age_ms;
    return wait_ms;
}

static int64_t end_entry(struct stream_cleaner *cleaner, int64_t now_ms)
{
    struct err err = {0};
    enum rc rc = cleaner->ops.end(cleaner->ops.ctx, cleaner->entry.number, &err);

    if (rc != RC_OK)
        return record_failure(cleaner, now_ms, &err);
    record_success(cleaner, now_ms);
    cleaner->has_entry = false;
    return 0;
}

static int64_t count_rows(const struct seq_range *ranges, size_t count)
{
    int64_t rows = 0;

    for (size_t i = 0; i < count; i++)
        rows += ranges[i].to - ranges[i].from + 1;
    return rows;
}

/* Without a column seq the rows of the entry are not deleted. */
static int64_t delete_piece(struct stream_cleaner *cleaner, int64_t now_ms)
{
    struct seq_range ranges[DELETER_RANGES_MAX];
    struct err err = {0};
    bool fenced = false;
    size_t count = 0;
    int64_t took_ms;
    enum rc rc = RC_OK;

    if (cleaner->table.has_seq)
        rc = seq_ranges_read(&cleaner->left, ranges, DELETER_RANGES_MAX, cleaner->rows_max, &count,
                             &err);
    if (rc != RC_OK) {
        err_wrap(&err, "row %" PRId64 " of relay_published", cleaner->entry.number);
        return record_failure(cleaner, now_ms, &err);
    }
    if (count == 0)
        return end_entry(cleaner, now_ms);
    rc = cleaner->ops.delete_ranges(cleaner->ops.ctx, ranges, count, cleaner->epoch, &fenced, &err);
    if (rc != RC_OK)
        return record_failure(cleaner, now_ms, &err);
    record_success(cleaner, now_ms);
    if (fenced) {
        cleaner->has_entry = false;
        return IDLE_MS;
    }
    metric_add(&cleaner->lane->metrics->deleted, count_rows(ranges, count));
    took_ms = lane_now(cleaner->lane, now_ms) - now_ms;
    return took_ms > 1 ? took_ms : 1;
}

int64_t stream_cleaner_step(void *arg, int64_t now_ms)
{
    struct stream_cleaner *cleaner = arg;
    int64_t epoch = lane_epoch(cleaner->lane, now_ms);

    if (cleaner->keep_ms < 0)
        return LOOP_WAKEUP;
    if (epoch != cleaner->epoch)
        change_lease(cleaner, epoch, now_ms);
    if (epoch == 0)
        return IDLE_MS;
    if (now_ms < cleaner->wait_until_ms)
        return cleaner->wait_until_ms - now_ms;
    if (!cleaner->has_table)
        return read_table(cleaner, now_ms);
    if (!cleaner->has_entry)
        return take_entry(cleaner, now_ms);
    return delete_piece(cleaner, now_ms);
}
