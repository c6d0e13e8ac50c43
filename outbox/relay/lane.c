/* SPDX-License-Identifier: MIT */
#include "outbox/relay/lane.h"

#include "common/log.h"
#include "outbox/relay/relay_ops.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Blocks in addition to those that a full window needs. The deleter fills its blocks up, so only
 * the few blocks in rings and in the sender are partly filled. */
#define BLOCKS_EXTRA 64

/* Room for the other columns of a row whose payload has the largest size. */
#define ROW_BYTES_EXTRA 16384

static enum rc init_batches(struct lane *lane, struct err *err)
{
    size_t rows_max = (size_t)lane->settings->relay.read_rows_max;
    size_t bytes = (size_t)lane->settings->relay.read_bytes_max;
    size_t row_bytes = (size_t)lane->settings->relay.row_bytes_max + ROW_BYTES_EXTRA;
    enum rc rc = RC_OK;

    for (size_t i = 0; i < LANE_BATCHES && rc == RC_OK; i++) {
        rc = relay_batch_init(&lane->batches[i], rows_max, bytes > row_bytes ? bytes : row_bytes,
                              err);
        if (rc == RC_OK)
            ring_give(&lane->empty_batches, &lane->batches[i]);
    }
    return rc;
}

static enum rc init_blocks(struct lane *lane, struct err *err)
{
    lane->block_count = (size_t)lane->settings->relay.window_rows_max / SEQS_MAX + BLOCKS_EXTRA;
    lane->blocks = calloc(lane->block_count, sizeof(*lane->blocks));
    if (!lane->blocks)
        return err_fail(err, RC_FATAL, 0, "out of memory for %zu blocks", lane->block_count);
    for (size_t i = 0; i < lane->block_count; i++)
        ring_give(&lane->empty_blocks, &lane->blocks[i]);
    return RC_OK;
}

static enum rc init_rings(struct lane *lane, struct err *err)
{
    size_t blocks = (size_t)lane->settings->relay.window_rows_max / SEQS_MAX + BLOCKS_EXTRA;
    struct ring *const block_rings[] = {&lane->acked_blocks, &lane->dropped_blocks,
                                        &lane->deleted_blocks, &lane->empty_blocks};
    enum rc rc = ring_init(&lane->filled_batches, LANE_BATCHES, err);

    if (rc == RC_OK)
        rc = ring_init(&lane->empty_batches, LANE_BATCHES, err);
    for (size_t i = 0; i < sizeof(block_rings) / sizeof(block_rings[0]) && rc == RC_OK; i++)
        rc = ring_init(block_rings[i], blocks, err);
    return rc;
}

static void wake_all(void *ctx)
{
    for (enum lane_step step = LANE_READER; step < LANE_STEPS; step++)
        lane_wake(ctx, step);
}

static void copy_diverted_reason(struct lane *lane, struct lease_status *status)
{
    struct err err;

    if (condition_read(&lane->key_delivery, &err))
        snprintf(status->diverted_reason, sizeof(status->diverted_reason), "%s", err.text);
}

static void report_diverted_keys(void *ctx, struct lease_status *status)
{
    struct lane *lane = ctx;

    status->diverted_keys = metric_value(&lane->metrics->diverted_keys);
    if (status->diverted_keys > 0)
        copy_diverted_reason(lane, status);
}

static void init_lease(struct lane *lane)
{
    lane->lease.name = lane->own->table;
    lane->lease.label = lane->name;
    lane->lease.wake = wake_all;
    lane->lease.status = report_diverted_keys;
    lane->lease.ctx = lane;
    lane->lease.held_metric = &lane->metrics->lease_held;
    lane->lease.epoch_metric = &lane->metrics->lease_epoch;
    atomic_init(&lane->lease.idle, true);
}

static void init_conditions(struct lane *lane)
{
    condition_init(&lane->reading, CONDITION_DEPENDENCY,
                   "dep=mysql role=relay reason=cannot_read lane=%s", lane->name);
    condition_init(&lane->sending, CONDITION_DEPENDENCY,
                   "dep=kafka role=relay reason=cannot_send lane=%s", lane->name);
    condition_init(&lane->deleting, CONDITION_DEPENDENCY,
                   "dep=mysql role=relay reason=cannot_delete lane=%s", lane->name);
    condition_init(&lane->diverting, CONDITION_DEPENDENCY,
                   "dep=mysql role=relay reason=cannot_divert lane=%s", lane->name);
    condition_init(&lane->key_delivery, CONDITION_WORK,
                   "what=diverted_keys role=relay reason=keys_diverted lane=%s", lane->name);
    condition_init(&lane->lane_delivery, CONDITION_WORK,
                   "what=lane role=relay reason=diverted_keys_full lane=%s", lane->name);
}

enum rc lane_init(struct lane *lane, const struct lane_settings *own,
                  const struct settings *settings, struct relay_metrics *metrics, struct err *err)
{
    const char *name = own->name;
    enum rc rc;

    memset(lane, 0, sizeof(*lane));
    lane->name = name;
    lane->own = own;
    lane->settings = settings;
    lane->metrics = metrics;
    init_conditions(lane);
    init_lease(lane);
    rc = init_rings(lane, err);
    if (rc == RC_OK)
        rc = init_batches(lane, err);
    if (rc == RC_OK)
        rc = init_blocks(lane, err);
    if (rc == RC_OK)
        rc = diverted_keys_init(&lane->diverted, (size_t)settings->relay.diverted_keys_max, err);
    if (rc != RC_OK)
        lane_done(lane);
    return rc;
}

void lane_done(struct lane *lane)
{
    for (size_t i = 0; i < LANE_BATCHES; i++)
        relay_batch_done(&lane->batches[i]);
    free(lane->blocks);
    lane->blocks = NULL;
    diverted_keys_done(&lane->diverted);
    ring_done(&lane->filled_batches);
    ring_done(&lane->empty_batches);
    ring_done(&lane->acked_blocks);
    ring_done(&lane->dropped_blocks);
    ring_done(&lane->deleted_blocks);
    ring_done(&lane->empty_blocks);
    condition_done(&lane->reading);
    condition_done(&lane->sending);
    condition_done(&lane->deleting);
    condition_done(&lane->diverting);
    condition_done(&lane->key_delivery);
    condition_done(&lane->lane_delivery);
}

void lane_wake(const struct lane *lane, enum lane_step step)
{
    if (lane->wake)
        lane->wake(lane->wake_ctx, step);
}

int64_t lane_epoch(const struct lane *lane, int64_t now_ms)
{
    return leased_epoch(&lane->lease, now_ms);
}

void lane_origin_lost(struct lane *lane, const struct err *why)
{
    if (atomic_load(&lane->lease.idle) || atomic_exchange(&lane->lease.origin_lost, true))
        return;
    metric_add(&lane->metrics->origins_lost, 1);
    log_error(LOG_WARN, "database_changed", why, "lane=%s", lane->name);
    wake_all(lane);
}

int64_t lane_now(const struct lane *lane, int64_t now_ms)
{
    return lane->time_ms ? lane->time_ms(lane->time_ctx) : now_ms;
}

int64_t lane_epoch_now(const struct lane *lane, int64_t now_ms)
{
    return lane_epoch(lane, lane_now(lane, now_ms));
}

void lane_request_full_scan(struct lane *lane)
{
    atomic_store(&lane->full_scan_requested, true);
    lane_wake(lane, LANE_READER);
}

void lane_request_hold(struct lane *lane)
{
    atomic_fetch_add(&lane->hold_requested, 1);
    lane_wake(lane, LANE_READER);
}

bool lane_is_held(const struct lane *lane)
{
    return atomic_load(&lane->hold_granted) == atomic_load(&lane->hold_requested);
}

void lane_release_hold(struct lane *lane, bool from_start)
{
    if (from_start)
        atomic_store(&lane->from_start, true);
    atomic_store(&lane->hold_released, atomic_load(&lane->hold_requested));
    lane_wake(lane, LANE_READER);
}
