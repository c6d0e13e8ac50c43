/* SPDX-License-Identifier: MIT */
#include "outbox/relay/lane.h"

#include "common/log.h"
#include "outbox/relay/relay_ops.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Blocks in addition to those that a full window needs. The deleter fills its blocks up, so only
 * the few blocks in rings and in the sender are partly filled. */
#define BLOCKS_EXTRA 64

#define AT(field) offsetof(struct relay_metrics, field)

struct kind {
    size_t offset;
    const char *name;
    enum metric_kind kind;
    const char *help;
};

static const struct kind kinds[] = {
    {AT(published), "tallybox_relay_published_total", METRIC_COUNTER,
     "Rows that the broker acknowledged."},
    {AT(deleted), "tallybox_relay_deleted_total", METRIC_COUNTER,
     "Published rows deleted from the outbox."},
    {AT(refused), "tallybox_relay_refused_total", METRIC_COUNTER,
     "Rows that the broker or the relay refused."},
    {AT(moved), "tallybox_relay_moved_total", METRIC_COUNTER,
     "Rows moved from the outbox into the retry queue: refused rows, and later rows of their "
     "keys."},
    {AT(resets), "tallybox_relay_resets_total", METRIC_COUNTER,
     "Times a lane dropped its rows in flight and read them again."},
    {AT(origins_lost), "tallybox_relay_database_changes_total", METRIC_COUNTER,
     "Times a lane started again because its database was restarted or replaced, or reused seqs."},
    {AT(gaps_closed), "tallybox_relay_gaps_closed_total", METRIC_COUNTER,
     "Gaps closed because no open transaction can fill them."},
    {AT(gaps_found), "tallybox_relay_gap_rows_total", METRIC_COUNTER,
     "Rows that were committed after the relay had read a row with a higher seq."},
    {AT(rows), "tallybox_outbox_rows", METRIC_GAUGE,
     "Rows waiting in the outbox, estimated: rolled back rows count until the reader passes them. "
     "With source = binlog: rows that were read and are not done."},
    {AT(oldest_age), "tallybox_outbox_oldest_age_seconds", METRIC_GAUGE,
     "Age of the oldest row in the outbox, 0 when it is empty. While another process holds the "
     "lane: "
     "as it was when this process last looked, 5 s ago or, with many deleted rows, up to 35 s. "
     "With "
     "source = binlog: how long ago the lane was last at the end of the log; rows that are kept do "
     "not count."},
    {AT(open_gaps), "tallybox_relay_open_gaps", METRIC_GAUGE,
     "Ranges of missing seqs that are still open."},
    {AT(in_flight), "tallybox_relay_inflight_rows", METRIC_GAUGE,
     "Rows sent and not yet acknowledged."},
    {AT(in_window), "tallybox_relay_window_rows", METRIC_GAUGE,
     "Rows read and not yet deleted; with source = binlog those that are not done yet."},
    {AT(diverted_keys), "tallybox_relay_diverted_keys", METRIC_GAUGE,
     "Keys whose rows go through the retry queue, because one of them was refused."},
    {AT(unpublished), "tallybox_relay_unpublished_rows", METRIC_GAUGE,
     "With source = binlog: rows older than keep_ms that are not known to be published, because "
     "they did not come through the binary log; counted up to 1001, each minute. A table without "
     "seq needs keep_ids_max above 0 for it, and with keep_ms = -1 it is 0."},
    {AT(from_table), "tallybox_relay_from_table_total", METRIC_COUNTER,
     "Times a lane with source = binlog began to go on from its table, because the server had "
     "purged the binary log at its position."},
    {AT(stream_shared), "tallybox_relay_stream_shared", METRIC_GAUGE,
     "With source = binlog: 1 while the lane reads the binary log through the connection that the "
     "lanes of this process share."},
    {AT(log_updates), "tallybox_relay_log_updates_total", METRIC_COUNTER,
     "With source = binlog: events of the binary log that change rows of the table after they were "
     "written; such changes are not published."},
    {AT(log_statements), "tallybox_relay_log_statements_total", METRIC_COUNTER,
     "With source = binlog: statements in the binary log that change rows of other tables and have "
     "no rows there, because their session does not have binlog_format = ROW. What their triggers, "
     "functions and views write into the table is not published."},
    {AT(log_expires), "tallybox_relay_log_expires", METRIC_GAUGE,
     "With source = binlog: 1 while the server has deleted the file of the saved position from its "
     "binary log, or will soon; looked at each 30 s, /readyz tells why."},
    {AT(lease_held), "tallybox_relay_lease_held", METRIC_GAUGE,
     "1 while this process holds the lane."},
    {AT(lease_epoch), "tallybox_relay_lease_epoch", METRIC_GAUGE,
     "Epoch of the last lease that this process held."},
    {AT(send_seconds), "tallybox_relay_send_seconds", METRIC_SECONDS,
     "Time from sending to the acknowledgement, of a sample of rows."},
};

static struct relay_metrics all[RELAY_LANES_MAX];

static enum rc init_batches(struct lane *lane, struct err *err)
{
    size_t rows_max = (size_t)lane->settings->relay.read_rows_max;
    size_t bytes = (size_t)lane->settings->relay.read_bytes_max;
    size_t row_bytes = (size_t)lane->settings->relay.row_bytes_max + ROW_EXTRA_BYTES_MAX;
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
    condition_init(&lane->deleting, CONDITION_DEPENDENCY, "dep=mysql role=relay reason=%s lane=%s",
                   lane->is_stream ? "cannot_save_position" : "cannot_delete", lane->name);
    condition_init(&lane->diverting, CONDITION_DEPENDENCY,
                   "dep=mysql role=relay reason=cannot_divert lane=%s", lane->name);
    condition_init(&lane->key_delivery, CONDITION_WORK,
                   "what=diverted_keys role=relay reason=keys_diverted lane=%s", lane->name);
    condition_init(&lane->lane_delivery, CONDITION_WORK,
                   "what=lane role=relay reason=diverted_keys_full lane=%s", lane->name);
}

struct relay_metrics *relay_metrics_of(size_t number, const char *lane)
{
    struct relay_metrics *metrics = &all[number];

    assert(number < RELAY_LANES_MAX);
    snprintf(metrics->labels, sizeof(metrics->labels), "lane=\"%s\"", lane);
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        struct metric *metric = (struct metric *)(void *)((char *)metrics + kinds[i].offset);

        metric->name = kinds[i].name;
        metric->kind = kinds[i].kind;
        metric->help = kinds[i].help;
        metric->labels = metrics->labels;
        metrics_register(metric);
    }
    return metrics;
}

void relay_metrics_register(void)
{
    relay_metrics_of(0, "outbox");
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
    lane->is_stream = strcmp(own->source, LANE_SOURCE_BINLOG) == 0;
    init_conditions(lane);
    init_lease(lane);
    rc = init_rings(lane, err);
    if (rc == RC_OK)
        rc = init_batches(lane, err);
    if (rc == RC_OK)
        rc = init_blocks(lane, err);
    if (rc == RC_OK)
        rc = diverted_keys_init(&lane->diverted, (size_t)settings->relay.diverted_keys_max, err);
    /* A row that is left holds up the position of a stream. */
    if (lane->is_stream)
        lane->diverted.key_rows_max = SIZE_MAX;
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

int64_t lane_rest_ms(const struct lane *lane, int64_t now_ms)
{
    int64_t until_ms = atomic_load(&lane->lease.valid_until_ms);

    /* Its steps wait for each other's answers, and for times of their own. */
    if (lane->takeover)
        return LANE_WAIT_MS;
    if (until_ms == 0)
        return LANE_REST_MS;
    if (until_ms <= now_ms)
        return LANE_WAIT_MS;
    return until_ms - now_ms < LANE_REST_MS ? until_ms - now_ms : LANE_REST_MS;
}

void lane_origin_lost(struct lane *lane, const struct err *why)
{
    if (atomic_load(&lane->lease.idle) || atomic_exchange(&lane->lease.origin_lost, true))
        return;
    metric_add(&lane->metrics->origins_lost, 1);
    log_error(LOG_WARN, "database_changed", why, "lane=%s", lane->name);
    wake_all(lane);
}

void lane_fenced(struct lane *lane, const struct err *why)
{
    if (atomic_load(&lane->lease.idle) || atomic_exchange(&lane->lease.origin_lost, true))
        return;
    log_error(LOG_WARN, "lane_fenced", why, "lane=%s", lane->name);
    wake_all(lane);
}

void lane_begin_again(struct lane *lane)
{
    if (!atomic_exchange(&lane->lease.origin_lost, true))
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

void lane_note_write(struct lane *lane)
{
    /* The reader that has not looked yet was woken before. */
    if (!atomic_exchange(&lane->written, true))
        lane_wake(lane, LANE_READER);
}

void lane_set_watched(struct lane *lane, bool watched)
{
    atomic_store(&lane->watched, watched);
}

void lane_request_full_scan(struct lane *lane)
{
    atomic_store(&lane->full_scan_requested, true);
    lane_wake(lane, LANE_READER);
}

void lane_pass_drops(struct lane *lane, struct seqs **drops)
{
    if (!*drops || (*drops)->count == 0)
        return;
    ring_give(&lane->dropped_blocks, *drops);
    *drops = NULL;
    lane_wake(lane, LANE_READER);
}

bool lane_make_drop_room(struct lane *lane, struct seqs **drops, enum seqs_kind kind)
{
    if (*drops && (*drops)->count > 0 && ((*drops)->count == SEQS_MAX || (*drops)->kind != kind))
        lane_pass_drops(lane, drops);
    if (!*drops)
        *drops = ring_take(&lane->empty_blocks);
    if (!*drops)
        return false;
    (*drops)->kind = kind;
    return true;
}

void lane_request_hold(struct lane *lane)
{
    atomic_fetch_add(&lane->hold_requested, 1);
    lane_wake(lane, LANE_READER);
}

bool lane_grant_hold(struct lane *lane)
{
    long long requested = atomic_load(&lane->hold_requested);

    if (requested == atomic_load(&lane->hold_released))
        return false;
    if (atomic_load(&lane->hold_granted) != requested) {
        atomic_store(&lane->hold_granted, requested);
        lane_wake(lane, LANE_SENDER);
    }
    return true;
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
