/* SPDX-License-Identifier: MIT */
#include "outbox/relay/deleter.h"

#include "common/hash.h"
#include "common/log.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define BACKOFF_BASE_MS 100
#define BACKOFF_CAP_MS 5000

/* Moves seqs from block into the last block, so that few blocks hold many rows. A block whose rows
 * are being deleted is not changed. */
static void fill_last_block(struct deleter *deleter, struct seqs *block)
{
    struct seqs *last;
    size_t count;

    if (deleter->block_count == deleter->work_blocks)
        return;
    last = deleter->blocks[deleter->block_count - 1];
    count = SEQS_MAX - last->count;
    if (count > block->count)
        count = block->count;
    memcpy(&last->list[last->count], &block->list[block->count - count],
           count * sizeof(block->list[0]));
    last->count += count;
    block->count -= count;
}

static void take_acked_blocks(struct deleter *deleter, int64_t now_ms)
{
    struct lane *lane = deleter->lane;
    struct seqs *block;

    while ((block = ring_take(&lane->acked_blocks))) {
        if (deleter->rows == 0)
            deleter->since_ms = now_ms;
        deleter->rows += block->count;
        fill_last_block(deleter, block);
        if (block->count > 0)
            deleter->blocks[deleter->block_count++] = block;
        else
            ring_give(&lane->deleted_blocks, block);
    }
}

/* Returns the first blocks to the reader and ends the present deletion. */
static void return_blocks(struct deleter *deleter, size_t blocks)
{
    struct lane *lane = deleter->lane;

    for (size_t i = 0; i < blocks; i++) {
        deleter->rows -= deleter->blocks[i]->count;
        ring_give(&lane->deleted_blocks, deleter->blocks[i]);
    }
    deleter->block_count -= blocks;
    memmove(deleter->blocks, deleter->blocks + blocks,
            deleter->block_count * sizeof(struct seqs *));
    deleter->work_count = deleter->work_done = deleter->work_blocks = 0;
    lane_wake(lane, LANE_READER);
}

static bool is_delete_due(const struct deleter *deleter, int64_t now_ms)
{
    const struct settings *settings = deleter->lane->settings;

    /* A small window must not stop the reader: half a window of rows is deleted at once. */
    return deleter->rows >= (size_t)settings->relay.delete_rows_max ||
           2 * deleter->rows >= (size_t)settings->relay.window_rows_max ||
           now_ms - deleter->since_ms >= settings->relay.delete_wait_ms ||
           atomic_load(&deleter->lane->lease.draining);
}

/* Copies the rows of the first blocks into work. */
static void choose_rows(struct deleter *deleter)
{
    size_t rows_max = (size_t)deleter->lane->settings->relay.delete_rows_max;
    size_t count = 0;
    size_t blocks = 0;

    while (blocks < deleter->block_count && count < rows_max) {
        const struct seqs *block = deleter->blocks[blocks++];

        memcpy(&deleter->work[count], block->list, block->count * sizeof(block->list[0]));
        count += block->count;
    }
    deleter->work_count = deleter_sort_seqs(deleter->work, count);
    deleter->work_done = 0;
    deleter->work_blocks = blocks;
}

static int64_t record_failure(struct deleter *deleter, int64_t now_ms, const struct err *err)
{
    int64_t wait_ms = backoff_next_ms(&deleter->backoff, rng_next(&deleter->rng));

    condition_fail(&deleter->lane->deleting, now_ms, err);
    deleter->wait_until_ms = now_ms + wait_ms;
    return wait_ms;
}

/* The lease is lost. The next holder reads the rows that wait for deletion and publishes them
 * again. */
static int64_t abandon_rows(struct deleter *deleter, int64_t now_ms, const char *why)
{
    if (deleter->rows > 0)
        log_event(LOG_WARN, "deletes_abandoned", "lane=%s rows=%zu reason=%s", deleter->lane->name,
                  deleter->rows, why);
    return_blocks(deleter, deleter->block_count);
    /* A failure to delete these rows does not concern this process any more. */
    condition_ok(&deleter->lane->deleting, now_ms);
    backoff_reset(&deleter->backoff);
    deleter->wait_until_ms = 0;
    return 0;
}

static int64_t delete_next_ranges(struct deleter *deleter, int64_t epoch, int64_t now_ms)
{
    struct seq_range ranges[DELETER_RANGES_MAX];
    struct lane *lane = deleter->lane;
    struct err err = {0};
    bool fenced = false;
    size_t used;
    size_t count = deleter_make_ranges(deleter->work + deleter->work_done,
                                       deleter->work_count - deleter->work_done, ranges,
                                       deleter->ranges_max, &used);
    enum rc rc = deleter->ops.delete_ranges(deleter->ops.ctx, ranges, count, epoch, &fenced, &err);

    if (rc != RC_OK)
        return record_failure(deleter, now_ms, &err);
    if (fenced)
        return abandon_rows(deleter, now_ms, "fenced");
    condition_ok(&lane->deleting, now_ms);
    backoff_reset(&deleter->backoff);
    metric_add(&lane->metrics->deleted, (int64_t)used);
    deleter->work_done += used;
    if (deleter->work_done < deleter->work_count)
        return 0;
    return_blocks(deleter, deleter->work_blocks);
    deleter->since_ms = now_ms;
    return 0;
}

static int64_t step_deletion(struct deleter *deleter, int64_t epoch, int64_t now_ms)
{
    take_acked_blocks(deleter, now_ms);
    if (deleter->rows == 0)
        return lane_rest_ms(deleter->lane, now_ms);
    if (epoch == 0)
        return abandon_rows(deleter, now_ms, "lease_lost");
    if (now_ms < deleter->wait_until_ms)
        return deleter->wait_until_ms - now_ms;
    if (deleter->work_count == 0) {
        if (!is_delete_due(deleter, now_ms))
            return deleter->since_ms + deleter->lane->settings->relay.delete_wait_ms - now_ms;
        choose_rows(deleter);
    }
    return delete_next_ranges(deleter, epoch, now_ms);
}

static int compare_seqs(const void *a, const void *b)
{
    const int64_t *left = a;
    const int64_t *right = b;

    return (*left > *right) - (*left < *right);
}

size_t deleter_sort_seqs(int64_t *list, size_t count)
{
    size_t kept = 0;
    bool sorted = true;

    for (size_t i = 1; i < count && sorted; i++)
        sorted = list[i - 1] < list[i];
    if (sorted)
        return count;
    qsort(list, count, sizeof(*list), compare_seqs);
    for (size_t i = 0; i < count; i++) {
        if (kept == 0 || list[kept - 1] != list[i])
            list[kept++] = list[i];
    }
    return kept;
}

size_t deleter_make_ranges(const int64_t *list, size_t count, struct seq_range *ranges,
                           size_t ranges_max, size_t *used)
{
    size_t runs = 0;
    size_t i = 0;

    for (; i < count; i++) {
        if (runs > 0 && ranges[runs - 1].to + 1 == list[i]) {
            ranges[runs - 1].to = list[i];
            continue;
        }
        if (runs == ranges_max)
            break;
        ranges[runs++] = (struct seq_range){list[i], list[i]};
    }
    *used = i;
    return runs;
}

enum rc deleter_init(struct deleter *deleter, struct lane *lane, const struct deleter_ops *ops,
                     const struct diverter_ops *diverter_ops, uint64_t seed, struct err *err)
{
    memset(deleter, 0, sizeof(*deleter));
    deleter->lane = lane;
    deleter->ops = *ops;
    deleter->rng = seed;
    deleter->ranges_max = DELETER_RANGES_MAX;
    deleter->backoff = (struct backoff){.base_ms = BACKOFF_BASE_MS, .cap_ms = BACKOFF_CAP_MS};
    diverter_init(&deleter->diverter, lane, diverter_ops, ~seed);
    deleter->blocks_max = lane->block_count;
    deleter->blocks = calloc(deleter->blocks_max, sizeof(struct seqs *));
    /* Whole blocks are deleted, so the last one may exceed delete_rows_max. */
    deleter->work_max = (size_t)lane->settings->relay.delete_rows_max + SEQS_MAX;
    deleter->work = calloc(deleter->work_max, sizeof(*deleter->work));
    if (deleter->blocks && deleter->work)
        return RC_OK;
    deleter_done(deleter);
    return err_fail(err, RC_FATAL, 0, "out of memory for %zu rows to delete", deleter->work_max);
}

void deleter_done(struct deleter *deleter)
{
    free(deleter->blocks);
    free(deleter->work);
    deleter->blocks = NULL;
    deleter->work = NULL;
}

int64_t deleter_step(void *arg, int64_t now_ms)
{
    struct deleter *deleter = arg;
    int64_t delete_ms = step_deletion(deleter, lane_epoch(deleter->lane, now_ms), now_ms);
    int64_t move_ms =
        diverter_step(&deleter->diverter, lane_epoch_now(deleter->lane, now_ms), now_ms);

    return delete_ms < move_ms ? delete_ms : move_ms;
}
