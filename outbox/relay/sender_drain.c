/* SPDX-License-Identifier: MIT */
#include "outbox/relay/sender.h"

#include "common/hash.h"

#include <inttypes.h>

/* How long purged rows may take to be reported before the producer is thrown away with them. */
#define PURGE_WAIT_MS 2000
#define DRAIN_POLL_MS 10

bool sender_room(struct sender *sender)
{
    if (sender->drops && sender->drops->count == SEQS_MAX)
        sender_flush(sender);
    if (!sender->drops)
        sender->drops = ring_take(&sender->lane->blank);
    return sender->drops != NULL;
}

static void flush_acks(struct sender *sender)
{
    struct lane *lane = sender->lane;

    if (!sender->acks || sender->acks->count == 0)
        return;
    ring_give(&lane->acked, sender->acks);
    sender->acks = NULL;
    lane_wake(lane, LANE_RETIRER);
}

void sender_flush(struct sender *sender)
{
    struct lane *lane = sender->lane;

    /* While the retirer is busy with a deletion a block is filled: many with few rows each would
     * leave none to write to. */
    if (ring_count(&lane->acked) == 0)
        flush_acks(sender);
    if (!sender->drops || sender->drops->count == 0)
        return;
    ring_give(&lane->dropped, sender->drops);
    sender->drops = NULL;
    lane_wake(lane, LANE_READER);
}

/* Room was asked for. A drain drops rows to be read again, everything else rows that stay; the two
 * never share a block, because a drain begins and ends with a flush. */
void sender_drop(struct sender *sender, int64_t seq, bool again)
{
    sender->drops->again = again;
    sender->drops->list[sender->drops->count++] = seq;
}

static bool acks_room(struct sender *sender)
{
    if (sender->acks && sender->acks->count == SEQS_MAX)
        flush_acks(sender);
    if (!sender->acks)
        sender->acks = ring_take(&sender->lane->blank);
    return sender->acks != NULL;
}

static void accept(struct sender *sender, const struct flight_row *row, int64_t now_ms)
{
    sender->acks->list[sender->acks->count++] = row->seq;
    metric_add(&sender->lane->metrics->published, 1);
    if (sender->alone)
        suspects_remove(&sender->suspects, row->seq);
    if (breaker_worked(&sender->breaker))
        note_clear(&sender->lane->sending, now_ms);
}

void sender_collect(struct sender *sender, int64_t now_ms)
{
    const struct flight_row *row = flight_first(&sender->flight);

    if (row && row->state == FLIGHT_ACKED)
        metric_observe_us(&sender->lane->metrics->send_seconds, (now_ms - row->sent_ms) * 1000);
    while (row && row->state == FLIGHT_ACKED && acks_room(sender)) {
        sender->hint.text[0] = '\0';
        accept(sender, row, now_ms);
        flight_pop(&sender->flight);
        row = flight_first(&sender->flight);
    }
    if (!row)
        sender->alone = false;
    metric_set(&sender->lane->metrics->in_flight, (int64_t)flight_count(&sender->flight));
}

void sender_drain_start(struct sender *sender, bool purge, bool penalty, int64_t now_ms)
{
    const struct settings *settings = sender->lane->settings;

    sender_flush(sender);
    sender->draining = true;
    sender->purged = purge;
    sender->penalty = penalty;
    sender->drain_until_ms = now_ms + (purge ? PURGE_WAIT_MS : settings->relay.send_timeout_ms);
    lane_hold(sender->lane);
    if (!purge)
        return;
    metric_add(&sender->lane->metrics->resets, 1);
    sender->broker.purge(sender->broker.ctx);
}

/* False when there is no block to write to: it goes on at the next step. */
static bool settle_flight(struct sender *sender, int64_t now_ms)
{
    struct flight_row *row;

    while ((row = flight_first(&sender->flight))) {
        if (row->state == FLIGHT_ACKED) {
            if (!acks_room(sender))
                return false;
            accept(sender, row, now_ms);
        } else {
            if (!sender_room(sender))
                return false;
            /* Which of them is bad is not known: each will be sent alone. */
            if (row->state == FLIGHT_REFUSED)
                suspects_add(&sender->suspects, row->seq);
            sender_drop(sender, row->seq, true);
        }
        flight_pop(&sender->flight);
    }
    return true;
}

/* Rows that are in the retry lane, or did not get there. */
bool sender_bring_home(struct sender *sender, bool again)
{
    int64_t seq;

    for (;;) {
        if (!sender_room(sender))
            return false;
        if (!stopped_home(&sender->lane->stopped, &seq))
            return true;
        sender_drop(sender, seq, again);
    }
}

static bool settle_batches(struct sender *sender)
{
    struct lane *lane = sender->lane;

    for (;;) {
        struct relay_batch *batch = sender->batch;

        if (!batch)
            batch = sender->batch = ring_take(&lane->filled);
        if (!batch)
            return true;
        for (; batch->next < batch->count; batch->next++) {
            if (!sender_room(sender))
                return false;
            sender_drop(sender, batch->rows[batch->next].seq, true);
        }
        sender_flush(sender);
        sender->batch = NULL;
        ring_give(&lane->empty, batch);
    }
}

/* A new producer is unknown to the partitions, and one that is just getting another leader might
 * take its second request and refuse the first: topic_open() waits until the leaders answer. */
void sender_reset(struct sender *sender)
{
    sender->broker.reset(sender->broker.ctx);
    topics_forget_all(&sender->topics);
}

static void drain_end(struct sender *sender, int64_t now_ms)
{
    bool from_start = sender->keys_full || sender->anew;

    if (sender->purged)
        sender_reset(sender);
    if (sender->penalty && sender->refused == 0) {
        breaker_failed(&sender->breaker, now_ms, dice_next(&sender->dice));
        note_set(&sender->lane->sending, now_ms, &sender->report);
    }
    if (sender->keys_full)
        sender->pause_until_ms = now_ms + sender->lane->settings->relay.sweep_ms;
    if (sender->anew)
        sender->generation = 0;
    sender->open = sender->failed = sender->refused = 0;
    sender->alone = sender->finished = sender->draining = false;
    sender->keys_full = sender->anew = false;
    metric_set(&sender->lane->metrics->in_flight, 0);
    lane_free(sender->lane, from_start);
}

int64_t sender_drain_step(struct sender *sender, int64_t now_ms)
{
    if (!sender->purged && (sender->finished || sender->failed > 0 || sender->refused > 0 ||
                            lane_epoch(sender->lane, now_ms) == 0)) {
        sender->purged = true;
        sender->drain_until_ms = now_ms + PURGE_WAIT_MS;
        sender->broker.purge(sender->broker.ctx);
    }
    if (sender->open > 0 && now_ms < sender->drain_until_ms)
        return DRAIN_POLL_MS;
    if (!lane_holds(sender->lane))
        return LANE_WAIT_MS;
    /* What is still open after an unpurged wait must not be reported later. */
    if (sender->open > 0)
        sender->purged = true;
    if (!settle_flight(sender, now_ms) || !sender_bring_home(sender, true) ||
        !settle_batches(sender)) {
        sender_flush(sender);
        return DRAIN_POLL_MS;
    }
    sender_flush(sender);
    drain_end(sender, now_ms);
    return 0;
}
