/* SPDX-License-Identifier: MIT */
#include "outbox/relay/sender.h"

#include "common/hash.h"
#include "common/text.h"
#include "outbox/relay/relay_row.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Rows per step: reports are handled between two steps. */
#define STEP_ROWS_MAX 500

/* A row of this size or more is sent as a single record, so that the broker does not refuse a
 * request with other rows because of it. */
#define SINGLE_BYTES_MIN 262144

#define BREAKER_BASE_MS 200
#define BREAKER_CAP_MS 10000
#define IDLE_MS 50

/* Wait for the reports of purged records; after it the producer is destroyed with them. */
#define PURGE_WAIT_MS 2000
#define DRAIN_POLL_MS 10

static void flush_acks(struct sender *sender)
{
    if (!sender->acks || sender->acks->count == 0)
        return;
    if (commits_is_on(&sender->commits))
        commits_hold(&sender->commits, sender->acks);
    else
        ring_give(&sender->lane->acked_blocks, sender->acks);
    sender->acks = NULL;
    lane_wake(sender->lane, LANE_DELETER);
}

/* Passes on blocks that are not empty. */
static void flush_blocks(struct sender *sender)
{
    /* While the deleter is busy, acknowledged rows are collected in one block: many blocks with few
     * rows each would use up the blocks. */
    if (!commits_is_on(&sender->commits) && ring_count(&sender->lane->acked_blocks) == 0)
        flush_acks(sender);
    lane_pass_drops(sender->lane, &sender->drops);
}

/* Makes room for one row of this kind in drops. Returns false when no empty block is left. */
static bool make_drop_room(struct sender *sender, enum seqs_kind kind)
{
    return lane_make_drop_room(sender->lane, &sender->drops, kind);
}

/* Returns a row to the reader; make_drop_room() must have succeeded for the row's kind. */
static void drop_row(struct sender *sender, int64_t seq)
{
    sender->drops->list[sender->drops->count++] = seq;
}

/* The row that was sent as a single record is not in flight any more. The copy of its row is freed
 * unless it was queued. */
static void end_single(struct sender *sender)
{
    sender->single = false;
    free(sender->single_move.row);
    sender->single_move.row = NULL;
}

static bool make_acks_room(struct sender *sender)
{
    if (sender->acks && sender->acks->count == SEQS_MAX)
        flush_acks(sender);
    if (!sender->acks)
        sender->acks = ring_take(&sender->lane->empty_blocks);
    return sender->acks != NULL;
}

static void accept_row(struct sender *sender, const struct flight_row *row, int64_t now_ms)
{
    sender->acks->list[sender->acks->count++] = row->seq;
    if (!commits_is_on(&sender->commits))
        metric_add(&sender->lane->metrics->published, 1);
    if (sender->single)
        suspects_remove(&sender->suspects, row->seq);
    if (breaker_worked(&sender->breaker))
        condition_ok(&sender->lane->sending, now_ms);
}

/* Passes the acknowledged rows at the front of the flight to the deleter. */
static void collect_acks(struct sender *sender, int64_t now_ms)
{
    const struct flight_row *row = flight_first(&sender->flight);

    if (row && row->state == FLIGHT_ACKED)
        metric_observe_us(&sender->lane->metrics->send_seconds, (now_ms - row->sent_ms) * 1000);
    while (row && row->state == FLIGHT_ACKED && make_acks_room(sender)) {
        sender->producer_err.text[0] = '\0';
        accept_row(sender, row, now_ms);
        flight_pop(&sender->flight);
        row = flight_first(&sender->flight);
    }
    if (!row)
        end_single(sender);
    metric_set(&sender->lane->metrics->in_flight, (int64_t)flight_count(&sender->flight));
}

/* Stops sending. purge cancels the records in flight instead of waiting for their reports. */
static void start_drain(struct sender *sender, bool purge, bool penalty, int64_t now_ms)
{
    const struct settings *settings = sender->lane->settings;

    /* The transaction is aborted, and with it the producer ends. */
    purge = purge || commits_is_on(&sender->commits);
    flush_blocks(sender);
    sender->draining = true;
    sender->purged = purge;
    sender->penalty = penalty;
    sender->drain_until_ms = now_ms + (purge ? PURGE_WAIT_MS : settings->relay.send_timeout_ms);
    lane_request_hold(sender->lane);
    if (!purge)
        return;
    metric_add(&sender->lane->metrics->resets, 1);
    sender->broker.purge(sender->broker.ctx);
}

/* Returns rows to the reader that were moved into the retry queue, or whose move was abandoned.
 * Moves are abandoned under a lost lease only; the drain or the end of the lease that follows
 * returns all other rows, too. Returns false when there is no room for more. */
static bool return_moved_rows(struct sender *sender)
{
    struct diverted_keys *diverted = &sender->lane->diverted;
    bool exact = commits_is_on(&sender->commits);
    bool moved;

    while (diverted_keys_can_return(diverted, &moved)) {
        bool holds = moved && exact && !sender->draining;

        if (holds ? !make_acks_room(sender)
                  : !make_drop_room(sender, moved && !exact ? SEQS_DONE : SEQS_REREAD))
            return false;
        if (holds)
            commits_hold_moved(&sender->commits, sender->acks, diverted_keys_return_row(diverted));
        else
            drop_row(sender, diverted_keys_return_row(diverted));
    }
    return true;
}

/* The partitions do not know a new producer. A partition that is changing its leader could accept
 * the second request of the producer and refuse the first; so all topics are forgotten, and
 * topic_open() waits until the leaders answer. */
static void reset_producer(struct sender *sender)
{
    sender->broker.reset(sender->broker.ctx);
    topics_forget_all(&sender->topics);
}

static void on_report(void *ctx, uint64_t ticket, enum rc rc, const struct err *err)
{
    struct sender *sender = ctx;
    struct flight_row *row = flight_find(&sender->flight, ticket);

    if (!row || row->state != FLIGHT_SENT)
        return;
    sender->unreported--;
    if (rc == RC_OK) {
        row->state = FLIGHT_ACKED;
        return;
    }
    /* The report of a purged record does not explain the drain. */
    if (sender->failed + sender->refused == 0 && !(sender->draining && sender->purged))
        sender->drain_err = *err;
    if (rc == RC_REJECT) {
        /* A refusal is the cause; records that failed with it are not. */
        if (sender->refused == 0)
            sender->drain_err = *err;
        row->state = FLIGHT_REFUSED;
        sender->refused++;
        return;
    }
    row->state = FLIGHT_FAILED;
    sender->failed++;
}

/* Forgets the state of the previous lease. */
static void forget_lease(struct sender *sender, int64_t now_ms)
{
    struct lane *lane = sender->lane;

    sender->generation = 0;
    sender->suspects.count = 0;
    commits_end_lease(&sender->commits);
    topics_forget_all(&sender->topics);
    sender->pause_until_ms = 0;
    breaker_worked(&sender->breaker);
    condition_ok(&lane->sending, now_ms);
    condition_ok(&lane->key_delivery, now_ms);
    condition_ok(&lane->lane_delivery, now_ms);
}

static void begin_full_scan(struct sender *sender, uint64_t scan)
{
    if (scan == sender->scan)
        return;
    sender->scan = scan;
    diverted_keys_begin_full_scan(&sender->lane->diverted, scan);
    sender->suspects.count = 0;
    topics_forget_refused(&sender->topics);
}

/* Invariant R8: the keys were loaded under this lease before a row is sent under it (mutant
 * keys-not-loaded). Returns whether they are. */
static bool adopt_keys(struct sender *sender, int64_t now_ms)
{
    struct lane *lane = sender->lane;
    size_t count;
    struct err err;

    if (sender->generation != 0)
        return true;
    if (atomic_load(&lane->diverted.too_many)) {
        err_set(&err,
                "more than relay.diverted_keys_max = %zu keys of this lane have tasks in the retry "
                "queue; nothing is sent until they are fewer",
                lane->diverted.count_max);
        condition_fail(&lane->lane_delivery, now_ms, &err);
    }
    sender->generation = diverted_keys_adopt(&lane->diverted, sender->epoch);
    if (sender->generation == 0)
        return false;
    condition_ok(&lane->lane_delivery, now_ms);
    count = atomic_load(&lane->diverted.count);
    err_set(&err, "%zu keys have tasks in the retry queue since before this process took the lane",
            count);
    if (count > 0)
        condition_fail(&lane->key_delivery, now_ms, &err);
    return true;
}

static void update_key_state(struct sender *sender, int64_t now_ms)
{
    struct lane *lane = sender->lane;
    size_t count = sender->generation == 0 ? 0 : atomic_load(&lane->diverted.count);

    metric_set(&lane->metrics->diverted_keys, (int64_t)count);
    if (count == 0 && sender->generation != 0)
        condition_ok(&lane->key_delivery, now_ms);
}

static bool has_rows(const struct sender *sender)
{
    return sender->batch || flight_count(&sender->flight) > 0 || commits_has_rows(&sender->commits);
}

static bool has_work(const struct sender *sender)
{
    return has_rows(sender) || ring_count(&sender->lane->filled_batches) > 0;
}

/* Whether the sender has nothing under way, not even the end of a lease. What gives it work then
 * wakes it: a batch, a change of the lease, the diverter, an event of the producer. */
static bool may_rest(const struct sender *sender, int64_t now_ms)
{
    const struct lane *lane = sender->lane;
    bool holds = lane_epoch(lane, now_ms) != 0 && !atomic_load(&lane->lease.draining);

    return !sender->draining && !has_work(sender) && !commits_is_on(&sender->commits) &&
           sender->pause_until_ms == 0 && (holds || sender->epoch == 0) &&
           (!sender->acks || sender->acks->count == 0) &&
           (!sender->drops || sender->drops->count == 0) && atomic_load(&lane->diverted.count) == 0;
}

static bool oldest_is_late(struct sender *sender, int64_t now_ms)
{
    const struct flight_row *row = flight_first(&sender->flight);

    return row && row->state == FLIGHT_SENT &&
           now_ms - row->sent_ms >= sender->lane->settings->relay.send_timeout_ms;
}

static void drain_after_failure(struct sender *sender, const struct err *err, int64_t now_ms)
{
    sender->drain_err = *err;
    start_drain(sender, true, true, now_ms);
}

static void record_keys_full(struct sender *sender, const char *why, int64_t now_ms)
{
    struct err err;

    err_set(
        &err,
        "more than relay.diverted_keys_max = %zu keys are diverted behind refused events; the lane "
        "waits relay.full_scan_ms and tries again; the last one: %s",
        sender->lane->diverted.count_max, why);
    condition_fail(&sender->lane->lane_delivery, now_ms, &err);
}

/* Queues a row for the diverter, which diverts its key, and logs a newly diverted key. name is the
 * key's text for the log. With DIVERT_QUEUED the queue takes move->row over. */
static enum divert_result queue_move(struct sender *sender, struct relay_move *move,
                                     const char *name, int64_t now_ms)
{
    struct lane *lane = sender->lane;
    struct err err;
    bool newly_diverted;
    enum divert_result result;

    commits_name_move(&sender->commits, move);
    result = diverted_keys_divert_row(&lane->diverted, sender->generation, move, &newly_diverted);
    if (result == DIVERT_QUEUED)
        move->row = NULL;
    if (result == DIVERT_FULL) {
        record_keys_full(sender, move->reason, now_ms);
        sender->keys_full = true;
        start_drain(sender, true, false, now_ms);
    }
    if (result != DIVERT_QUEUED && result != DIVERT_LEFT)
        return result;
    sender->moves_queued = true;
    if (move->reason[0])
        metric_add(&lane->metrics->refused, 1);
    if (newly_diverted) {
        err_set(&err, "seq %" PRId64 ", key \"%s\": %s", move->seq, name, move->reason);
        log_error(LOG_WARN, "key_diverted", &err, "lane=%s", lane->name);
        condition_fail(&lane->key_delivery, now_ms, &err);
    }
    return result;
}

/* Whether a row can be queued for the diverter. A position in Kafka does not pass a row that is
 * left, so a lane that publishes exactly once waits for room instead. */
static bool has_move_room(struct sender *sender, const struct relay_row *row)
{
    return !commits_is_on(&sender->commits) ||
           diverted_keys_has_room(&sender->lane->diverted, relay_row_bytes(row));
}

/* Leaves the refused row in the table. A full scan that began while the row was in flight skipped
 * it and reads only later rows of its key. The reader takes returned rows after it has increased
 * `scan`, so the row is returned here before `scan` is read. */
static void leave_row(struct sender *sender, const struct flight_row *row)
{
    drop_row(sender, row->seq);
    flush_blocks(sender);
    begin_full_scan(sender, (uint64_t)atomic_load(&sender->lane->scan));
    diverted_keys_leave_row(&sender->lane->diverted, row->key);
}

/* Diverts the key of the only row in flight, which was refused. The producer is reset, because it
 * sends no later record past a refused one. */
static void divert_single_row(struct sender *sender, int64_t now_ms)
{
    const struct flight_row *row = flight_first(&sender->flight);
    struct relay_move *move = &sender->single_move;

    if (!make_drop_room(sender, SEQS_LEFT) || !has_move_room(sender, move->row))
        return;
    snprintf(move->reason, sizeof(move->reason), "%.255s", sender->drain_err.text);
    switch (queue_move(sender, move, sender->single_name, now_ms)) {
    case DIVERT_QUEUED:
        break;
    case DIVERT_LEFT:
        leave_row(sender, row);
        break;
    case DIVERT_FULL:
    case DIVERT_STALE:
        return;
    }
    suspects_remove(&sender->suspects, row->seq);
    flight_pop(&sender->flight);
    end_single(sender);
    sender->refused = 0;
    sender->producer_failed = false;
    reset_producer(sender);
    if (commits_is_on(&sender->commits))
        commits_forget_sent(&sender->commits);
    if (breaker_worked(&sender->breaker))
        condition_ok(&sender->lane->sending, now_ms);
}

static void drain_after_timeout(struct sender *sender, int64_t now_ms)
{
    struct err err;

    err_set(&err,
            "the broker has not acknowledged a record for relay.send_timeout_ms = %" PRId64 "%s%s",
            sender->lane->settings->relay.send_timeout_ms, sender->producer_err.text[0] ? ": " : "",
            sender->producer_err.text);
    drain_after_failure(sender, &err, now_ms);
}

/* Whether the rows that the reader has passed are still sent while the lease drains. The position
 * in a stream is known between batches only: the next process would repeat the rows of a batch that
 * were sent, if the others were returned. The reader passes no further batch, and the leases end a
 * drain that takes too long. */
static bool finishes_batches(const struct sender *sender, int64_t now_ms)
{
    return sender->lane->is_stream && has_work(sender) && sender->generation != 0 &&
           !sender->breaker.open && now_ms >= sender->pause_until_ms;
}

/* Returns whether the lease drains and no row is sent any more. */
static bool is_ending(const struct sender *sender, int64_t now_ms)
{
    return atomic_load(&sender->lane->lease.draining) && !finishes_batches(sender, now_ms);
}

/* Checks the lease, the keys and the reports since the last step, and starts a drain if needed. */
static void check_results(struct sender *sender, const struct err *err, int64_t now_ms)
{
    int64_t epoch = lane_epoch(sender->lane, now_ms);
    bool lost = epoch == 0 || (has_rows(sender) && epoch != sender->epoch);

    if (lost || is_ending(sender, now_ms)) {
        if (has_work(sender))
            start_drain(sender, lost, false, now_ms);
        return;
    }
    if (sender->generation != 0 && epoch == sender->epoch &&
        diverted_keys_adopt(&sender->lane->diverted, epoch) != sender->generation) {
        sender->reload_keys = true;
        start_drain(sender, true, false, now_ms);
        return;
    }
    /* Records that were sent after a refused one fail, too: the refusal is the cause. */
    if (sender->refused > 0 && sender->single)
        divert_single_row(sender, now_ms);
    else if (sender->refused > 0)
        start_drain(sender, true, false, now_ms);
    else if (sender->failed > 0)
        start_drain(sender, true, true, now_ms);
    else if (sender->producer_failed)
        drain_after_failure(sender, err, now_ms);
    else if (oldest_is_late(sender, now_ms))
        drain_after_timeout(sender, now_ms);
}

/* The result of handling one row: done; it waits for reports; end the step. */
enum row_result { ROW_DONE, ROW_WAITS, ROW_NEW_STEP };

/* The batch of the row may be gone before the row is moved, so the move has a copy, which the
 * caller owns. Without memory for it the row must not be left either, because the next rows of its
 * key would be sent before it. So all rows are read again later. Returns false when this drain has
 * been started. */
static bool copy_row(struct sender *sender, struct relay_move *move, const struct relay_row *row,
                     int64_t now_ms)
{
    struct err err;

    move->row = relay_row_copy(row);
    if (move->row)
        return true;
    err_set(&err, "out of memory for a copy of row %" PRId64 " with %zu bytes", row->seq,
            relay_row_bytes(row));
    drain_after_failure(sender, &err, now_ms);
    return false;
}

/* Makes the move of a row. Returns as copy_row(), which only a stream lane needs. */
static bool make_move(struct sender *sender, struct relay_move *move, const struct relay_row *row,
                      const struct topic *topic, uint64_t key, const char *why, int64_t now_ms)
{
    assert(!move->row);
    if (sender->lane->is_stream && !copy_row(sender, move, row, now_ms))
        return false;
    move->seq = row->seq;
    move->key = key;
    move->topic = topic ? topic->name : "";
    ordering_key_make_text(move->ordering_key, move->topic, row->aggregate_id);
    snprintf(move->reason, sizeof(move->reason), "%.255s", why);
    return true;
}

/* Diverts a row. why is the reason of the refusal, empty if the key is diverted already. */
static enum row_result divert_row(struct sender *sender, const struct relay_row *row,
                                  const struct topic *topic, uint64_t key, const char *why,
                                  int64_t now_ms)
{
    char name[SENDER_NAME_SIZE];
    enum divert_result result;

    if (!has_move_room(sender, row))
        return ROW_WAITS;
    if (!make_move(sender, &sender->move, row, topic, key, why, now_ms))
        return ROW_NEW_STEP;
    relay_row_name_key(row, name, sizeof(name));
    result = queue_move(sender, &sender->move, name, now_ms);
    free(sender->move.row);
    sender->move.row = NULL;
    switch (result) {
    case DIVERT_LEFT:
        drop_row(sender, row->seq);
        return ROW_DONE;
    case DIVERT_QUEUED:
        return ROW_DONE;
    case DIVERT_FULL:
    case DIVERT_STALE:
        break;
    }
    return ROW_NEW_STEP;
}

/* Diverts a row that cannot be sent. Invariant R6: not before all earlier rows of its key are
 * acknowledged, because they may fail and have to be sent again (mutant moved-before-ack). */
static enum row_result refuse_row(struct sender *sender, const struct relay_row *row,
                                  const struct topic *topic, uint64_t key, const struct err *why,
                                  int64_t now_ms)
{
    if (flight_has_key(&sender->flight, key))
        return ROW_WAITS;
    if (commits_end_for_key(&sender->commits, key))
        return ROW_WAITS;
    return divert_row(sender, row, topic, key, why->text, now_ms);
}

static enum row_result open_topic(struct sender *sender, struct topic *topic, int64_t now_ms)
{
    struct err err = {0};

    switch (sender->broker.topic_open(sender->broker.ctx, topic->name, topic->index, &err)) {
    case RC_OK:
        topic->state = TOPIC_READY;
        break;
    case RC_RETRY:
        drain_after_failure(sender, &err, now_ms);
        break;
    case RC_REJECT:
    case RC_FATAL:
        topic->state = TOPIC_REFUSED;
        snprintf(topic->why, sizeof(topic->why), "%.255s", err.text);
        break;
    }
    /* The call may have taken long, so the next step checks the lease again. */
    return ROW_NEW_STEP;
}

static enum row_result send_row(struct sender *sender, const struct relay_row *row,
                                struct topic *topic, uint64_t key, bool single, int64_t now_ms)
{
    const struct flight_row place = {.seq = row->seq, .sent_ms = now_ms, .key = key};
    struct err err;
    enum rc rc;

    if (single && !make_move(sender, &sender->single_move, row, topic, key, "", now_ms))
        return ROW_NEW_STEP;
    rc = sender->broker.send(sender->broker.ctx, topic->name, topic->index, row,
                             flight_ticket(&sender->flight), &err);
    if (rc != RC_OK)
        end_single(sender);
    switch (rc) {
    case RC_OK:
        flight_add(&sender->flight, &place);
        if (commits_is_on(&sender->commits))
            commits_add_key(&sender->commits, key);
        sender->unreported++;
        sender->single = single;
        if (single)
            relay_row_name_key(row, sender->single_name, sizeof(sender->single_name));
        return ROW_DONE;
    case RC_REJECT:
        return refuse_row(sender, row, topic, key, &err, now_ms);
    case RC_FATAL:
        drain_after_failure(sender, &err, now_ms);
        return ROW_NEW_STEP;
    case RC_RETRY:
        break;
    }
    if (flight_count(&sender->flight) > 0)
        return ROW_WAITS;
    /* No record is in flight, so no report will make room. */
    drain_after_failure(sender, &err, now_ms);
    return ROW_NEW_STEP;
}

static bool must_send_single(const struct sender *sender, const struct relay_row *row)
{
    return relay_row_bytes(row) >= SINGLE_BYTES_MIN || sender->breaker.open ||
           (sender->suspects.count > 0 && suspects_has(&sender->suspects, row->seq));
}

/* Whether records are in flight or in a transaction, which ends soon. */
static bool has_sent(struct sender *sender)
{
    return commits_end_for_all(&sender->commits) || flight_count(&sender->flight) > 0;
}

static enum row_result handle_row(struct sender *sender, const struct relay_row *row,
                                  int64_t now_ms)
{
    struct topic *topic = NULL;
    struct err err;
    enum rc rc = topics_find(&sender->topics, row->aggregate_type, &topic, &err);
    uint64_t key = ordering_key_hash_of_row(topic ? topic->hash : HASH_START, row->aggregate_id);
    bool single;

    assert(rc != RC_OK || topic);
    if (rc == RC_FATAL) {
        drain_after_failure(sender, &err, now_ms);
        return ROW_NEW_STEP;
    }
    switch (diverted_keys_check(&sender->lane->diverted, sender->generation, key)) {
    case KEY_DIVERTED:
        return divert_row(sender, row, topic, key, "", now_ms);
    case KEY_STALE:
        return ROW_NEW_STEP;
    case KEY_NOT_DIVERTED:
        break;
    }
    if (rc == RC_OK)
        rc = relay_row_check(row, sender->lane->settings->relay.row_bytes_max, &err);
    assert(rc != RC_OK || !row->oversize);
    if (rc == RC_OK && topic->state == TOPIC_REFUSED)
        rc = err_fail(&err, RC_REJECT, 0, "%s", topic->why);
    if (rc != RC_OK)
        return refuse_row(sender, row, topic, key, &err, now_ms);
    single = must_send_single(sender, row);
    /* topic_open() may replace the producer, so no record may be in flight. */
    if ((single || topic->state == TOPIC_UNKNOWN) && has_sent(sender))
        return ROW_WAITS;
    if (topic->state == TOPIC_UNKNOWN)
        return open_topic(sender, topic, now_ms);
    return send_row(sender, row, topic, key, single, now_ms);
}

static void take_batch(struct sender *sender, int64_t now_ms)
{
    struct relay_batch *batch = ring_take(&sender->lane->filled_batches);

    sender->batch = batch;
    if (!batch)
        return;
    if (batch->epoch != sender->epoch)
        forget_lease(sender, now_ms);
    sender->epoch = batch->epoch;
    begin_full_scan(sender, batch->scan);
}

/* Returns the rows left in the table before the batch; see take_returned() of the reader. */
static void return_batch(struct sender *sender)
{
    flush_blocks(sender);
    if (commits_is_on(&sender->commits))
        commits_end_batch(&sender->commits, sender->batch);
    ring_give(&sender->lane->empty_batches, sender->batch);
    sender->batch = NULL;
    lane_wake(sender->lane, LANE_READER);
}

/* Invariant R4: called before each row, so a process that was stopped past the end of its lease
 * sends no further row (mutants lease-not-checked, lease-checked-per-step). */
static bool may_send(struct sender *sender, int64_t now_ms)
{
    if (lane_epoch_now(sender->lane, now_ms) != sender->epoch || !adopt_keys(sender, now_ms))
        return false;
    if (sender->single || flight_full(&sender->flight) || now_ms < sender->pause_until_ms)
        return false;
    if (commits_is_on(&sender->commits) &&
        !commits_may_handle(&sender->commits, sender->batch->rows[sender->batch->next].seq, now_ms))
        return false;
    return breaker_wait_ms(&sender->breaker, now_ms) == 0 && make_drop_room(sender, SEQS_LEFT);
}

/* Sends up to STEP_ROWS_MAX rows. Returns in how many ms the next step is due. */
static int64_t send_rows(struct sender *sender, int64_t now_ms)
{
    for (size_t i = 0; i < STEP_ROWS_MAX; i++) {
        const struct relay_row *row;
        enum row_result result;

        if (!sender->batch)
            take_batch(sender, now_ms);
        if (!sender->batch || !may_send(sender, now_ms))
            return IDLE_MS;
        row = &sender->batch->rows[sender->batch->next];
        result = handle_row(sender, row, now_ms);
        if (result == ROW_WAITS)
            return IDLE_MS;
        if (result == ROW_NEW_STEP)
            return 0;
        if (commits_is_on(&sender->commits))
            commits_pass_row(&sender->commits, row, now_ms);
        if (++sender->batch->next == sender->batch->count)
            return_batch(sender);
    }
    return 0;
}

/* Empties the flight during a drain: passes acknowledged rows on and returns the others to be read
 * again. Invariant R5: no undecided row is left out (mutant undecided-forgotten;
 * test_relay_trouble). Returns false when no empty block is left; the next step continues. */
static bool return_flight(struct sender *sender, int64_t now_ms)
{
    bool aborts = commits_is_on(&sender->commits);
    struct flight_row *row;

    if (aborts) {
        flush_acks(sender);
        commits_give_up(&sender->commits);
    }
    while ((row = flight_first(&sender->flight))) {
        if (row->state == FLIGHT_ACKED && !aborts) {
            if (!make_acks_room(sender))
                return false;
            accept_row(sender, row, now_ms);
        } else {
            if (!make_drop_room(sender, SEQS_REREAD))
                return false;
            /* Any of the refused rows may be bad, so each is sent as a single record. */
            if (row->state == FLIGHT_REFUSED)
                suspects_add(&sender->suspects, row->seq);
            drop_row(sender, row->seq);
        }
        flight_pop(&sender->flight);
    }
    return true;
}

/* Returns the unsent rows of all batches during a drain. The result is as of return_flight(). */
static bool return_batches(struct sender *sender)
{
    for (;;) {
        struct relay_batch *batch = sender->batch;

        if (!batch)
            batch = sender->batch = ring_take(&sender->lane->filled_batches);
        if (!batch)
            return true;
        for (; batch->next < batch->count; batch->next++) {
            if (!make_drop_room(sender, SEQS_REREAD))
                return false;
            drop_row(sender, batch->rows[batch->next].seq);
        }
        flush_blocks(sender);
        sender->batch = NULL;
        ring_give(&sender->lane->empty_batches, batch);
    }
}

static void end_drain(struct sender *sender, int64_t now_ms)
{
    bool from_start = sender->keys_full || sender->reload_keys;

    if (sender->purged)
        reset_producer(sender);
    if (sender->penalty && sender->refused == 0) {
        breaker_failed(&sender->breaker, now_ms, rng_next(&sender->rng));
        condition_fail(&sender->lane->sending, now_ms, &sender->drain_err);
    }
    if (sender->keys_full)
        sender->pause_until_ms = now_ms + sender->lane->settings->relay.full_scan_ms;
    if (sender->reload_keys)
        sender->generation = 0;
    sender->unreported = sender->failed = sender->refused = 0;
    end_single(sender);
    sender->producer_failed = sender->draining = sender->keys_full = sender->reload_keys = false;
    metric_set(&sender->lane->metrics->in_flight, 0);
    lane_release_hold(sender->lane, from_start);
}

static int64_t step_drain(struct sender *sender, int64_t now_ms)
{
    if (!sender->purged && (sender->producer_failed || sender->failed > 0 || sender->refused > 0 ||
                            lane_epoch(sender->lane, now_ms) == 0)) {
        sender->purged = true;
        sender->drain_until_ms = now_ms + PURGE_WAIT_MS;
        sender->broker.purge(sender->broker.ctx);
    }
    if (sender->unreported > 0 && now_ms < sender->drain_until_ms)
        return DRAIN_POLL_MS;
    if (!lane_is_held(sender->lane))
        return LANE_WAIT_MS;
    /* Records without a report must not be reported later, so the producer is reset. */
    if (sender->unreported > 0)
        sender->purged = true;
    if (!return_flight(sender, now_ms) || !return_moved_rows(sender) || !return_batches(sender)) {
        flush_blocks(sender);
        return DRAIN_POLL_MS;
    }
    flush_blocks(sender);
    end_drain(sender, now_ms);
    return 0;
}

/* Closes the connection while the lease is not held. The state is forgotten only when the reader is
 * idle, too, and will begin with the first row: if the lease is held again before the reader has
 * noticed its loss, sending continues where it was. */
static int64_t release_producer(struct sender *sender, int64_t now_ms)
{
    if ((sender->epoch != 0 || commits_has_producer(&sender->commits)) &&
        atomic_load(&sender->lane->lease.idle)) {
        sender->epoch = 0;
        forget_lease(sender, now_ms);
        reset_producer(sender);
    }
    return LANE_WAIT_MS;
}

/* Returns 0 if rows may be sent, else in how many ms the next step is due. */
static int64_t step_commits(struct sender *sender, int64_t now_ms)
{
    const struct commits_input input = {&sender->acks, flight_count(&sender->flight) > 0,
                                        sender->batch != NULL, sender->breaker.open};
    struct err err = {0};
    enum commits_result result = commits_step(&sender->commits, &input, now_ms, &err);

    if (commits_take_replaced(&sender->commits))
        topics_forget_all(&sender->topics);
    if (result == COMMITS_ABORTED)
        drain_after_failure(sender, &err, now_ms);
    if (result == COMMITS_FENCED)
        lane_fenced(sender->lane, &err);
    return result == COMMITS_SEND ? 0 : DRAIN_POLL_MS;
}

static int64_t run_step(struct sender *sender, int64_t now_ms)
{
    int64_t wait_ms = 0;

    if (sender->draining)
        return step_drain(sender, now_ms);
    if (lane_epoch(sender->lane, now_ms) == 0 || is_ending(sender, now_ms))
        return release_producer(sender, now_ms);
    if (sender->epoch != 0)
        begin_full_scan(sender, (uint64_t)atomic_load(&sender->lane->scan));
    if (sender->pause_until_ms > 0 && now_ms >= sender->pause_until_ms) {
        sender->pause_until_ms = 0;
        condition_ok(&sender->lane->lane_delivery, now_ms);
    }
    if (commits_is_on(&sender->commits))
        wait_ms = step_commits(sender, now_ms);
    if (wait_ms > 0)
        return wait_ms;
    return commits_wait_ms(&sender->commits, send_rows(sender, now_ms), now_ms);
}

enum rc sender_init(struct sender *sender, struct lane *lane, const struct broker *broker,
                    uint64_t seed, struct err *err)
{
    const struct settings *settings = lane->settings;
    const size_t rows =
        flight_rows((size_t)settings->relay.window_rows_max, list_count(settings->relay.lanes));
    enum rc rc;

    memset(sender, 0, sizeof(*sender));
    sender->lane = lane;
    sender->broker = *broker;
    sender->rng = seed;
    sender->breaker.backoff =
        (struct backoff){.base_ms = BREAKER_BASE_MS, .cap_ms = BREAKER_CAP_MS};
    topics_init(&sender->topics, lane->own->topics, settings->relay.topic_prefix);
    rc = topics_set_rule(&sender->topics, lane->own->topic, lane->own->topic_regex, err);
    if (rc == RC_OK)
        rc = flight_init(&sender->flight, rows, err);
    if (rc == RC_OK)
        rc = commits_init(&sender->commits, lane, broker, ~seed, err);
    if (rc != RC_OK)
        sender_done(sender);
    return rc;
}

void sender_done(struct sender *sender)
{
    end_single(sender);
    commits_done(&sender->commits);
    topics_done(&sender->topics);
    flight_done(&sender->flight);
}

int64_t sender_step(void *arg, int64_t now_ms)
{
    struct sender *sender = arg;
    struct err err = {0};
    enum rc rc = sender->broker.poll(sender->broker.ctx, on_report, sender, &err);
    int64_t wait_ms;

    if (rc == RC_FATAL && commits_is_fenced(&sender->commits))
        lane_fenced(sender->lane, &err);
    if (rc == RC_FATAL)
        sender->producer_failed = true;
    else if (rc != RC_OK)
        sender->producer_err = err;
    collect_acks(sender, now_ms);
    if (!sender->draining)
        return_moved_rows(sender);
    if (!sender->draining)
        check_results(sender, &err, now_ms);
    wait_ms = run_step(sender, now_ms);
    flush_blocks(sender);
    update_key_state(sender, now_ms);
    if (sender->moves_queued)
        lane_wake(sender->lane, LANE_DELETER);
    sender->moves_queued = false;
    if (wait_ms > 0 && may_rest(sender, now_ms))
        wait_ms = lane_rest_ms(sender->lane, now_ms);
    return wait_ms;
}
