/* SPDX-License-Identifier: MIT */
#include "outbox/relay/replay/replay_table.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

void replay_table_init(struct replay_table *table, const struct replay_table_ops *ops,
                       struct replay_place after, int64_t last_entry)
{
    memset(table, 0, sizeof(*table));
    table->ops = *ops;
    table->place = after;
    table->last_entry = last_entry;
}

void replay_table_done(struct replay_table *table)
{
    buf_done(&table->entry.seqs);
    memset(table, 0, sizeof(*table));
}

/* Drops the seqs up to `seq` from the ranges that are to be read. */
static void drop_read_seqs(struct replay_table *table, int64_t seq)
{
    size_t kept = 0;

    for (size_t i = 0; i < table->range_count; i++) {
        struct seq_range range = table->ranges[i];

        if (range.to <= seq)
            continue;
        if (range.from <= seq)
            range.from = seq + 1;
        table->ranges[kept++] = range;
    }
    table->range_count = kept;
}

static enum rc take_entry(struct replay_table *table, bool *complete, struct err *err)
{
    bool found = false;
    int64_t from = table->has_entry ? table->entry.number + 1 : table->place.entry;
    enum rc rc =
        table->ops.entry(table->ops.ctx, from, table->last_entry, &table->entry, &found, err);

    if (rc == RC_OK && table->entry.seqs.failed)
        rc = err_fail(err, RC_FATAL, 0, "no memory for the seqs of published rows");
    if (rc != RC_OK)
        return rc;
    *complete = !found;
    if (!found)
        return RC_OK;
    table->has_entry = true;
    table->seqs = (struct seq_ranges){.data = table->entry.seqs.data, .len = table->entry.seqs.len};
    if (table->place.entry != table->entry.number)
        table->place = (struct replay_place){table->entry.number, 0};
    return RC_OK;
}

static enum rc take_ranges(struct replay_table *table, bool *complete, struct err *err)
{
    enum rc rc = seq_ranges_read(&table->seqs, table->ranges, DELETER_RANGES_MAX, REPLAY_SEQS_MAX,
                                 &table->range_count, err);

    if (rc != RC_OK) {
        err_wrap(err, "row %" PRId64 " of relay_published", table->entry.number);
        return rc;
    }
    if (table->range_count == 0)
        return take_entry(table, complete, err);
    drop_read_seqs(table, table->place.seq);
    return RC_OK;
}

struct reading {
    struct replay_table *table;
    struct relay_batch *batch;
};

static bool add_row(void *ctx, const struct relay_row *row)
{
    struct reading *reading = ctx;

    reading->table->full = !relay_batch_add(reading->batch, row);
    return !reading->table->full;
}

/* Reads the next batch from the present ranges; it may get no row. */
static enum rc read_ranges(struct replay_table *table, struct relay_batch *batch, struct err *err)
{
    struct reading reading = {table, batch};
    int64_t to = table->ranges[table->range_count - 1].to;
    enum rc rc;

    table->full = false;
    rc = table->ops.rows(table->ops.ctx, table->ranges, table->range_count, batch->rows_max + 1,
                         add_row, &reading, err);
    if (rc != RC_OK)
        return rc;
    assert(!table->full || batch->count > 0); /* any row fits into an empty batch */
    table->read_to = table->full ? batch->rows[batch->count - 1].seq : to;
    drop_read_seqs(table, table->read_to);
    return RC_OK;
}

static enum rc read_rows(void *ctx, struct relay_batch *batch, bool *complete, struct err *err)
{
    struct replay_table *table = ctx;

    relay_batch_reset(batch);
    if (table->range_count > 0)
        return read_ranges(table, batch, err);
    if (table->has_entry)
        return take_ranges(table, complete, err);
    return take_entry(table, complete, err);
}

static void pass_rows(void *ctx, const struct relay_batch *batch)
{
    struct replay_table *table = ctx;

    if (batch->next > 0)
        table->place.seq = batch->rows[batch->next - 1].seq;
    if (batch->next < batch->count)
        return;
    if (table->read_to > table->place.seq)
        table->place.seq = table->read_to;
    table->read_to = 0;
}

struct replay_source replay_table_source(struct replay_table *table)
{
    return (struct replay_source){table, read_rows, pass_rows};
}

bool replay_place_read(struct replay_place *place, const char *text)
{
    char *end = NULL;

    if (text[0] < '0' || text[0] > '9')
        return false;
    errno = 0;
    place->entry = strtoll(text, &end, 10);
    if (*end != '/' || end[1] < '0' || end[1] > '9')
        return false;
    place->seq = strtoll(end + 1, &end, 10);
    return *end == '\0' && errno == 0;
}
