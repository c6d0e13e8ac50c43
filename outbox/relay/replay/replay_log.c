/* SPDX-License-Identifier: MIT */
#include "outbox/relay/replay/replay_log.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NOT_SELECTED (-1) /* as the time of a row */

enum rc replay_log_find_file(const struct replay_log_ops *ops, size_t count, int64_t from_ms,
                             size_t *number, int64_t *oldest_ms, struct err *err)
{
    size_t low = 0; /* the file to find is this one or a later one, before high */
    size_t high = count;
    enum rc rc;

    assert(count > 0);
    rc = ops->file_begin(ops->ctx, 0, oldest_ms, err);
    if (rc == RC_OK && from_ms < *oldest_ms)
        return err_fail(err, RC_REJECT, 0, "the binary log begins after this time");
    while (rc == RC_OK && high - low > 1) {
        size_t middle = low + (high - low) / 2;
        int64_t begin_ms = 0;

        rc = ops->file_begin(ops->ctx, middle, &begin_ms, err);
        if (begin_ms <= from_ms - REPLAY_LOG_SLACK_MS)
            low = middle;
        else
            high = middle;
    }
    if (rc == RC_OK)
        *number = low;
    return rc;
}

static bool is_text(struct bytes value, const char *text)
{
    return !text ||
           (value.data && value.len == strlen(text) && memcmp(value.data, text, value.len) == 0);
}

/* The time of the row's transaction if the row is selected. */
static int64_t choose_time(const struct replay_log *log, const struct relay_row *row)
{
    const struct replay_log_options *options = &log->options;
    const struct stream_place place = log->ops.log.place(log->ops.log.ctx);
    int64_t ms = place.time_s * 1000;

    if (ms < options->from_ms || ms >= options->to_ms ||
        !is_text(row->aggregate_id, options->key) || !is_text(row->type, options->type) ||
        !log->ops.is_published(log->ops.ctx, &place))
        return NOT_SELECTED;
    return ms;
}

static enum rc open_stream(void *ctx, const struct stream_position *from, struct err *err)
{
    const struct stream_ops *stream = &((struct replay_log *)ctx)->ops.log.stream;

    return stream->open(stream->ctx, from, err);
}

/* A row that is not selected is counted, so it comes without its bytes. */
static enum rc read_change(void *ctx, struct stream_change *change, struct err *err)
{
    struct replay_log *log = ctx;
    const struct stream_ops *stream = &log->ops.log.stream;
    bool counts_only = change->counts_only;
    enum rc rc = stream->next(stream->ctx, change, err);

    if (rc != RC_OK || change->kind != STREAM_ROW || counts_only)
        return rc;
    change->row.epoch = choose_time(log, &change->row);
    if (change->row.epoch == NOT_SELECTED)
        change->row = (struct relay_row){.epoch = NOT_SELECTED};
    return RC_OK;
}

static enum rc write_position(void *ctx, struct stream_position *position, struct err *err)
{
    const struct stream_ops *stream = &((struct replay_log *)ctx)->ops.log.stream;

    return stream->position(stream->ctx, position, err);
}

enum rc replay_log_init(struct replay_log *log, const struct replay_log_options *options,
                        const struct replay_log_ops *ops, struct err *err)
{
    const struct stream_ops stream = {
        .ctx = log, .open = open_stream, .next = read_change, .position = write_position};

    memset(log, 0, sizeof(*log));
    log->options = *options;
    log->ops = *ops;
    log->place = options->after;
    log->base = log->batch_base = options->after.at;
    log->skip = options->after.rows;
    return stream_batches_init(&log->batches, &stream, options->rows_max, options->batch_bytes,
                               err);
}

void replay_log_done(struct replay_log *log)
{
    stream_batches_done(&log->batches);
    buf_done(&log->start.before);
    buf_done(&log->behind.before);
    memset(log, 0, sizeof(*log));
}

static enum rc open_at_base(struct replay_log *log, struct err *err)
{
    enum rc rc;

    snprintf(log->start.file, sizeof(log->start.file), "%s", log->base.file);
    log->start.offset = log->base.offset;
    log->passed = 0;
    rc = stream_batches_open(&log->batches, &log->start, err);
    log->open = rc == RC_OK;
    return rc;
}

/* Rows up to passed or skip are done: the batch is. */
static void note_loss(struct replay_log *log)
{
    if (log->passed > log->skip)
        log->skip = log->passed;
    log->passed = 0;
    log->open = false;
}

/* Numbers the rows and drops those that are done or not selected. */
static void keep_selected(struct replay_log *log, struct relay_batch *batch)
{
    size_t kept = 0;

    log->batch_base = log->base;
    for (size_t i = 0; i < batch->count; i++) {
        struct relay_row *row = &batch->rows[i];

        row->seq = (int64_t)++log->passed;
        if (log->passed > log->skip && row->epoch != NOT_SELECTED)
            batch->rows[kept++] = *row;
    }
    batch->count = kept;
}

/* Later rows are counted from behind the batch, unless that is inside of a transaction, or where no
 * stream can be opened. */
static void advance_base(struct replay_log *log)
{
    if (log->behind.rows_done > 0 || log->behind.offset > UINT32_MAX)
        return;
    memcpy(log->base.file, log->behind.file, sizeof(log->base.file));
    log->base.offset = log->behind.offset;
    log->skip -= log->skip > log->passed ? log->passed : log->skip;
    log->passed = 0;
}

/* Whether no row that is read later can be selected. */
static bool is_at_end(const struct replay_log *log, bool more)
{
    const struct replay_log_options *options = &log->options;
    const struct stream_position *behind = &log->behind;
    const struct stream_log *stream = &log->ops.log;

    if (!more && stream->has_ended(stream->ctx))
        return true;
    if (behind->rows_done > 0)
        return false;
    if (stream_place_compare(behind->file, behind->offset, options->end.file,
                             options->end.offset) >= 0)
        return true;
    return stream->place(stream->ctx).file_time_s * 1000 >= options->to_ms + REPLAY_LOG_SLACK_MS;
}

static enum rc read_rows(void *ctx, struct relay_batch *batch, bool *complete, struct err *err)
{
    struct replay_log *log = ctx;
    bool more = true;
    enum rc rc = RC_OK;

    relay_batch_reset(batch);
    *complete = log->complete;
    if (log->complete)
        return RC_OK;
    if (!log->open)
        rc = open_at_base(log, err);
    if (rc == RC_OK)
        rc = stream_batches_fill(&log->batches, batch, batch->rows_max, &log->behind, &more, err);
    if (rc != RC_OK) {
        note_loss(log);
        return rc;
    }
    keep_selected(log, batch);
    advance_base(log);
    log->complete = is_at_end(log, more);
    return RC_OK;
}

static void pass_rows(void *ctx, const struct relay_batch *batch)
{
    struct replay_log *log = ctx;

    if (batch->next == batch->count) {
        log->place.at = log->base;
        log->place.rows = log->passed > log->skip ? log->passed : log->skip;
    } else if (batch->next > 0) {
        log->place.at = log->batch_base;
        log->place.rows = (uint64_t)batch->rows[batch->next - 1].seq;
    }
}

struct replay_source replay_log_source(struct replay_log *log)
{
    return (struct replay_source){log, read_rows, pass_rows};
}

void replay_log_place_put(const struct replay_log_place *place, struct buf *out)
{
    buf_print(out, "%s/%" PRIu64 "/%" PRIu64 "@%s", place->at.file, place->at.offset, place->rows,
              place->server);
}

/* Reads a number behind the slash at `at`, which ends at `end`. */
static bool read_number(const char *at, const char *end, uint64_t most, uint64_t *number)
{
    char *stop = NULL;

    if (at[1] < '0' || at[1] > '9')
        return false;
    errno = 0;
    *number = strtoull(at + 1, &stop, 10);
    return stop == end && errno == 0 && *number <= most;
}

/* The last slash before `end`, or NULL. */
static const char *find_slash(const char *text, const char *end)
{
    while (end > text && *--end != '/')
        ;
    return *end == '/' ? end : NULL;
}

bool replay_log_place_read(struct replay_log_place *place, const char *text)
{
    const char *at = strrchr(text, '@');
    const char *rows = at ? find_slash(text, at) : NULL;
    const char *offset = rows ? find_slash(text, rows) : NULL;

    memset(place, 0, sizeof(*place));
    if (!offset || offset == text || (size_t)(offset - text) >= sizeof(place->at.file) ||
        strlen(at + 1) >= sizeof(place->server) || !at[1])
        return false;
    memcpy(place->at.file, text, (size_t)(offset - text));
    memcpy(place->server, at + 1, strlen(at + 1));
    return read_number(rows, at, INT64_MAX, &place->rows) &&
           read_number(offset, rows, UINT32_MAX, &place->at.offset) && place->at.offset >= 4;
}
