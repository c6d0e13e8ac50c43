/* SPDX-License-Identifier: MIT */
#include "consumer/ingest/batch.h"

#include "consumer/apply/date.h"
#include "consumer/ingest/record.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROWS_FIRST 64

void batch_init(struct batch *batch, size_t rows_max, size_t bytes_max)
{
    memset(batch, 0, sizeof(*batch));
    batch->rows_max = rows_max;
    batch->bytes_max = bytes_max;
    buf_init(&batch->bytes, 0);
}

void batch_done(struct batch *batch)
{
    free(batch->rows);
    free(batch->dead);
    free(batch->records);
    buf_done(&batch->bytes);
    memset(batch, 0, sizeof(*batch));
}

void batch_reset(struct batch *batch, int64_t from_offset, int32_t leader_epoch)
{
    batch->row_count = 0;
    batch->dead_count = 0;
    if (batch->bytes.size > batch->bytes_max)
        buf_done(&batch->bytes);
    buf_reset(&batch->bytes);
    batch->record_bytes = 0;
    batch->from_offset = from_offset;
    batch->next_offset = from_offset;
    batch->leader_epoch = leader_epoch;
    batch->oldest_ms = -1;
    batch->begin_day = 0;
    batch->whole = false;
}

size_t batch_count(const struct batch *batch)
{
    return batch->row_count + batch->dead_count;
}

size_t batch_room(const struct batch *batch)
{
    size_t count = batch_count(batch);

    if (count >= batch->rows_max || batch->record_bytes >= batch->bytes_max)
        return 0;
    return batch->rows_max - count;
}

/* Makes room for one more element. The size doubles, so growing is rare and ends. */
static enum rc grow_array(void **array, size_t *size, size_t count, size_t element, size_t max,
                          struct err *err)
{
    size_t wanted = *size > 0 ? *size * 2 : ROWS_FIRST;
    void *grown;

    if (count < *size)
        return RC_OK;
    if (wanted > max && count < max)
        wanted = max;
    grown = realloc(*array, wanted * element);
    if (!grown)
        return err_fail(err, RC_FATAL, 0, "no memory for a batch of %zu records", wanted);
    *array = grown;
    *size = wanted;
    return RC_OK;
}

static enum rc grow_records(struct batch *batch, struct err *err)
{
    void *records = batch->records;
    enum rc rc = grow_array(&records, &batch->record_size, batch->row_count,
                            sizeof(*batch->records), batch->rows_max, err);

    batch->records = records;
    return rc;
}

static enum rc grow_rows(struct batch *batch, struct err *err)
{
    void *rows = batch->rows;
    enum rc rc = grow_array(&rows, &batch->row_size, batch->row_count, sizeof(*batch->rows),
                            batch->rows_max, err);

    batch->rows = rows;
    return rc;
}

static enum rc grow_dead(struct batch *batch, struct err *err)
{
    void *dead = batch->dead;
    enum rc rc = grow_array(&dead, &batch->dead_size, batch->dead_count, sizeof(*batch->dead),
                            batch->rows_max, err);

    batch->dead = dead;
    return rc;
}

/* Copies a record with key, value, headers and reason into the batch, and fills *out. A vote has no
 * reason yet. */
static enum rc keep_record(struct batch *batch, const struct record *record,
                           const char *reason_class, const char *reason, batch_headers headers,
                           void *headers_ctx, struct batch_dead *out, struct err *err)
{
    struct batch_dead dead = {.offset = record->offset,
                              .time_ms = record->time_ms,
                              .has_key = record->key != NULL,
                              .has_value = record->value != NULL,
                              .reason_class = reason_class};
    struct buf *bytes = &batch->bytes;
    size_t begin = bytes->len;

    dead.key_at = bytes->len;
    if (record->key)
        buf_put(bytes, record->key, record->key_len);
    dead.value_at = bytes->len;
    if (record->value)
        buf_put(bytes, record->value, record->value_len);
    dead.headers_at = bytes->len;
    headers(headers_ctx, record, bytes);
    dead.reason_at = bytes->len;
    record_put_reason(bytes, reason);
    dead.end = bytes->len;
    if (bytes->failed) {
        buf_cut(bytes, begin);
        bytes->failed = false;
        return err_fail(err, RC_FATAL, 0, "no memory to keep the record at offset %" PRId64,
                        record->offset);
    }
    *out = dead;
    return RC_OK;
}

static enum rc add_dead(struct batch *batch, const struct record *record, const char *reason_class,
                        const char *reason, batch_headers headers, void *headers_ctx,
                        struct err *err)
{
    enum rc rc = grow_dead(batch, err);

    if (rc == RC_OK)
        rc = keep_record(batch, record, reason_class, reason, headers, headers_ctx,
                         &batch->dead[batch->dead_count], err);
    if (rc == RC_OK)
        batch->dead_count++;
    return rc;
}

/* Adds the row of a vote or a tombstone, whose event is decided already. */
static enum rc add_row(struct batch *batch, const struct record *record, batch_headers headers,
                       void *headers_ctx, struct err *err)
{
    struct vote_row *row = &batch->rows[batch->row_count];
    enum rc rc = batch->whole ? grow_records(batch, err) : RC_OK;

    if (rc == RC_OK && batch->whole)
        rc = keep_record(batch, record, NULL, "", headers, headers_ctx,
                         &batch->records[batch->row_count], err);
    if (rc != RC_OK)
        return rc;
    row->offset = record->offset;
    row->skip = false;
    row->stale = false;
    row->hold = HOLD_NONE;
    batch->row_count++;
    return RC_OK;
}

enum rc batch_add(struct batch *batch, const struct record *record, batch_headers headers,
                  void *headers_ctx, struct err *err)
{
    struct err reason = {0};
    const char *reason_class = NULL;
    struct vote_row *row;
    int64_t content_id;
    enum rc rc = grow_rows(batch, err);

    if (rc != RC_OK)
        return rc;
    row = &batch->rows[batch->row_count];
    row->ends = record_is_end(record, &content_id);
    if (row->ends)
        row->event = (struct vote_event){.content_id = content_id};
    else
        rc = record_decide(record, RECORD_KEY, batch->begin_day, &row->event, &reason_class,
                           &reason);
    if (rc == RC_OK) {
        rc = add_row(batch, record, headers, headers_ctx, err);
    } else if (rc == RC_REJECT) {
        rc = add_dead(batch, record, reason_class, reason.text, headers, headers_ctx, err);
    } else if (err) {
        *err = reason;
    }
    if (rc != RC_OK)
        return rc;
    if (batch_count(batch) == 1)
        batch->oldest_ms = record->time_ms;
    batch->record_bytes += record->key_len + record->value_len;
    batch->next_offset = record->offset + 1;
    if (record->leader_epoch >= 0)
        batch->leader_epoch = record->leader_epoch;
    return RC_OK;
}

void batch_pass(struct batch *batch, int64_t next_offset)
{
    batch->next_offset = next_offset;
    batch->leader_epoch = -1;
}

bool batch_moves(const struct batch *batch)
{
    return batch->next_offset > batch->from_offset;
}

bool batch_has_older(const struct batch *batch, int64_t begin_day, int64_t next_offset)
{
    for (size_t i = 0; i < batch->row_count; i++)
        if (batch->rows[i].offset >= next_offset && !batch->rows[i].ends &&
            batch->rows[i].event.occurred_ms / MS_PER_DAY < begin_day)
            return true;
    return false;
}

static void fill_view(const struct batch *batch, const struct batch_dead *dead,
                      struct dead_row *view)
{
    const char *bytes = batch->bytes.data;

    *view = (struct dead_row){
        .offset = dead->offset,
        .time_ms = dead->time_ms,
        .key = dead->has_key ? bytes + dead->key_at : NULL,
        .key_len = dead->value_at - dead->key_at,
        .value = dead->has_value ? bytes + dead->value_at : NULL,
        .value_len = dead->headers_at - dead->value_at,
        .headers = bytes + dead->headers_at,
        .headers_len = dead->reason_at - dead->headers_at,
        .reason_class = dead->reason_class,
        .reason = bytes + dead->reason_at,
        .reason_len = dead->end - dead->reason_at,
    };
}

void batch_dead_view(const struct batch *batch, size_t index, struct dead_row *view)
{
    fill_view(batch, &batch->dead[index], view);
}

void batch_vote_view(const struct batch *batch, size_t index, const char *reason_class,
                     const char *reason, struct dead_row *view)
{
    fill_view(batch, &batch->records[index], view);
    view->reason_class = reason_class;
    view->reason = reason;
    view->reason_len = strlen(reason);
}
