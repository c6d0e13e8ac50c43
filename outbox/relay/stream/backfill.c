/* SPDX-License-Identifier: MIT */
#include "outbox/relay/stream/backfill.h"

#include "common/hash.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Waits for reports, and after a failure of the broker. */
#define POLL_MS 2
#define BACKOFF_MS 500

#define WORD_BITS 64

enum row_state {
    ROW_OPEN, /* to be sent */
    ROW_SENT,
    ROW_ACKED,
    ROW_REFUSED, /* as a single record, or with others */
    ROW_MOVED,
    ROW_LEFT,
};

static void add_published(void *ctx, const struct seq_range *range)
{
    struct backfill *backfill = ctx;
    int64_t from = range->from - backfill->window_from;
    int64_t to = range->to - backfill->window_from;

    if (from < 0)
        from = 0;
    if (to >= BACKFILL_WINDOW_SEQS)
        to = BACKFILL_WINDOW_SEQS - 1;
    while (from <= to) {
        if (from % WORD_BITS == 0 && to - from >= WORD_BITS - 1) {
            backfill->window[from / WORD_BITS] = UINT64_MAX;
            from += WORD_BITS;
        } else {
            backfill->window[from / WORD_BITS] |= UINT64_C(1) << (from % WORD_BITS);
            from++;
        }
    }
}

static enum rc load_window(struct backfill *backfill, int64_t from, struct err *err)
{
    enum rc rc;

    memset(backfill->window, 0, (size_t)BACKFILL_WINDOW_SEQS / 8);
    backfill->window_from = from;
    rc = backfill->ops.published(backfill->ops.ctx, from + BACKFILL_WINDOW_SEQS - 1, add_published,
                                 backfill, err);
    backfill->window_known = rc == RC_OK;
    return rc;
}

/* Keeps the listed seqs that are not saved as published. */
static enum rc keep_missing(struct backfill *backfill, size_t *count, struct err *err)
{
    size_t kept = 0;

    for (size_t i = 0; i < *count; i++) {
        int64_t seq = backfill->listed[i];
        int64_t at = seq - backfill->window_from;
        enum rc rc = RC_OK;

        if (!backfill->window_known || at < 0 || at >= BACKFILL_WINDOW_SEQS) {
            rc = load_window(backfill, seq, err);
            at = 0;
        }
        if (rc != RC_OK)
            return rc;
        if (!(backfill->window[at / WORD_BITS] >> (at % WORD_BITS) & 1))
            backfill->listed[kept++] = seq;
    }
    *count = kept;
    return RC_OK;
}

/* Keeps the listed seqs that the table still has. What the lane has published meanwhile its cleaner
 * may have deleted, and after it the entry that said so: so the entries are read before. */
static enum rc keep_present(struct backfill *backfill, size_t *count, struct err *err)
{
    int64_t *listed = backfill->listed;
    const int64_t *again = backfill->again;
    int64_t after = *count > 0 ? listed[0] - 1 : 0;
    size_t again_count = 0;
    size_t kept = 0;
    size_t at = 0;
    enum rc rc = RC_OK;

    while (at < *count) {
        rc = backfill->ops.list(backfill->ops.ctx, after, listed[*count - 1], backfill->again,
                                BACKFILL_LIST_MAX, &again_count, err);
        if (rc != RC_OK || again_count == 0)
            break;
        for (size_t i = 0; i < again_count; i++) {
            while (at < *count && listed[at] < again[i])
                at++;
            if (at < *count && listed[at] == again[i])
                listed[kept++] = listed[at++];
        }
        after = again[again_count - 1];
    }
    *count = kept;
    return rc;
}

static uint64_t *find_key(const struct backfill *backfill, uint64_t key)
{
    size_t at = (size_t)key & (backfill->key_slots - 1);

    while (backfill->keys[at] != 0 && backfill->keys[at] != key)
        at = (at + 1) & (backfill->key_slots - 1);
    return &backfill->keys[at];
}

static enum rc add_key(struct backfill *backfill, uint64_t key, struct err *err)
{
    uint64_t *slot = find_key(backfill, key);

    if (*slot == key)
        return RC_OK;
    if (backfill->key_count * 2 >= backfill->key_slots)
        return err_fail(err, RC_REJECT, 0,
                        "more than relay.diverted_keys_max = %" PRId64 " keys have refused rows: "
                        "set a larger one, or let their tasks end, and begin again",
                        backfill->settings->relay.diverted_keys_max);
    *slot = key;
    backfill->key_count++;
    return RC_OK;
}

static enum rc add_key_text(void *ctx, const char *ordering_key, struct err *err)
{
    return add_key(ctx, ordering_key_hash_of_text(ordering_key), err);
}

static void on_report(void *ctx, uint64_t ticket, enum rc rc, const struct err *err)
{
    struct backfill *backfill = ctx;

    if (ticket >= backfill->batch.count || backfill->states[ticket] != ROW_SENT)
        return;
    backfill->in_flight--;
    if (rc == RC_OK) {
        backfill->states[ticket] = ROW_ACKED;
        backfill->worked_ms = backfill->ops.time_ms(backfill->ops.ctx);
        return;
    }
    /* Records that were sent after a refused one fail, too: the refusal is the cause. */
    if (!backfill->failed || (rc == RC_REJECT && !backfill->refused))
        backfill->why = *err;
    backfill->failed = true;
    backfill->refused = backfill->refused || rc == RC_REJECT;
    backfill->states[ticket] = rc == RC_REJECT ? ROW_REFUSED : ROW_OPEN;
}

/* Waits, keeps what protects the lane, and notes a signal. */
static enum rc wait_held(struct backfill *backfill, int64_t wait_ms, struct err *err)
{
    if (backfill->ops.wait(backfill->ops.ctx, wait_ms))
        backfill->ending = true;
    return backfill->ops.hold(backfill->ops.ctx, err);
}

static enum rc end_if_signalled(const struct backfill *backfill, struct err *err)
{
    return backfill->ending ? err_fail(err, RC_RETRY, 0, "ended by a signal") : RC_OK;
}

/* While nothing is in flight. */
static enum rc pause_work(struct backfill *backfill, int64_t wait_ms, struct err *err)
{
    enum rc rc = wait_held(backfill, wait_ms, err);

    return rc == RC_OK ? end_if_signalled(backfill, err) : rc;
}

static void fail_round(struct backfill *backfill, const struct err *why)
{
    if (!backfill->failed)
        backfill->why = *why;
    backfill->failed = true;
}

static bool has_to_wait(const struct backfill *backfill, size_t most)
{
    return backfill->in_flight > (backfill->ending ? 0 : most) && !backfill->failed;
}

/* Waits until at most this many rows are in flight, or one has failed. After a signal it waits for
 * all of them, so that they can be marked, and then ends. */
static enum rc wait_reports(struct backfill *backfill, size_t most, struct err *err)
{
    int64_t send_timeout_ms = backfill->settings->relay.send_timeout_ms;
    int64_t until_ms = backfill->ops.time_ms(backfill->ops.ctx) + send_timeout_ms;
    struct err last = {0};
    enum rc rc = RC_OK;

    while (rc == RC_OK && has_to_wait(backfill, most)) {
        struct err why = {0};
        enum rc polled = backfill->broker.poll(backfill->broker.ctx, on_report, backfill, &why);

        if (polled == RC_FATAL)
            fail_round(backfill, &why);
        else if (polled != RC_OK)
            last = why;
        if (!has_to_wait(backfill, most))
            break;
        if (backfill->ops.time_ms(backfill->ops.ctx) >= until_ms) {
            err_set(&why,
                    "the broker has not acknowledged a record for relay.send_timeout_ms = %" PRId64
                    "%s%s",
                    send_timeout_ms, last.text[0] ? ": " : "", last.text);
            fail_round(backfill, &why);
        }
        rc = wait_held(backfill, POLL_MS, err);
    }
    return rc == RC_OK ? end_if_signalled(backfill, err) : rc;
}

/* Moves a row, or leaves it, and lets its key be sent no more. Nothing may be in flight, unless the
 * key is one of these already. */
static enum rc move_or_leave(struct backfill *backfill, size_t at, const struct topic *topic,
                             uint64_t key, const struct err *why, struct err *err)
{
    const struct relay_row *row = &backfill->batch.rows[at];
    struct relay_move move = {.seq = row->seq, .key = key, .topic = topic ? topic->name : ""};
    bool moves = backfill->ops.move != NULL;
    enum rc rc = RC_OK;

    ordering_key_make_text(move.ordering_key, move.topic, row->aggregate_id);
    snprintf(move.reason, sizeof(move.reason), "%.255s", why ? why->text : "");
    if (moves)
        rc = backfill->ops.move(backfill->ops.ctx, &move, err);
    if (rc == RC_OK)
        rc = add_key(backfill, key, err);
    if (rc != RC_OK)
        return rc;
    backfill->states[at] = moves ? ROW_MOVED : ROW_LEFT;
    if (moves)
        backfill->result.moved++;
    else
        backfill->result.left++;
    backfill->ops.on_refused(backfill->ops.on_refused_ctx, row->seq, moves, why);
    return RC_OK;
}

/* A refused row is moved, or left, when nothing is in flight: earlier rows of its key may fail. */
static enum rc refuse_row(struct backfill *backfill, size_t at, const struct topic *topic,
                          uint64_t key, const struct err *why, struct err *err)
{
    enum rc rc = wait_reports(backfill, 0, err);

    if (rc != RC_OK || backfill->failed)
        return rc;
    return move_or_leave(backfill, at, topic, key, why, err);
}

/* topic_open() may replace the producer, so no record may be in flight. */
static enum rc open_topic(struct backfill *backfill, struct topic *topic, struct err *err)
{
    struct err why = {0};
    enum rc rc = wait_reports(backfill, 0, err);

    if (rc != RC_OK || backfill->failed)
        return rc;
    switch (backfill->broker.topic_open(backfill->broker.ctx, topic->name, topic->index, &why)) {
    case RC_OK:
        topic->state = TOPIC_READY;
        break;
    case RC_RETRY:
        fail_round(backfill, &why);
        break;
    case RC_REJECT:
    case RC_FATAL:
        topic->state = TOPIC_REFUSED;
        snprintf(topic->why, sizeof(topic->why), "%.255s", why.text);
        break;
    }
    return backfill->ops.hold(backfill->ops.ctx, err);
}

static enum rc send_to_topic(struct backfill *backfill, size_t at, const struct topic *topic,
                             uint64_t key, struct err *err)
{
    enum rc rc = RC_OK;

    while (rc == RC_OK && !backfill->failed) {
        struct err why = {0};
        enum rc sent = backfill->broker.send(backfill->broker.ctx, topic->name, topic->index,
                                             &backfill->batch.rows[at], at, &why);

        if (sent == RC_OK) {
            backfill->states[at] = ROW_SENT;
            backfill->in_flight++;
            return RC_OK;
        }
        if (sent == RC_REJECT)
            return refuse_row(backfill, at, topic, key, &why, err);
        if (sent == RC_FATAL || backfill->in_flight == 0)
            fail_round(backfill, &why);
        else
            rc = wait_reports(backfill, backfill->in_flight - 1, err);
    }
    return rc;
}

static enum rc send_row(struct backfill *backfill, size_t at, struct err *err)
{
    const struct relay_row *row = &backfill->batch.rows[at];
    struct topic *topic = NULL;
    struct err why = {0};
    enum rc found = topics_find(&backfill->topics, row->aggregate_type, &topic, &why);
    uint64_t key;
    enum rc rc = RC_OK;

    if (found == RC_FATAL)
        return err_fail(err, RC_FATAL, 0, "%s", why.text);
    if (found != RC_OK)
        topic = NULL;
    key = ordering_key_hash_of_row(topic ? topic->hash : HASH_START, row->aggregate_id);
    if (*find_key(backfill, key) == key)
        return move_or_leave(backfill, at, topic, key, NULL, err);
    assert(found != RC_OK || topic);
    if (found == RC_OK)
        found = relay_row_check(row, backfill->settings->relay.row_bytes_max, &why);
    if (found == RC_OK && topic->state == TOPIC_UNKNOWN)
        rc = open_topic(backfill, topic, err);
    if (rc != RC_OK || backfill->failed)
        return rc;
    if (found == RC_OK && topic->state == TOPIC_REFUSED)
        found = err_fail(&why, RC_REJECT, 0, "%s", topic->why);
    if (found != RC_OK)
        return refuse_row(backfill, at, topic, key, &why, err);
    return send_to_topic(backfill, at, topic, key, err);
}

/* Sends the open rows in order until one has failed, and waits for the reports. */
static enum rc send_open_rows(struct backfill *backfill, struct err *err)
{
    enum rc rc = backfill->ops.hold(backfill->ops.ctx, err);

    backfill->failed = backfill->refused = false;
    for (size_t i = 0; i < backfill->batch.count && rc == RC_OK && !backfill->failed; i++) {
        if (backfill->states[i] != ROW_OPEN)
            continue;
        rc = send_row(backfill, i, err);
        if (rc == RC_OK && backfill->single)
            rc = wait_reports(backfill, 0, err);
    }
    return rc == RC_OK ? wait_reports(backfill, 0, err) : rc;
}

/* A new producer: the old one sends no record past one that has failed. What it had in flight is
 * sent again. */
static void reset_producer(struct backfill *backfill)
{
    backfill->broker.purge(backfill->broker.ctx);
    backfill->broker.reset(backfill->broker.ctx);
    topics_forget_all(&backfill->topics);
    backfill->in_flight = 0;
    for (size_t i = 0; i < backfill->batch.count; i++)
        if (backfill->states[i] == ROW_SENT)
            backfill->states[i] = ROW_OPEN;
}

/* Sets aside the only row that was in flight. Earlier ones of its key are acknowledged. */
static enum rc set_refused_aside(struct backfill *backfill, size_t at, struct err *err)
{
    const struct relay_row *row = &backfill->batch.rows[at];
    const struct err why = backfill->why;
    struct topic *topic = NULL;
    enum rc rc = topics_find(&backfill->topics, row->aggregate_type, &topic, err);

    if (rc != RC_OK)
        return RC_FATAL;
    return move_or_leave(backfill, at, topic,
                         ordering_key_hash_of_row(topic->hash, row->aggregate_id), &why, err);
}

/* If several rows were in flight, the refusal does not show which of them is bad: the rows that are
 * left are sent one by one. */
static enum rc handle_refusal(struct backfill *backfill, struct err *err)
{
    bool was_single = backfill->single;
    enum rc rc = RC_OK;

    backfill->single = true;
    for (size_t i = 0; i < backfill->batch.count && rc == RC_OK; i++) {
        if (backfill->states[i] != ROW_REFUSED)
            continue;
        if (was_single)
            rc = set_refused_aside(backfill, i, err);
        else
            backfill->states[i] = ROW_OPEN;
    }
    return rc;
}

static enum rc handle_failure(struct backfill *backfill, struct err *err)
{
    int64_t silent_ms = backfill->ops.time_ms(backfill->ops.ctx) - backfill->worked_ms;

    reset_producer(backfill);
    if (backfill->refused)
        return handle_refusal(backfill, err);
    if (silent_ms >= backfill->give_up_ms)
        return err_fail(err, RC_RETRY, 0, "nothing was published for %" PRId64 " ms: %s", silent_ms,
                        backfill->why.text);
    return pause_work(backfill, BACKOFF_MS, err);
}

static bool has_open_rows(const struct backfill *backfill)
{
    for (size_t i = 0; i < backfill->batch.count; i++)
        if (backfill->states[i] == ROW_OPEN)
            return true;
    return false;
}

static enum rc mark_rows(struct backfill *backfill, struct err *err)
{
    int64_t seqs[BACKFILL_ROWS_MAX];
    size_t count = 0;
    enum rc rc;

    for (size_t i = 0; i < backfill->batch.count; i++)
        if (backfill->states[i] == ROW_ACKED || backfill->states[i] == ROW_MOVED)
            seqs[count++] = backfill->batch.rows[i].seq;
    if (count == 0)
        return RC_OK;
    rc = backfill->ops.mark(backfill->ops.ctx, seqs, count, err);
    if (rc != RC_OK)
        err_wrap(err, "%zu rows are published, but not saved as published", count);
    return rc;
}

/* After a failure the rows that were acknowledged are marked all the same. */
static enum rc publish_batch(struct backfill *backfill, struct err *err)
{
    struct err own = {0};
    enum rc rc = RC_OK;
    enum rc marked;

    memset(backfill->states, ROW_OPEN, backfill->batch.count);
    backfill->single = false;
    backfill->worked_ms = backfill->ops.time_ms(backfill->ops.ctx);
    while (rc == RC_OK && has_open_rows(backfill)) {
        rc = send_open_rows(backfill, err);
        if (rc == RC_OK && backfill->failed)
            rc = handle_failure(backfill, err);
    }
    if (rc != RC_OK)
        reset_producer(backfill);
    for (size_t i = 0; i < backfill->batch.count; i++)
        backfill->result.published += backfill->states[i] == ROW_ACKED;
    marked = mark_rows(backfill, &own);
    if (rc == RC_OK && marked != RC_OK)
        *err = own;
    return rc == RC_OK ? marked : rc;
}

static bool take_row(void *ctx, const struct relay_row *row)
{
    struct backfill *backfill = ctx;

    backfill->full = !relay_batch_add(&backfill->batch, row);
    return !backfill->full;
}

/* Makes ranges of the listed seqs from *at on, and moves *at behind them. */
static size_t make_ranges(const struct backfill *backfill, size_t count, size_t *at,
                          struct seq_range ranges[DELETER_RANGES_MAX])
{
    size_t made = 0;

    for (; *at < count; (*at)++) {
        int64_t seq = backfill->listed[*at];

        if (made > 0 && ranges[made - 1].to + 1 == seq)
            ranges[made - 1].to = seq;
        else if (made < DELETER_RANGES_MAX)
            ranges[made++] = (struct seq_range){seq, seq};
        else
            break;
    }
    return made;
}

static enum rc publish_listed(struct backfill *backfill, size_t count, struct err *err)
{
    struct relay_batch *batch = &backfill->batch;
    size_t at = 0;
    enum rc rc = RC_OK;

    while (at < count && rc == RC_OK) {
        struct seq_range ranges[DELETER_RANGES_MAX];
        size_t begin = at;
        size_t made = make_ranges(backfill, count, &at, ranges);

        relay_batch_reset(batch);
        backfill->full = false;
        rc = backfill->ops.read(backfill->ops.ctx, ranges, made, BACKFILL_ROWS_MAX, take_row,
                                backfill, err);
        if (rc == RC_OK && backfill->full && batch->count == 0)
            rc = err_fail(err, RC_FATAL, 0, "a row has more than %zu bytes", batch->arena_size);
        /* What was not read is read next. */
        if (backfill->full || batch->count == BACKFILL_ROWS_MAX)
            for (at = begin; at < count && batch->count > 0 &&
                             backfill->listed[at] <= batch->rows[batch->count - 1].seq;)
                at++;
        if (rc == RC_OK)
            rc = publish_batch(backfill, err);
        if (rc == RC_OK)
            rc = pause_work(backfill, 0, err);
    }
    return rc;
}

static void note_found(struct backfill *backfill, size_t count)
{
    struct backfill_result *result = &backfill->result;

    if (count == 0)
        return;
    if (result->found == 0)
        result->first_seq = backfill->listed[0];
    result->last_seq = backfill->listed[count - 1];
    result->found += (int64_t)count;
}

enum rc backfill_run(struct backfill *backfill, int64_t upto, bool may_publish, struct err *err)
{
    const struct backfill_ops *ops = &backfill->ops;
    int64_t after = 0;
    size_t count = 0;
    enum rc rc = RC_OK;

    backfill->window_known = backfill->ending = false;
    if (ops->load_keys && may_publish)
        rc = ops->load_keys(ops->ctx, backfill->key_slots / 2 + 1, add_key_text, backfill, err);
    while (rc == RC_OK) {
        rc = ops->list(ops->ctx, after, upto, backfill->listed, BACKFILL_LIST_MAX, &count, err);
        if (rc != RC_OK || count == 0)
            break;
        after = backfill->listed[count - 1];
        rc = keep_missing(backfill, &count, err);
        if (rc == RC_OK && count > 0 && ops->settle) {
            rc = ops->settle(ops->ctx, err);
            backfill->window_known = false;
            if (rc == RC_OK)
                rc = keep_missing(backfill, &count, err);
            if (rc == RC_OK)
                rc = keep_present(backfill, &count, err);
        }
        if (rc == RC_OK)
            note_found(backfill, count);
        if (rc == RC_OK && may_publish)
            rc = publish_listed(backfill, count, err);
        if (rc == RC_OK)
            rc = pause_work(backfill, 0, err);
    }
    return rc;
}

void backfill_done(struct backfill *backfill)
{
    if (!backfill->settings)
        return;
    free(backfill->listed);
    free(backfill->again);
    free(backfill->window);
    free(backfill->keys);
    free(backfill->states);
    relay_batch_done(&backfill->batch);
    topics_done(&backfill->topics);
    backfill->settings = NULL;
}

enum rc backfill_init(struct backfill *backfill, const struct backfill_ops *ops,
                      const struct broker *broker, const struct lane_settings *lane,
                      const struct settings *settings, int64_t give_up_ms, struct err *err)
{
    int64_t bytes = settings->relay.row_bytes_max + ROW_EXTRA_BYTES_MAX;
    enum rc rc;

    assert(!ops->load_keys == !ops->move);
    memset(backfill, 0, sizeof(*backfill));
    if (bytes < settings->relay.read_bytes_max)
        bytes = settings->relay.read_bytes_max;
    rc = relay_batch_init(&backfill->batch, BACKFILL_ROWS_MAX, (size_t)bytes, err);
    if (rc != RC_OK)
        return rc;
    backfill->ops = *ops;
    backfill->broker = *broker;
    backfill->settings = settings;
    backfill->give_up_ms = give_up_ms;
    topics_init(&backfill->topics, lane->topics, settings->relay.topic_prefix);
    rc = topics_set_rule(&backfill->topics, lane->topic, lane->topic_regex, err);
    if (rc != RC_OK) {
        backfill_done(backfill);
        return rc;
    }
    backfill->key_slots = 2;
    while (backfill->key_slots / 2 <= (size_t)settings->relay.diverted_keys_max)
        backfill->key_slots *= 2;
    backfill->listed = calloc(BACKFILL_LIST_MAX, sizeof(*backfill->listed));
    backfill->again = calloc(BACKFILL_LIST_MAX, sizeof(*backfill->again));
    backfill->window = calloc((size_t)BACKFILL_WINDOW_SEQS / 8, 1);
    backfill->keys = calloc(backfill->key_slots, sizeof(*backfill->keys));
    backfill->states = calloc(BACKFILL_ROWS_MAX, sizeof(*backfill->states));
    if (backfill->listed && backfill->again && backfill->window && backfill->keys &&
        backfill->states)
        return RC_OK;
    backfill_done(backfill);
    return err_fail(err, RC_FATAL, 0, "no memory for a list of rows");
}
