/* SPDX-License-Identifier: MIT */
#include "outbox/relay/stream/stream_batches.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define RUNS_FIRST 8

/* Of one call: rows that are skipped and transactions of other tables count, too. */
#define CHANGES_MAX 10000

static void forget_transaction(struct stream_batches *batches)
{
    batches->state = STREAM_COLLECTS;
    batches->skip = 0;
    batches->last_number = 0;
    batches->seen = 0;
    batches->run_count = 0;
    batches->run = 0;
}

static void forget_rows(struct stream_batches *batches)
{
    relay_batch_reset(&batches->held);
    batches->has_row = false;
    forget_transaction(batches);
}

/* The row that was read last stays, for the present. */
static enum rc add_to_runs(struct stream_batches *batches, struct err *err)
{
    struct stream_run *runs = batches->runs;
    size_t size = batches->runs_size ? 2 * batches->runs_size : RUNS_FIRST;

    if (batches->run_count > 0 && runs[batches->run_count - 1].to + 1 == batches->seen) {
        runs[batches->run_count - 1].to++;
        return RC_OK;
    }
    if (batches->run_count == batches->runs_size) {
        runs = realloc(runs, size * sizeof(*runs));
        if (!runs)
            return err_fail(err, RC_FATAL, 0, "no memory for %zu parts of a transaction", size);
        batches->runs = runs;
        batches->runs_size = size;
    }
    runs[batches->run_count++] = (struct stream_run){batches->seen, batches->seen};
    return RC_OK;
}

/* Only the first `rows` rows stay. */
static void cut_runs(struct stream_batches *batches, uint64_t rows)
{
    for (size_t i = 0; i < batches->run_count; i++) {
        struct stream_run *run = &batches->runs[i];
        uint64_t length = run->to - run->from + 1;

        if (length > rows) {
            run->to = run->from + rows - 1;
            batches->run_count = rows > 0 ? i + 1 : i;
            return;
        }
        rows -= length;
    }
}

/* Whether the row that was read last stays. They are asked for in their order. */
static bool is_in_runs(struct stream_batches *batches)
{
    while (batches->run < batches->run_count && batches->runs[batches->run].to < batches->seen)
        batches->run++;
    return batches->run < batches->run_count && batches->runs[batches->run].from <= batches->seen;
}

/* Reads the next change that matters, and counts rows. */
static enum rc read_change(struct stream_batches *batches, struct err *err)
{
    enum rc rc;

    do {
        batches->change.counts_only = batches->state == STREAM_SCANS;
        rc = batches->ops.next(batches->ops.ctx, &batches->change, err);
        if (rc != RC_OK || batches->change.kind != STREAM_ROW)
            return rc;
        batches->seen++;
        if (batches->state != STREAM_PASSES)
            return add_to_runs(batches, err);
    } while (!is_in_runs(batches));
    return RC_OK;
}

static void take_undo(struct stream_batches *batches, struct relay_batch *batch, size_t committed)
{
    uint64_t number = batches->change.number;
    uint64_t stay = number > batches->skip ? number - batches->skip : 0;

    /* The second time it is known which rows stay. */
    if (batches->state == STREAM_PASSES)
        return;
    cut_runs(batches, stay);
    if (batches->state == STREAM_COLLECTS && stay < batch->count - committed)
        relay_batch_cut(batch, committed + (size_t)stay);
}

static enum rc take_cut(struct stream_batches *batches, struct relay_batch *batch, size_t committed,
                        struct err *err)
{
    if (batches->state == STREAM_PASSES)
        return err_fail(err, RC_FATAL, 0,
                        "a transaction whose end was read is cut off when it is read again");
    relay_batch_cut(batch, committed);
    forget_transaction(batches);
    return RC_OK;
}

/* Of a transaction that was read the first time some rows stay, and it is read again. */
static enum rc take_commit_of_scan(struct stream_batches *batches, struct err *err)
{
    if (batches->run_count == 0) {
        forget_transaction(batches);
        return RC_OK;
    }
    batches->state = STREAM_PASSES;
    batches->seen = 0;
    batches->run = 0;
    return batches->ops.open(batches->ops.ctx, &batches->start, err);
}

/* The rows of one transaction fill a batch. */
static enum rc take_large_transaction(struct stream_batches *batches, struct relay_batch *batch,
                                      struct err *err)
{
    enum rc rc;

    if (batch->count == 0)
        return err_fail(err, RC_FATAL, 0,
                        "a row of %zu bytes does not fit into a batch of %zu, even without its "
                        "payload: set relay.read_bytes_max above its size",
                        relay_row_bytes(&batches->change.row), batch->arena_size);
    rc = batches->ops.position(batches->ops.ctx, &batches->start, err);
    batches->start.rows_done = batches->skip;
    batches->state = STREAM_SCANS;
    relay_batch_reset(batch);
    return rc;
}

/* Adds the last row to the batch. *full: it has to wait for the next one. */
static enum rc take_row(struct stream_batches *batches, struct relay_batch *batch, size_t committed,
                        bool *full, struct err *err)
{
    enum rc rc = RC_OK;

    if (batches->state == STREAM_SCANS)
        return RC_OK;
    if (relay_batch_add(batch, &batches->change.row)) {
        if (batches->state == STREAM_PASSES)
            batches->last_number = batches->change.number;
        return RC_OK;
    }
    if (committed == 0 && (batches->state == STREAM_COLLECTS || batch->count == 0))
        rc = take_large_transaction(batches, batch, err);
    else
        batches->has_row = true;
    *full = batches->has_row;
    return rc;
}

static enum rc fill_batch(struct stream_batches *batches, struct relay_batch *batch,
                          size_t rows_enough, size_t *committed, bool *more, struct err *err)
{
    bool full = false;
    enum rc rc = RC_OK;

    for (size_t changes = 0; rc == RC_OK && !full && changes < CHANGES_MAX; changes++) {
        if (!batches->has_row)
            rc = read_change(batches, err);
        batches->has_row = false;
        if (rc != RC_OK)
            break;
        switch (batches->change.kind) {
        case STREAM_NOTHING:
            *more = false;
            return RC_OK;
        case STREAM_ROW:
            rc = take_row(batches, batch, *committed, &full, err);
            break;
        case STREAM_UNDO:
            take_undo(batches, batch, *committed);
            break;
        case STREAM_CUT:
            rc = take_cut(batches, batch, *committed, err);
            break;
        case STREAM_COMMIT:
            if (batches->state == STREAM_SCANS) {
                rc = take_commit_of_scan(batches, err);
                break;
            }
            *committed = batch->count;
            forget_transaction(batches);
            batches->emptied = batches->change.emptied;
            full = *committed >= rows_enough || batches->emptied;
            break;
        }
    }
    return rc;
}

/* The rows of the transaction that is not committed wait in `held`, which has the size of a batch.
 */
static void hold_rows(struct stream_batches *batches, struct relay_batch *batch, size_t committed)
{
    for (size_t i = committed; i < batch->count; i++)
        if (!relay_batch_add(&batches->held, &batch->rows[i]))
            assert(false);
    relay_batch_cut(batch, committed);
}

static void take_held_rows(struct stream_batches *batches, struct relay_batch *batch)
{
    for (size_t i = 0; i < batches->held.count; i++)
        if (!relay_batch_add(batch, &batches->held.rows[i]))
            assert(false);
    relay_batch_reset(&batches->held);
}

static enum rc write_position(struct stream_batches *batches, struct stream_position *position,
                              struct err *err)
{
    enum rc rc = batches->ops.position(batches->ops.ctx, position, err);

    position->rows_done = batches->last_number > 0 ? batches->last_number : batches->skip;
    return rc;
}

enum rc stream_batches_init(struct stream_batches *batches, const struct stream_ops *ops,
                            size_t rows_max, size_t bytes, struct err *err)
{
    memset(batches, 0, sizeof(*batches));
    batches->ops = *ops;
    return relay_batch_init(&batches->held, rows_max, bytes, err);
}

void stream_batches_done(struct stream_batches *batches)
{
    relay_batch_done(&batches->held);
    buf_done(&batches->start.before);
    free(batches->runs);
    memset(batches, 0, sizeof(*batches));
}

enum rc stream_batches_open(struct stream_batches *batches, const struct stream_position *from,
                            struct err *err)
{
    forget_rows(batches);
    batches->skip = from->rows_done;
    return batches->ops.open(batches->ops.ctx, from, err);
}

enum rc stream_batches_fill(struct stream_batches *batches, struct relay_batch *batch,
                            size_t rows_enough, struct stream_position *position, bool *more,
                            struct err *err)
{
    size_t committed = 0;
    enum rc rc;

    *more = true;
    batches->emptied = false;
    relay_batch_reset(batch);
    take_held_rows(batches, batch);
    rc = fill_batch(batches, batch, rows_enough, &committed, more, err);
    if (rc == RC_OK && batches->state != STREAM_PASSES)
        hold_rows(batches, batch, committed);
    if (rc == RC_OK && position)
        rc = write_position(batches, position, err);
    if (rc == RC_OK)
        return RC_OK;
    relay_batch_reset(batch);
    forget_rows(batches);
    return rc;
}
