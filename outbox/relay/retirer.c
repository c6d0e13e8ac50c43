/* SPDX-License-Identifier: MIT */
#include "outbox/relay/retirer.h"

#include "common/hash.h"
#include "common/log.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define BACKOFF_BASE_MS 100
#define BACKOFF_CAP_MS 5000

enum rc retirer_init(struct retirer *retirer, struct lane *lane, const struct retirer_seam *seam,
                     uint64_t dice, struct err *err)
{
    memset(retirer, 0, sizeof(*retirer));
    retirer->lane = lane;
    retirer->seam = *seam;
    retirer->dice = dice;
    retirer->ranges_max = RETIRER_RANGES_MAX;
    retirer->backoff = (struct backoff){.base_ms = BACKOFF_BASE_MS, .cap_ms = BACKOFF_CAP_MS};
    mover_init(&retirer->mover, lane, seam, ~dice);
    retirer->held_max = lane->block_count;
    retirer->held = calloc(retirer->held_max, sizeof(struct seqs *));
    /* Whole blocks are deleted: the last one may go past the wanted number. */
    retirer->work_max = (size_t)lane->settings->relay.delete_rows_max + SEQS_MAX;
    retirer->work = calloc(retirer->work_max, sizeof(*retirer->work));
    if (retirer->held && retirer->work)
        return RC_OK;
    retirer_done(retirer);
    return err_fail(err, RC_FATAL, 0, "out of memory for %zu rows to delete", retirer->work_max);
}

void retirer_done(struct retirer *retirer)
{
    free(retirer->held);
    free(retirer->work);
    retirer->held = NULL;
    retirer->work = NULL;
}

/* Fills the last block up, so that few blocks hold many rows, whatever they came in. The rows of a
 * delete under way stay where they are. */
static void merge(struct retirer *retirer, struct seqs *block)
{
    struct seqs *last;
    size_t count;

    if (retirer->held_count == retirer->work_blocks)
        return;
    last = retirer->held[retirer->held_count - 1];
    count = SEQS_MAX - last->count;
    if (count > block->count)
        count = block->count;
    memcpy(&last->list[last->count], &block->list[block->count - count],
           count * sizeof(block->list[0]));
    last->count += count;
    block->count -= count;
}

static void take(struct retirer *retirer, int64_t now_ms)
{
    struct lane *lane = retirer->lane;
    struct seqs *block;

    while ((block = ring_take(&lane->acked))) {
        if (retirer->rows == 0)
            retirer->since_ms = now_ms;
        retirer->rows += block->count;
        merge(retirer, block);
        if (block->count > 0)
            retirer->held[retirer->held_count++] = block;
        else
            ring_give(&lane->gone, block);
    }
}

/* The first blocks go to the reader. */
static void give(struct retirer *retirer, size_t blocks)
{
    struct lane *lane = retirer->lane;

    for (size_t i = 0; i < blocks; i++) {
        retirer->rows -= retirer->held[i]->count;
        ring_give(&lane->gone, retirer->held[i]);
    }
    retirer->held_count -= blocks;
    memmove(retirer->held, retirer->held + blocks, retirer->held_count * sizeof(struct seqs *));
    retirer->work_count = retirer->work_done = retirer->work_blocks = 0;
    lane_wake(lane, LANE_READER);
}

static bool is_due(const struct retirer *retirer, int64_t now_ms)
{
    const struct settings *settings = retirer->lane->settings;

    /* The reader must not stand still because so few rows fit into its window. */
    return retirer->rows >= (size_t)settings->relay.delete_rows_max ||
           2 * retirer->rows >= (size_t)settings->relay.window_rows_max ||
           now_ms - retirer->since_ms >= settings->relay.delete_wait_ms ||
           atomic_load(&retirer->lane->lease.leaving);
}

static void choose(struct retirer *retirer)
{
    size_t rows_max = (size_t)retirer->lane->settings->relay.delete_rows_max;
    size_t count = 0;
    size_t blocks = 0;

    while (blocks < retirer->held_count && count < rows_max) {
        const struct seqs *block = retirer->held[blocks++];

        memcpy(&retirer->work[count], block->list, block->count * sizeof(block->list[0]));
        count += block->count;
    }
    retirer->work_count = seqs_sort(retirer->work, count);
    retirer->work_done = 0;
    retirer->work_blocks = blocks;
}

static int64_t failed(struct retirer *retirer, int64_t now_ms, const struct err *err)
{
    int64_t wait_ms = backoff_next_ms(&retirer->backoff, dice_next(&retirer->dice));

    note_set(&retirer->lane->retiring, now_ms, err);
    retirer->wait_until_ms = now_ms + wait_ms;
    return wait_ms;
}

/* Without the lease: whoever has it now reads these rows again, and publishes them again. */
static int64_t give_up(struct retirer *retirer, int64_t now_ms, const char *why)
{
    if (retirer->rows > 0)
        log_event(LOG_WARN, "deletes_given_up", "lane=%s rows=%zu reason=%s", retirer->lane->name,
                  retirer->rows, why);
    give(retirer, retirer->held_count);
    /* What went wrong with them is not ours any more. */
    note_clear(&retirer->lane->retiring, now_ms);
    backoff_reset(&retirer->backoff);
    retirer->wait_until_ms = 0;
    return 0;
}

static int64_t delete_some(struct retirer *retirer, int64_t epoch, int64_t now_ms)
{
    struct seq_range ranges[RETIRER_RANGES_MAX];
    struct lane *lane = retirer->lane;
    struct err err = {0};
    bool fenced = false;
    size_t used;
    size_t count =
        seqs_runs(retirer->work + retirer->work_done, retirer->work_count - retirer->work_done,
                  ranges, retirer->ranges_max, &used);
    enum rc rc =
        retirer->seam.delete_ranges(retirer->seam.ctx, ranges, count, epoch, &fenced, &err);

    if (rc != RC_OK)
        return failed(retirer, now_ms, &err);
    if (fenced)
        return give_up(retirer, now_ms, "fenced");
    note_clear(&lane->retiring, now_ms);
    backoff_reset(&retirer->backoff);
    metric_add(&lane->metrics->deleted, (int64_t)used);
    retirer->work_done += used;
    if (retirer->work_done < retirer->work_count)
        return 0;
    give(retirer, retirer->work_blocks);
    retirer->since_ms = now_ms;
    return 0;
}

static int64_t delete_step(struct retirer *retirer, int64_t epoch, int64_t now_ms)
{
    take(retirer, now_ms);
    if (retirer->rows == 0)
        return LANE_WAIT_MS;
    if (epoch == 0)
        return give_up(retirer, now_ms, "lease_lost");
    if (now_ms < retirer->wait_until_ms)
        return retirer->wait_until_ms - now_ms;
    if (retirer->work_count == 0) {
        if (!is_due(retirer, now_ms))
            return retirer->since_ms + retirer->lane->settings->relay.delete_wait_ms - now_ms;
        choose(retirer);
    }
    return delete_some(retirer, epoch, now_ms);
}

int64_t retirer_step(void *arg, int64_t now_ms)
{
    struct retirer *retirer = arg;
    int64_t delete_ms = delete_step(retirer, lane_epoch(retirer->lane, now_ms), now_ms);
    int64_t move_ms = mover_step(&retirer->mover, lane_epoch_now(retirer->lane, now_ms), now_ms);

    return delete_ms < move_ms ? delete_ms : move_ms;
}
