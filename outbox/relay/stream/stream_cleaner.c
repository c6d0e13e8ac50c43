/* SPDX-License-Identifier: MIT */
#include "outbox/relay/stream/stream_cleaner.h"

#include "common/hash.h"
#include "common/log.h"
#include "common/loop.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define BACKOFF_BASE_MS 100
#define BACKOFF_CAP_MS 5000

/* Wait before it looks again for what may be there at once: a lease, an entry that is kept for
 * less.
 */
#define IDLE_MS 1000

/* Longest wait for an entry to be keep_ms old: the tables may be replaced meanwhile. */
#define REST_MS 10000

/* A list of the oldest rows passes all deleted rows that the server keeps for an old snapshot. It
 * takes at most this part of the time. */
#define LIST_PART 20

/* All rows that were committed so long ago have been published. It leaves half a minute to save
 * them. */
#define CURRENT_MS 30000

/* So long after they were published rows are saved, unless saving fails. */
#define SAVED_MS 5000

/* Each entry is so old, also after the clock of the database was set back. */
#define ANY_AGE_MS (-INT64_C(315360000000))

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
    condition_init(&cleaner->dropping, CONDITION_CHECK, "check=partitions role=relay lane=%s",
                   lane->name);
    condition_init(&cleaner->kept_ids, CONDITION_CHECK, "check=kept_ids role=relay lane=%s",
                   lane->name);
}

void stream_cleaner_done(struct stream_cleaner *cleaner)
{
    if (!cleaner->lane)
        return;
    buf_done(&cleaner->entry.rows);
    partition_cleaner_done(&cleaner->partitions);
    condition_done(&cleaner->removing);
    condition_done(&cleaner->unpublished);
    condition_done(&cleaner->kept_ids);
    condition_done(&cleaner->dropping);
    cleaner->lane = NULL;
}

void stream_cleaner_use_partitions(struct stream_cleaner *cleaner, const struct partition_ops *ops)
{
    partition_cleaner_init(&cleaner->partitions, cleaner->lane, ops);
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
    cleaner->list_at_ms = cleaner->count_at_ms = cleaner->other_at_ms = now_ms;
    cleaner->early = 0;
    cleaner->wait_until_ms = 0;
    record_success(cleaner, now_ms);
    if (epoch != 0)
        return;
    forget_unpublished(cleaner, now_ms);
    condition_ok(&cleaner->kept_ids, now_ms);
    condition_ok(&cleaner->dropping, now_ms);
}

/* Without either, entries end and rows stay. */
static enum cleaner_kind kind_of(const struct stream_cleaner *cleaner)
{
    const struct cleaner_table *table = &cleaner->table;
    enum published_kind kind =
        published_kind_choose(table->has_seq, table->has_id, cleaner->lane->own->keep_ids_max);

    return kind == PUBLISHED_BY_ID ? CLEANER_IDS : CLEANER_SEQS;
}

static void tell_that_rows_stay(struct stream_cleaner *cleaner)
{
    const struct lane *lane = cleaner->lane;
    const char *text = lane->own->keep_ids_max == 0
                           ? "seq is not the primary key of the table, and keep_ids_max is 0"
                           : "neither is seq the primary key of the table, nor has the column of "
                             "ids a unique index of its own and a type for texts, bytes or whole "
                             "numbers";

    if (cleaner->told || cleaner->table.has_seq || kind_of(cleaner) == CLEANER_IDS)
        return;
    log_event(LOG_WARN, "rows_not_removed", "lane=%s table=%s text=\"%s\"", lane->name,
              lane->own->table, text);
    cleaner->told = true;
}

static int64_t read_table(struct stream_cleaner *cleaner, int64_t now_ms)
{
    struct err err = {0};
    int64_t emptied = atomic_load(&cleaner->lane->emptied);
    enum rc rc = cleaner->ops.table(cleaner->ops.ctx, &cleaner->table, &err);

    if (rc != RC_OK)
        return record_failure(cleaner, now_ms, &err);
    record_success(cleaner, now_ms);
    cleaner->has_table = true;
    cleaner->emptied = emptied;
    partition_cleaner_begin(&cleaner->partitions, cleaner->table.has_seq &&
                                                      cleaner->table.is_partitioned &&
                                                      kind_of(cleaner) == CLEANER_SEQS);
    condition_ok(&cleaner->dropping, now_ms);
    tell_that_rows_stay(cleaner);
    return 0;
}

/* Counts the marks of `now` that are also in `before`; both are ascending. Returns their number,
 * and the lowest one. */
static size_t count_in_both(const struct cleaner_list *before, const struct cleaner_list *now,
                            int64_t *lowest)
{
    size_t count = 0;
    size_t i = 0;

    for (size_t j = 0; j < now->count; j++) {
        while (i < before->count && before->marks[i] < now->marks[j])
            i++;
        if (i == before->count || before->marks[i] != now->marks[j])
            continue;
        if (count++ == 0)
            *lowest = now->marks[j];
    }
    return count;
}

static void report_unpublished(struct stream_cleaner *cleaner, int64_t now_ms)
{
    const struct lane *lane = cleaner->lane;
    struct err err = {0};
    int64_t lowest = 0;
    size_t count = count_in_both(&cleaner->lists[0], &cleaner->lists[1], &lowest);
    const char *some = count == CLEANER_LISTED_MAX ? "at least " : "";

    metric_set(&lane->metrics->unpublished, (int64_t)count);
    if (count == 0) {
        condition_ok(&cleaner->unpublished, now_ms);
        return;
    }
    if (kind_of(cleaner) == CLEANER_SEQS)
        err_fail(&err, RC_REJECT, 0,
                 "%s%zu rows of table %s, from seq %" PRId64 " on, are older than keep_ms and are "
                 "not known to be published: they were written past the binary log (sql_log_bin = "
                 "0), or before the lane began, or while keep_ms was -1. Delete those that are "
                 "published, or not to be; `tallybox relay publish-missing %s` publishes the "
                 "others",
                 some, count, lane->own->table, lowest, lane->name);
    else
        err_fail(&err, RC_REJECT, 0,
                 "%s%zu rows of table %s are older than keep_ms and are not known to be published: "
                 "they were written past the binary log (sql_log_bin = 0), or before the lane "
                 "began, or while keep_ms was -1 or keep_ids_max was 0. Insert those again, with a "
                 "new id, that are to be published, and delete all of them",
                 some, count, lane->own->table);
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

static int64_t list_age_ms(const struct stream_cleaner *cleaner)
{
    return cleaner->keep_ms + CLEANER_MARGIN_MS;
}

/* A list of ids is compared with one that is so old that published rows in it are deleted. */
static bool list_is_due(const struct stream_cleaner *cleaner, int64_t now_ms)
{
    const struct cleaner_list *last = &cleaner->lists[0];

    if (now_ms < cleaner->list_at_ms || !cleaner->table.has_created_at)
        return false;
    if (kind_of(cleaner) == CLEANER_SEQS)
        return cleaner->table.has_seq;
    return lane_is_current(cleaner) && cleaner->early <= 0 &&
           (!last->is_known || now_ms - last->made_ms >= list_age_ms(cleaner));
}

static int64_t list_old_rows(struct stream_cleaner *cleaner, int64_t now_ms)
{
    struct cleaner_list *list = &cleaner->lists[1];
    struct err err = {0};
    enum rc rc = cleaner->ops.list_old(cleaner->ops.ctx, kind_of(cleaner), list_age_ms(cleaner),
                                       list->marks, CLEANER_LISTED_MAX, &list->count, &err);
    int64_t took_ms = lane_now(cleaner->lane, now_ms) - now_ms;

    cleaner->list_at_ms =
        now_ms + (took_ms * LIST_PART > CLEANER_LIST_MS ? took_ms * LIST_PART : CLEANER_LIST_MS);
    if (rc != RC_OK) {
        err_wrap(&err, "looking for rows that did not come through the binary log");
        condition_fail(&cleaner->unpublished, now_ms, &err);
        return IDLE_MS;
    }
    list->is_known = true;
    list->made_ms = now_ms;
    if (cleaner->lists[0].is_known && lane_is_current(cleaner))
        report_unpublished(cleaner, now_ms);
    cleaner->lists[0] = *list;
    return IDLE_MS;
}

/* Returns how long no entry is due. Those that are not saved yet are younger than the oldest one.
 */
static int64_t choose_wait_ms(const struct stream_cleaner *cleaner, bool found, int64_t now_ms)
{
    int64_t wait_ms = cleaner->keep_ms;

    if (found)
        wait_ms -= cleaner->entry.age_ms;
    else if (wait_ms < IDLE_MS)
        wait_ms = IDLE_MS;
    if (cleaner->table.has_seq && cleaner->table.has_created_at &&
        cleaner->list_at_ms - now_ms < wait_ms)
        wait_ms = cleaner->list_at_ms - now_ms;
    if (kind_of(cleaner) == CLEANER_IDS && cleaner->count_at_ms - now_ms < wait_ms)
        wait_ms = cleaner->count_at_ms - now_ms;
    if (cleaner->partitions.is_on && cleaner->partitions.due_ms - now_ms < wait_ms)
        wait_ms = cleaner->partitions.due_ms - now_ms;
    return wait_ms < REST_MS ? wait_ms : REST_MS;
}

/* While more ids are kept than may be, the oldest entries end before their time. */
static int64_t count_ids(struct stream_cleaner *cleaner, int64_t now_ms)
{
    const struct lane_settings *own = cleaner->lane->own;
    struct err err = {0};
    int64_t count = 0;
    enum rc rc = cleaner->ops.count_ids(cleaner->ops.ctx, &count, &err);
    int64_t took_ms = lane_now(cleaner->lane, now_ms) - now_ms;

    if (rc != RC_OK)
        return record_failure(cleaner, now_ms, &err);
    record_success(cleaner, now_ms);
    cleaner->count_at_ms =
        now_ms + (took_ms * LIST_PART > CLEANER_COUNT_MS ? took_ms * LIST_PART : CLEANER_COUNT_MS);
    cleaner->early = count - own->keep_ids_max;
    if (cleaner->early <= 0) {
        condition_ok(&cleaner->kept_ids, now_ms);
        return 0;
    }
    err_fail(&err, RC_REJECT, 0,
             "relay_published_id has %" PRId64 " ids of published rows of table %s, more than "
             "keep_ids_max: rows are deleted before they were kept for keep_ms",
             count, own->table);
    condition_fail(&cleaner->kept_ids, now_ms, &err);
    return 0;
}

static void begin_entry(struct stream_cleaner *cleaner)
{
    const struct buf *rows = &cleaner->entry.rows;

    cleaner->has_entry = true;
    cleaner->left = (struct seq_ranges){.data = rows->data, .len = rows->len};
    cleaner->left_ids = (struct published_ids){.data = rows->data, .len = rows->len};
}

/* Of a table with partitions only an entry whose rows are to be deleted one by one. */
static enum rc read_oldest(struct stream_cleaner *cleaner, int64_t age_ms, bool *found,
                           struct err *err)
{
    const struct partition_cleaner *partitions = &cleaner->partitions;
    struct cleaner_entry *entry = &cleaner->entry;

    if (partitions->is_on)
        return partitions->ops.oldest(partitions->ops.ctx, partitions->below, partitions->limit,
                                      age_ms, entry, found, err);
    return cleaner->ops.oldest(cleaner->ops.ctx, kind_of(cleaner), age_ms, entry, found, err);
}

static int64_t take_entry(struct stream_cleaner *cleaner, int64_t now_ms)
{
    struct cleaner_entry *entry = &cleaner->entry;
    struct err err = {0};
    bool found = false;
    int64_t age_ms = cleaner->early > 0 ? ANY_AGE_MS : cleaner->keep_ms;
    enum rc rc = read_oldest(cleaner, age_ms, &found, &err);

    if (rc == RC_OK && entry->rows.failed)
        rc = err_fail(&err, RC_RETRY, 0, "no memory for a list of published rows");
    if (rc != RC_OK)
        return record_failure(cleaner, now_ms, &err);
    record_success(cleaner, now_ms);
    if (found && cleaner->partitions.is_on && entry->first_seq > cleaner->partitions.high)
        cleaner->partitions.high = entry->first_seq;
    if (found && entry->age_ms >= age_ms) {
        begin_entry(cleaner);
        return 0;
    }
    cleaner->early = 0;
    if (list_is_due(cleaner, now_ms))
        return list_old_rows(cleaner, now_ms);
    return choose_wait_ms(cleaner, found, now_ms);
}

static int64_t end_entry(struct stream_cleaner *cleaner, int64_t now_ms)
{
    struct err err = {0};
    enum rc rc = cleaner->ops.end(cleaner->ops.ctx, kind_of(cleaner), cleaner->entry.number, &err);

    if (rc != RC_OK)
        return record_failure(cleaner, now_ms, &err);
    record_success(cleaner, now_ms);
    cleaner->has_entry = false;
    cleaner->early -= cleaner->entry.id_count;
    return 0;
}

/* Without keep_ids_max the account may lack the privileges on the table of ids. */
static bool other_is_due(const struct stream_cleaner *cleaner, int64_t now_ms)
{
    return !cleaner->has_entry && now_ms >= cleaner->other_at_ms &&
           (kind_of(cleaner) == CLEANER_IDS || cleaner->lane->own->keep_ids_max > 0);
}

/* Ends the oldest entry of the kind that is not used. */
static int64_t end_other_entry(struct stream_cleaner *cleaner, int64_t now_ms)
{
    enum cleaner_kind other = kind_of(cleaner) == CLEANER_IDS ? CLEANER_SEQS : CLEANER_IDS;
    struct cleaner_entry *entry = &cleaner->entry;
    struct err err = {0};
    bool found = false;
    enum rc rc = cleaner->ops.oldest(cleaner->ops.ctx, other, INT64_MAX, entry, &found, &err);
    bool ends = rc == RC_OK && found && entry->age_ms >= cleaner->keep_ms;

    if (ends)
        rc = cleaner->ops.end(cleaner->ops.ctx, other, entry->number, &err);
    if (rc != RC_OK)
        return record_failure(cleaner, now_ms, &err);
    record_success(cleaner, now_ms);
    if (!ends)
        cleaner->other_at_ms = now_ms + CLEANER_OTHER_MS;
    return 0;
}

static int64_t count_rows(const struct seq_range *ranges, size_t count)
{
    int64_t rows = 0;

    for (size_t i = 0; i < count; i++)
        rows += ranges[i].to - ranges[i].from + 1;
    return rows;
}

static enum rc delete_next_ranges(struct stream_cleaner *cleaner, int64_t *rows, bool *fenced,
                                  struct err *err)
{
    struct seq_range ranges[DELETER_RANGES_MAX];
    size_t count = 0;
    enum rc rc =
        seq_ranges_read(&cleaner->left, ranges, DELETER_RANGES_MAX, cleaner->rows_max, &count, err);

    if (rc != RC_OK) {
        err_wrap(err, "row %" PRId64 " of relay_published", cleaner->entry.number);
        return rc;
    }
    *rows = count_rows(ranges, count);
    if (count == 0)
        return RC_OK;
    return cleaner->ops.delete_ranges(cleaner->ops.ctx, ranges, count, cleaner->epoch, fenced, err);
}

static enum rc delete_next_ids(struct stream_cleaner *cleaner, int64_t *rows, bool *fenced,
                               struct err *err)
{
    struct published_ids piece = cleaner->left_ids;
    size_t count = 0;
    enum rc rc = published_ids_skip(&cleaner->left_ids, cleaner->rows_max, &count, err);

    if (rc != RC_OK) {
        err_wrap(err, "row %" PRId64 " of relay_published_id", cleaner->entry.number);
        return rc;
    }
    *rows = (int64_t)count;
    if (count == 0)
        return RC_OK;
    piece.len = cleaner->left_ids.at;
    return cleaner->ops.delete_ids(cleaner->ops.ctx, &piece, cleaner->epoch, fenced, err);
}

/* Without a column seq or ids the rows of the entry are not deleted. */
static int64_t delete_piece(struct stream_cleaner *cleaner, int64_t now_ms)
{
    struct err err = {0};
    bool fenced = false;
    int64_t rows = 0;
    int64_t took_ms;
    enum rc rc = RC_OK;

    if (kind_of(cleaner) == CLEANER_IDS)
        rc = delete_next_ids(cleaner, &rows, &fenced, &err);
    else if (cleaner->table.has_seq)
        rc = delete_next_ranges(cleaner, &rows, &fenced, &err);
    if (rc != RC_OK)
        return record_failure(cleaner, now_ms, &err);
    if (rows == 0)
        return end_entry(cleaner, now_ms);
    record_success(cleaner, now_ms);
    if (fenced) {
        cleaner->has_entry = false;
        return IDLE_MS;
    }
    metric_add(&cleaner->lane->metrics->deleted, rows);
    took_ms = lane_now(cleaner->lane, now_ms) - now_ms;
    if (cleaner->early > 0)
        return 0;
    return took_ms > 1 ? took_ms : 1;
}

/* A row that was listed while the lane was behind is kept for longer than the list. Steps are at
 * most REST_MS apart, so that none misses a lane that was behind by CURRENT_MS and as much again.
 */
static void forget_list_of_ids(struct stream_cleaner *cleaner)
{
    if (kind_of(cleaner) == CLEANER_IDS && !lane_is_current(cleaner))
        cleaner->lists[0].is_known = false;
}

static bool partitions_are_due(const struct stream_cleaner *cleaner, int64_t now_ms)
{
    return cleaner->partitions.is_on && !cleaner->has_entry && now_ms >= cleaner->partitions.due_ms;
}

/* The metric is the age of what the reader has not published yet. */
static int64_t find_current_ms(const struct stream_cleaner *cleaner, int64_t now_ms)
{
    if (condition_read(&cleaner->lane->deleting, NULL))
        return 0;
    return now_ms - metric_value(&cleaner->lane->metrics->oldest_age) - SAVED_MS;
}

/* It rests as after a piece of rows; entries of rows may be taken meanwhile. */
static int64_t step_partitions(struct stream_cleaner *cleaner, int64_t now_ms)
{
    struct partition_cleaner *partitions = &cleaner->partitions;
    const struct partition_input input = {.keep_ms = cleaner->keep_ms,
                                          .epoch = cleaner->epoch,
                                          .current_ms = find_current_ms(cleaner, now_ms),
                                          .now_ms = now_ms};
    struct err err = {0};
    enum rc rc = partition_cleaner_step(partitions, &input, &err);
    int64_t end_ms = lane_now(cleaner->lane, now_ms);

    if (rc != RC_OK)
        return record_failure(cleaner, now_ms, &err);
    record_success(cleaner, now_ms);
    if (partitions->held.text[0])
        condition_fail(&cleaner->dropping, now_ms, &partitions->held);
    else
        condition_ok(&cleaner->dropping, now_ms);
    if (partitions->due_ms <= now_ms)
        partitions->due_ms = end_ms + (end_ms - now_ms);
    return end_ms > now_ms ? end_ms - now_ms : 1;
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
    if (cleaner->emptied != atomic_load(&cleaner->lane->emptied))
        cleaner->has_table = cleaner->has_entry = false;
    if (!cleaner->has_table)
        return read_table(cleaner, now_ms);
    forget_list_of_ids(cleaner);
    if (kind_of(cleaner) == CLEANER_IDS && !cleaner->has_entry && now_ms >= cleaner->count_at_ms)
        return count_ids(cleaner, now_ms);
    if (other_is_due(cleaner, now_ms))
        return end_other_entry(cleaner, now_ms);
    if (partitions_are_due(cleaner, now_ms))
        return step_partitions(cleaner, now_ms);
    if (!cleaner->has_entry)
        return take_entry(cleaner, now_ms);
    return delete_piece(cleaner, now_ms);
}
