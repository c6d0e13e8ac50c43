/* SPDX-License-Identifier: MIT */
#include "outbox/relay/stream/stream_pump.h"

#include "common/loop.h"

#include <string.h>

#define BATCHES_MAX 8

/* A batch without rows tells the reader only that the position has moved, or that the stream is at
 * its end. */
#define EMPTY_BATCH_MS 100

enum rc stream_pump_init(struct stream_pump *pump, const struct stream_ops *ops, size_t rows_max,
                         size_t bytes, struct err *err)
{
    enum rc rc;

    memset(pump, 0, sizeof(*pump));
    pump->ops = *ops;
    pump->rows_enough = rows_max;
    pthread_mutex_init(&pump->lock, NULL);
    rc = stream_batches_init(&pump->batches, ops, rows_max, bytes, err);
    if (rc == RC_OK)
        rc = ring_init(&pump->empty, BATCHES_MAX, err);
    if (rc == RC_OK)
        rc = ring_init(&pump->filled, BATCHES_MAX, err);
    if (rc != RC_OK)
        stream_pump_done(pump);
    return rc;
}

void stream_pump_done(struct stream_pump *pump)
{
    if (!pump->ops.open)
        return;
    stream_batches_done(&pump->batches);
    ring_done(&pump->empty);
    ring_done(&pump->filled);
    buf_done(&pump->from.before);
    buf_done(&pump->start.before);
    pthread_mutex_destroy(&pump->lock);
    memset(pump, 0, sizeof(*pump));
}

static void give_order(struct stream_pump *pump, bool wanted)
{
    pump->term++;
    pump->wanted = wanted;
    pump->failed_term = 0;
    if (pump->ops.interrupt)
        pump->ops.interrupt(pump->ops.ctx);
}

enum rc stream_pump_read(struct stream_pump *pump, const struct stream_position *from,
                         struct err *err)
{
    bool copied;

    pthread_mutex_lock(&pump->lock);
    copied = stream_position_copy(&pump->from, from);
    give_order(pump, copied);
    pthread_mutex_unlock(&pump->lock);
    pump->wake(pump->wake_ctx, false);
    return copied ? RC_OK : err_fail(err, RC_FATAL, 0, "no memory for a position");
}

void stream_pump_close(struct stream_pump *pump)
{
    pthread_mutex_lock(&pump->lock);
    give_order(pump, false);
    pthread_mutex_unlock(&pump->lock);
    pump->wake(pump->wake_ctx, false);
}

bool stream_pump_failed(struct stream_pump *pump, enum rc *rc, bool *purged, struct err *err)
{
    bool failed;

    pthread_mutex_lock(&pump->lock);
    failed = pump->failed_term != 0 && pump->failed_term == pump->term;
    if (failed) {
        *rc = pump->failed_rc;
        *purged = pump->failed_purged;
        *err = pump->err;
    }
    pump->failed_term = 0;
    pthread_mutex_unlock(&pump->lock);
    return failed;
}

/* Only the reader changes the term, so it reads it without the lock. */
struct pump_batch *stream_pump_peek(struct stream_pump *pump)
{
    struct pump_batch *batch;

    while ((batch = ring_peek(&pump->filled)) && batch->term != pump->term)
        stream_pump_give(pump, ring_take(&pump->filled));
    return batch;
}

struct pump_batch *stream_pump_take(struct stream_pump *pump)
{
    return ring_take(&pump->filled);
}

void stream_pump_give(struct stream_pump *pump, struct pump_batch *batch)
{
    relay_batch_reset(batch->rows);
    ring_give(&pump->empty, batch);
    pump->wake(pump->wake_ctx, false);
}

void stream_pump_stop(struct stream_pump *pump)
{
    pthread_mutex_lock(&pump->lock);
    pump->stopping = true;
    if (pump->ops.interrupt)
        pump->ops.interrupt(pump->ops.ctx);
    pthread_mutex_unlock(&pump->lock);
    pump->wake(pump->wake_ctx, false);
}

/* Takes over the last order if there is a new one. An order that is given later interrupts the
 * stream, so the pump notices it as soon as the stream is open. */
static bool take_order(struct stream_pump *pump, bool *wanted, bool *stopping)
{
    bool is_new;

    pthread_mutex_lock(&pump->lock);
    is_new = pump->own_term != pump->term;
    pump->own_term = pump->term;
    *wanted = pump->wanted;
    *stopping = pump->stopping;
    if (is_new && pump->wanted && !stream_position_copy(&pump->start, &pump->from)) {
        *wanted = pump->wanted = false;
        pump->failed_term = pump->term;
        pump->failed_rc = err_fail(&pump->err, RC_FATAL, 0, "no memory for a position");
        pump->failed_purged = false;
    }
    pthread_mutex_unlock(&pump->lock);
    return is_new;
}

static bool has_new_order(struct stream_pump *pump)
{
    bool is_new;

    pthread_mutex_lock(&pump->lock);
    is_new = pump->own_term != pump->term || pump->stopping;
    pthread_mutex_unlock(&pump->lock);
    return is_new;
}

static void close_stream(struct stream_pump *pump)
{
    if (pump->ops.close)
        pump->ops.close(pump->ops.ctx);
    pump->reads = false;
}

/* The failure of an earlier order is dropped. */
static int64_t report_failure(struct stream_pump *pump, enum rc rc, const struct err *err)
{
    bool purged = rc == RC_FATAL && pump->ops.purged && pump->ops.purged(pump->ops.ctx);
    bool is_new;

    close_stream(pump);
    pthread_mutex_lock(&pump->lock);
    is_new = pump->own_term != pump->term;
    if (!is_new) {
        pump->wanted = false;
        pump->failed_term = pump->term;
        pump->failed_rc = rc;
        pump->failed_purged = purged;
        pump->err = *err;
    }
    pthread_mutex_unlock(&pump->lock);
    if (is_new)
        return 0;
    pump->wake(pump->wake_ctx, true);
    return LOOP_WAKEUP;
}

static void give_batch(struct stream_pump *pump, int64_t now_ms)
{
    pump->batch->term = pump->own_term;
    pump->given_ms = now_ms;
    pump->given_at_end = pump->batch->at_end;
    ring_give(&pump->filled, pump->batch);
    pump->batch = NULL;
    pump->wake(pump->wake_ctx, true);
}

static bool is_at_end(const struct stream_pump *pump)
{
    return !pump->ops.is_at_end || pump->ops.is_at_end(pump->ops.ctx);
}

/* Whether the end of the log came after the last batch, of a stream that may have nothing before
 * its end. */
static bool ends_late(const struct stream_pump *pump)
{
    return pump->ops.is_at_end && pump->batch->at_end && !pump->given_at_end;
}

static int64_t fill_batch(struct stream_pump *pump, int64_t now_ms)
{
    struct err err = {0};
    bool more = false;
    enum rc rc;

    if (!pump->batch)
        pump->batch = ring_take(&pump->empty);
    if (!pump->batch)
        return LOOP_WAKEUP;
    rc = stream_batches_fill(&pump->batches, pump->batch->rows, pump->rows_enough,
                             &pump->batch->after, &more, &err);
    if (rc != RC_OK)
        return report_failure(pump, rc, &err);
    pump->batch->at_end = !more && is_at_end(pump);
    pump->batch->emptied = pump->batches.emptied;
    if (pump->batch->rows->count > 0 || pump->batch->emptied ||
        now_ms - pump->given_ms >= EMPTY_BATCH_MS || ends_late(pump))
        give_batch(pump, now_ms);
    return 0;
}

int64_t stream_pump_step(void *arg, int64_t now_ms)
{
    struct stream_pump *pump = arg;
    struct err err = {0};
    bool wanted;
    bool stopping;
    enum rc rc;

    /* An order that comes from now on interrupts what follows. */
    if (take_order(pump, &wanted, &stopping))
        close_stream(pump);
    if (stopping)
        return LOOP_END;
    if (!wanted)
        return LOOP_WAKEUP;
    if (pump->reads)
        return fill_batch(pump, now_ms);
    rc = stream_batches_open(&pump->batches, &pump->start, &err);
    if (rc != RC_OK)
        return report_failure(pump, rc, &err);
    pump->reads = true;
    return has_new_order(pump) ? 0 : fill_batch(pump, now_ms);
}
