/* SPDX-License-Identifier: MIT */
#include "outbox/relay/partitions/partition_cleaner.h"

#include "common/db/error.h"
#include "common/log.h"
#include "outbox/relay/partitions/partition_size.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

void partition_cleaner_init(struct partition_cleaner *cleaner, const struct lane *lane,
                            const struct partition_ops *ops)
{
    memset(cleaner, 0, sizeof(*cleaner));
    cleaner->lane = lane;
    cleaner->ops = *ops;
}

void partition_cleaner_done(struct partition_cleaner *cleaner)
{
    seq_set_done(&cleaner->set);
}

void partition_cleaner_reset(struct partition_cleaner *cleaner)
{
    cleaner->phase = PARTITION_LOOKING;
    cleaner->due_ms = 0;
}

void partition_cleaner_begin(struct partition_cleaner *cleaner, bool is_partitioned)
{
    cleaner->is_on = is_partitioned && cleaner->ops.next;
    /* Before the first look no entry is one of rows outside of partitions. */
    cleaner->below = cleaner->high = 0;
    cleaner->limit = INT64_MAX;
    cleaner->made_ms = cleaner->busy_ms = 0;
    cleaner->is_full = false;
    cleaner->prepared = cleaner->without_session = 0;
    cleaner->held.text[0] = '\0';
    partition_cleaner_reset(cleaner);
}

static void wait_for_look(struct partition_cleaner *cleaner, int64_t wait_ms, int64_t now_ms)
{
    cleaner->phase = PARTITION_LOOKING;
    cleaner->due_ms = now_ms + (wait_ms < PARTITION_LOOK_MS ? wait_ms : PARTITION_LOOK_MS);
}

static void keep_partition(struct partition_cleaner *cleaner, const char *why, int64_t now_ms)
{
    const struct partition *partition = &cleaner->partition;

    if (cleaner->told != partition->limit)
        log_event(LOG_WARN, "outbox_partition_kept", "lane=%s table=%s partition=%s text=\"%s\"",
                  cleaner->lane->name, cleaner->lane->own->table, partition->name, why);
    cleaner->told = partition->limit;
    cleaner->doubted = 0;
    cleaner->below = partition->limit;
    cleaner->kept_ms = now_ms + PARTITION_KEPT_MS;
    wait_for_look(cleaner, 0, now_ms);
}

static enum rc make_partition(struct partition_cleaner *cleaner,
                              const struct partition_input *input, struct err *err)
{
    enum rc rc = cleaner->ops.make(cleaner->ops.ctx, input->epoch,
                                   partition_span_ms(input->keep_ms), &cleaner->is_full, err);

    cleaner->made_ms = input->now_ms + PARTITION_LOOK_MS;
    if (rc == RC_OK)
        cleaner->busy_ms = 0;
    return rc;
}

/* Its rows would be kept for much longer than keep_ms before it is finished. */
static bool is_overdue(const struct partition *partition, int64_t keep_ms)
{
    return partition->oldest_ms - keep_ms >= 2 * partition_span_ms(keep_ms);
}

/* A transaction has the table for longer than writers may wait behind the cleaner: a dump, for
 * example. */
static void wait_for_table(struct partition_cleaner *cleaner, int64_t now_ms)
{
    cleaner->busy_ms = cleaner->busy_ms == 0 ? PARTITION_BUSY_MS : 2 * cleaner->busy_ms;
    if (cleaner->busy_ms > PARTITION_BUSY_MS_MAX)
        cleaner->busy_ms = PARTITION_BUSY_MS_MAX;
    if (cleaner->phase == PARTITION_LOOKING)
        cleaner->made_ms = now_ms + cleaner->busy_ms;
    else
        cleaner->due_ms = now_ms + cleaner->busy_ms;
}

static enum rc find_partition(struct partition_cleaner *cleaner, int64_t keep_ms, int64_t now_ms,
                              struct err *err)
{
    struct partition *partition = &cleaner->partition;
    bool is_unfinished;
    bool found = false;
    enum rc rc;

    if (now_ms >= cleaner->kept_ms)
        cleaner->below = 0;
    rc = cleaner->ops.next(cleaner->ops.ctx, cleaner->below, keep_ms, partition, &found, err);
    if (rc != RC_OK)
        return rc;
    cleaner->limit = partition->last_limit;
    if (found && partition->high > cleaner->high)
        cleaner->high = partition->high;
    is_unfinished = found && !partition->is_finished && cleaner->high < partition->limit;
    if (is_unfinished && is_overdue(partition, keep_ms))
        keep_partition(cleaner,
                       "it is filled more slowly than keep_ms allows: its rows are deleted one by "
                       "one until it is finished",
                       now_ms);
    else if (!found || is_unfinished)
        wait_for_look(cleaner, PARTITION_LOOK_MS, now_ms);
    else if (partition->youngest_ms < keep_ms)
        wait_for_look(cleaner, keep_ms - partition->youngest_ms, now_ms);
    else
        cleaner->phase = PARTITION_WAITING;
    cleaner->is_checked = false;
    /* They keep no partition from being dropped now. */
    if (cleaner->phase != PARTITION_WAITING)
        cleaner->prepared = cleaner->without_session = 0;
    return RC_OK;
}

static enum rc wait_for_writers(struct partition_cleaner *cleaner, int64_t now_ms, struct err *err)
{
    struct partition *partition = &cleaner->partition;
    enum rc rc = cleaner->ops.wait_for_writers(cleaner->ops.ctx, partition, err);

    if (rc == RC_OK)
        cleaner->busy_ms = 0;
    if (rc == RC_OK && partition->limit - partition->low > SEQ_SET_SEQS_MAX) {
        keep_partition(cleaner, "it has more seqs than can be compared: make smaller ones", now_ms);
        return RC_OK;
    }
    if (rc == RC_OK)
        rc = seq_set_begin(&cleaner->set, partition->low, partition->limit, err);
    if (rc != RC_OK)
        return rc;
    cleaner->cursor = (struct entry_cursor){0};
    cleaner->phase = PARTITION_CHECKING;
    return RC_OK;
}

/* Rows of a prepared transaction cannot be seen until it is committed. One that has a session held
 * its metadata locks until the wait for the writers, unless its session was just ending: so it is
 * looked at again before the rows are compared. One without a session may also be a short one of
 * the server itself: it is told when the look before has met one, too. */
static enum rc check_prepared(struct partition_cleaner *cleaner, int64_t now_ms, struct err *err)
{
    int64_t with_session = 0;
    int64_t without_session = 0;
    enum rc rc =
        cleaner->ops.count_prepared(cleaner->ops.ctx, &without_session, &with_session, err);

    if (rc != RC_OK)
        return rc;
    cleaner->prepared = cleaner->without_session > 0 ? without_session : 0;
    cleaner->without_session = without_session;
    if (without_session > 0) {
        wait_for_look(cleaner, PARTITION_LOOK_MS, now_ms);
    } else if (with_session > 0 && !cleaner->is_checked) {
        cleaner->is_checked = true;
        cleaner->due_ms = now_ms + PARTITION_CHECK_MS;
    } else {
        cleaner->phase = PARTITION_FILLING;
    }
    return RC_OK;
}

static enum rc fill_set(struct partition_cleaner *cleaner, struct err *err)
{
    bool more = false;
    enum rc rc = cleaner->ops.fill(cleaner->ops.ctx, &cleaner->partition, &cleaner->cursor,
                                   &cleaner->set, &more, err);

    if (rc != RC_OK || more)
        return rc;
    /* Not from partition.low on: a prepared transaction may have been committed since that was
     * read, with a row below it, and a row that is not in the set is not published. */
    cleaner->at = 0;
    cleaner->rows = 0;
    cleaner->phase = PARTITION_SCANNING;
    return RC_OK;
}

/* The lane may not have read the row in the log yet, or not have saved it. */
static void doubt_partition(struct partition_cleaner *cleaner, const struct partition_input *input)
{
    if (cleaner->doubted != cleaner->partition.limit) {
        cleaner->doubted = cleaner->partition.limit;
        cleaner->doubt_ms = input->now_ms;
    }
    if (input->current_ms > cleaner->doubt_ms)
        keep_partition(cleaner,
                       "it has rows that are not known to be published; the others are deleted one "
                       "by one",
                       input->now_ms);
    else
        wait_for_look(cleaner, PARTITION_LOOK_MS, input->now_ms);
}

static enum rc scan_rows(struct partition_cleaner *cleaner, const struct partition_input *input,
                         struct err *err)
{
    int64_t rows = 0;
    int64_t unpublished = 0;
    enum rc rc = cleaner->ops.scan(cleaner->ops.ctx, &cleaner->partition, &cleaner->set,
                                   &cleaner->at, &rows, &unpublished, err);

    if (rc != RC_OK)
        return rc;
    cleaner->rows += rows;
    if (unpublished > 0)
        doubt_partition(cleaner, input);
    else if (cleaner->at >= cleaner->partition.limit)
        cleaner->phase = PARTITION_DROPPING;
    return RC_OK;
}

static enum rc drop_partition(struct partition_cleaner *cleaner, int64_t epoch, int64_t now_ms,
                              struct err *err)
{
    const struct lane *lane = cleaner->lane;
    const struct partition *partition = &cleaner->partition;
    bool fenced = false;
    enum rc rc = cleaner->ops.drop(cleaner->ops.ctx, partition, epoch, &fenced, err);

    if (rc != RC_OK)
        return rc;
    cleaner->busy_ms = 0;
    if (fenced) {
        wait_for_look(cleaner, PARTITION_LOOK_MS, now_ms);
        return RC_OK;
    }
    metric_add(&lane->metrics->deleted, cleaner->rows);
    log_event(LOG_INFO, "outbox_partition_dropped",
              "lane=%s table=%s partition=%s below=%" PRId64 " rows=%" PRId64, lane->name,
              lane->own->table, partition->name, partition->limit, cleaner->rows);
    /* Those before have rows in partitions that are kept. */
    cleaner->cursor = (struct entry_cursor){.first_seq = cleaner->below};
    cleaner->phase = PARTITION_ENDING;
    return RC_OK;
}

static enum rc end_entries(struct partition_cleaner *cleaner, int64_t now_ms, struct err *err)
{
    bool more = false;
    enum rc rc =
        cleaner->ops.end(cleaner->ops.ctx, &cleaner->partition, &cleaner->cursor, &more, err);

    if (rc == RC_OK && !more)
        wait_for_look(cleaner, 0, now_ms);
    return rc;
}

static enum rc run_phase(struct partition_cleaner *cleaner, const struct partition_input *input,
                         struct err *err)
{
    switch (cleaner->phase) {
    case PARTITION_LOOKING:
        if (input->now_ms >= cleaner->made_ms)
            return make_partition(cleaner, input, err);
        return find_partition(cleaner, input->keep_ms, input->now_ms, err);
    case PARTITION_WAITING:
        return wait_for_writers(cleaner, input->now_ms, err);
    case PARTITION_CHECKING:
        return check_prepared(cleaner, input->now_ms, err);
    case PARTITION_FILLING:
        return fill_set(cleaner, err);
    case PARTITION_SCANNING:
        return scan_rows(cleaner, input, err);
    case PARTITION_DROPPING:
        return drop_partition(cleaner, input->epoch, input->now_ms, err);
    case PARTITION_ENDING:
        return end_entries(cleaner, input->now_ms, err);
    }
    return RC_OK;
}

static void tell_why_held(struct partition_cleaner *cleaner)
{
    const char *table = cleaner->lane->own->table;

    cleaner->held.text[0] = '\0';
    if (cleaner->prepared > 0)
        err_set(&cleaner->held,
                "partitions of table %s are not dropped, because the server has %" PRId64
                " transactions without a session, whose rows cannot be seen: prepared ones (XA "
                "RECOVER), which XA COMMIT or XA ROLLBACK ends, or ones that are rolled back after "
                "a crash",
                table, cleaner->prepared);
    else if (cleaner->busy_ms == PARTITION_BUSY_MS_MAX)
        err_set(&cleaner->held,
                "partitions of table %s are neither dropped nor made, because transactions that "
                "have used it, also to read it, are open for long (information_schema.innodb_trx "
                "lists them; a prepared one is ended by XA COMMIT or XA ROLLBACK)",
                table);
    else if (cleaner->is_full)
        err_set(&cleaner->held,
                "no partition of table %s is made, because too many rows are in the one without a "
                "limit and would be copied while writers wait: split its last partition; until "
                "then its rows are deleted one by one",
                table);
}

enum rc partition_cleaner_step(struct partition_cleaner *cleaner,
                               const struct partition_input *input, struct err *err)
{
    const struct lane *lane = cleaner->lane;
    enum rc rc;

    assert(cleaner->is_on && input->epoch > 0);
    cleaner->due_ms = input->now_ms;
    rc = run_phase(cleaner, input, err);
    if (rc == RC_RETRY && err->code == DB_LOCK_TIMEOUT) {
        wait_for_table(cleaner, input->now_ms);
        rc = RC_OK;
    }
    /* They were removed since they were looked for. */
    if (rc != RC_OK && err->code == DB_NO_PARTITIONS) {
        wait_for_look(cleaner, PARTITION_LOOK_MS, input->now_ms);
        rc = RC_OK;
    }
    tell_why_held(cleaner);
    if (rc == RC_OK)
        return RC_OK;
    partition_cleaner_reset(cleaner);
    if (rc != RC_REJECT)
        return rc;
    log_event(LOG_WARN, "outbox_partitions_not_dropped", "lane=%s table=%s err=\"%s\"", lane->name,
              lane->own->table, err->text);
    cleaner->is_on = false;
    cleaner->held.text[0] = '\0';
    return RC_OK;
}
