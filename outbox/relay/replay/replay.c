/* SPDX-License-Identifier: MIT */
#include "outbox/relay/replay/replay.h"

#include "common/hash.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BACKOFF_BASE_MS 100
#define BACKOFF_CAP_MS 5000

/* Reports of purged records come at once; those that do not come are not waited for. */
#define DRAIN_MS 2000

#define POLL_MS 2

/* Rows that may be sent at once after a pause: those of this part of a second. */
#define BURST_PART 5

size_t replay_batch_bytes(int64_t row_bytes_max, int64_t batch_bytes_max)
{
    size_t row = (size_t)row_bytes_max + ROW_EXTRA_BYTES_MAX;

    return row > (size_t)batch_bytes_max ? row : (size_t)batch_bytes_max;
}

enum rc replay_init(struct replay *replay, const struct replay_options *options,
                    const struct replay_source *source, const struct broker *broker, int64_t now_ms,
                    uint64_t seed, struct err *err)
{
    size_t bytes = replay_batch_bytes(options->row_bytes_max, options->batch_bytes_max);
    enum rc rc;

    memset(replay, 0, sizeof(*replay));
    replay->options = *options;
    replay->source = *source;
    replay->broker = *broker;
    replay->tokens_ms = now_ms;
    replay->rng = seed;
    replay->backoff = (struct backoff){.base_ms = BACKOFF_BASE_MS, .cap_ms = BACKOFF_CAP_MS};
    topics_init(&replay->topics, options->map, options->prefix);
    rc = topics_set_rule(&replay->topics, options->rule, options->regex, err);
    if (rc == RC_OK)
        rc = relay_batch_init(&replay->batch, REPLAY_ROWS_MAX, bytes, err);
    replay->states = calloc(REPLAY_ROWS_MAX, sizeof(*replay->states));
    replay->other = options->topic ? calloc(1, sizeof(*replay->other)) : NULL;
    if (rc == RC_OK && (!replay->states || (options->topic && !replay->other)))
        rc = err_fail(err, RC_FATAL, 0, "out of memory for a replay");
    if (rc != RC_OK) {
        replay_done(replay);
        return rc;
    }
    if (replay->other)
        memcpy(replay->other->name, options->topic, strnlen(options->topic, TOPIC_NAME_SIZE - 1));
    return RC_OK;
}

void replay_done(struct replay *replay)
{
    relay_batch_done(&replay->batch);
    free(replay->states);
    free(replay->other);
    topics_done(&replay->topics);
    memset(replay, 0, sizeof(*replay));
}

static void note_work(struct replay *replay)
{
    replay->trouble_ms = 0;
    backoff_reset(&replay->backoff);
}

/* Tries again later, unless nothing has worked for long. */
static enum rc note_trouble(struct replay *replay, int64_t now_ms, const struct err *why,
                            struct err *err)
{
    if (why != &replay->why)
        replay->why = *why;
    if (replay->trouble_ms == 0)
        replay->trouble_ms = now_ms;
    if (now_ms - replay->trouble_ms >= REPLAY_GIVE_UP_MS)
        return err_fail(err, RC_RETRY, why->code, "%s", why->text);
    replay->wait_until_ms = now_ms + backoff_next_ms(&replay->backoff, rng_next(&replay->rng));
    return RC_OK;
}

static enum rc classify_failure(struct replay *replay, enum rc rc, int64_t now_ms,
                                const struct err *why, struct err *err)
{
    if (rc == RC_RETRY)
        return note_trouble(replay, now_ms, why, err);
    return err_fail(err, RC_FATAL, why->code, "%s", why->text);
}

static struct replay_edge edge_of(const struct relay_row *row)
{
    return (struct replay_edge){true, row->table_seq, row->created_ms, row->epoch};
}

static void note_edges(struct replay *replay)
{
    const struct relay_batch *batch = &replay->batch;

    if (batch->count == 0)
        return;
    if (!replay->first.known)
        replay->first = edge_of(&batch->rows[0]);
    replay->last = edge_of(&batch->rows[batch->count - 1]);
    replay->counts.read += (int64_t)batch->count;
}

/* Moves the place behind the rows that are done. */
static void advance_place(struct replay *replay)
{
    struct relay_batch *batch = &replay->batch;

    while (batch->next < batch->count && replay->states[batch->next] == REPLAY_DONE)
        batch->next++;
    replay->source.pass(replay->source.ctx, batch);
}

static enum rc read_more(struct replay *replay, int64_t now_ms, struct err *err)
{
    struct relay_batch *batch = &replay->batch;
    struct err why = {0};
    enum rc rc = replay->source.read(replay->source.ctx, batch, &replay->complete, &why);

    if (rc != RC_OK) {
        relay_batch_reset(batch);
        return classify_failure(replay, rc, now_ms, &why, err);
    }
    note_work(replay);
    for (size_t i = 0; i < batch->count; i++)
        replay->states[i] = REPLAY_WAITS;
    note_edges(replay);
    advance_place(replay);
    replay->ended = replay->complete;
    return RC_OK;
}

static void on_report(void *ctx, uint64_t ticket, enum rc rc, const struct err *err)
{
    struct replay *replay = ctx;
    size_t at = (size_t)ticket;

    assert(at < replay->batch.count);
    if (replay->states[at] != REPLAY_SENT)
        return;
    replay->in_flight--;
    if (rc == RC_OK) {
        replay->states[at] = REPLAY_DONE;
        replay->counts.published++;
        return;
    }
    /* A refusal is the cause; records that failed with it are not. */
    if (replay->failed + replay->refused == 0 || (rc == RC_REJECT && replay->refused == 0))
        replay->why = *err;
    if (rc == RC_REJECT)
        replay->refused++;
    else
        replay->failed++;
    replay->states[at] = rc == RC_REJECT ? REPLAY_REFUSED : REPLAY_FAILED;
}

static void refuse_row(struct replay *replay, size_t at, const struct err *why)
{
    replay->states[at] = REPLAY_DONE;
    replay->counts.refused++;
    replay->options.on_refused(replay->options.ctx, &replay->batch.rows[at], why);
}

static void begin_drain(struct replay *replay, int64_t now_ms)
{
    replay->draining = true;
    replay->drain_until_ms = now_ms + DRAIN_MS;
    replay->broker.purge(replay->broker.ctx);
}

/* After a failure no record is in flight any more: the producer, which would send none past a
 * refused one, is replaced. */
static enum rc end_drain(struct replay *replay, int64_t now_ms, struct err *err)
{
    bool refused = replay->refused > 0;
    bool alone = replay->alone;

    replay->draining = replay->alone = false;
    replay->broker.reset(replay->broker.ctx);
    topics_forget_all(&replay->topics);
    if (replay->other && replay->other->state == TOPIC_READY)
        replay->other->state = TOPIC_UNKNOWN;
    for (size_t i = replay->batch.next; i < replay->batch.count; i++) {
        if (replay->states[i] == REPLAY_REFUSED && alone)
            refuse_row(replay, i, &replay->why);
        else if (replay->states[i] == REPLAY_REFUSED)
            replay->states[i] = REPLAY_SUSPECT;
        else if (replay->states[i] == REPLAY_SENT || replay->states[i] == REPLAY_FAILED)
            replay->states[i] = alone ? REPLAY_SUSPECT : REPLAY_WAITS;
    }
    replay->in_flight = replay->failed = replay->refused = 0;
    if (!refused)
        return note_trouble(replay, now_ms, &replay->why, err);
    note_work(replay);
    return RC_OK;
}

static void poll_broker(struct replay *replay, int64_t now_ms)
{
    size_t before = replay->in_flight;
    int64_t published = replay->counts.published;
    struct err why = {0};
    enum rc rc = replay->broker.poll(replay->broker.ctx, on_report, replay, &why);

    if (replay->in_flight < before)
        replay->report_ms = now_ms;
    if (replay->counts.published > published)
        note_work(replay);
    if (replay->in_flight == 0 && replay->failed + replay->refused == 0)
        replay->alone = false;
    advance_place(replay);
    if (rc == RC_FATAL && !replay->draining) {
        if (replay->failed + replay->refused == 0)
            replay->why = why;
        begin_drain(replay, now_ms);
    }
}

static void check_flight(struct replay *replay, int64_t now_ms)
{
    if (replay->draining)
        return;
    if (replay->failed + replay->refused > 0) {
        begin_drain(replay, now_ms);
    } else if (replay->in_flight > 0 &&
               now_ms - replay->report_ms >= replay->options.send_timeout_ms) {
        err_set(&replay->why,
                "the broker has not acknowledged a record for relay.send_timeout_ms = %" PRId64,
                replay->options.send_timeout_ms);
        begin_drain(replay, now_ms);
    }
}

static void add_tokens(struct replay *replay, int64_t now_ms)
{
    int64_t rate = replay->options.rate;
    int64_t most = rate * 1000 / BURST_PART > 1000 ? rate * 1000 / BURST_PART : 1000;
    int64_t ms = now_ms - replay->tokens_ms;

    replay->tokens_ms = now_ms;
    if (ms > 1000)
        ms = 1000;
    replay->tokens += rate * ms;
    if (replay->tokens > most)
        replay->tokens = most;
}

static int compare_keys(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a;
    uint64_t right = *(const uint64_t *)b;

    return left < right ? -1 : left > right;
}

/* Whether the key has tasks: its rows may wait there, unpublished. */
static bool has_tasks(const struct replay *replay, const struct topic *topic,
                      const struct relay_row *row)
{
    uint64_t key = ordering_key_hash_of_row(topic ? topic->hash : HASH_START, row->aggregate_id);

    return replay->options.tasks_key_count > 0 &&
           bsearch(&key, replay->options.tasks_keys, replay->options.tasks_key_count, sizeof(key),
                   compare_keys);
}

static void leave_row(struct replay *replay, size_t at)
{
    struct err why;

    err_set(&why, "its key has tasks in the retry queue, so it may not be published yet");
    replay->states[at] = REPLAY_DONE;
    replay->counts.left++;
    replay->options.on_refused(replay->options.ctx, &replay->batch.rows[at], &why);
}

/* What follows for the next row: go on with the one after it; wait for reports; end the step. */
enum next { NEXT_ROW, NEXT_WAITS, NEXT_STEP };

static enum rc open_topic(struct replay *replay, struct topic *topic, int64_t now_ms,
                          struct err *err)
{
    struct err why = {0};

    switch (replay->broker.topic_open(replay->broker.ctx, topic->name, topic->index, &why)) {
    case RC_OK:
        topic->state = TOPIC_READY;
        return RC_OK;
    case RC_RETRY:
        return note_trouble(replay, now_ms, &why, err);
    case RC_REJECT:
    case RC_FATAL:
        break;
    }
    topic->state = TOPIC_REFUSED;
    snprintf(topic->why, sizeof(topic->why), "%.255s", why.text);
    return RC_OK;
}

static enum next send_row(struct replay *replay, struct topic *topic, size_t at, int64_t now_ms)
{
    struct err why = {0};
    enum rc rc = replay->broker.send(replay->broker.ctx, topic->name, topic->index,
                                     &replay->batch.rows[at], at, &why);

    switch (rc) {
    case RC_OK:
        replay->alone = replay->states[at] == REPLAY_SUSPECT;
        replay->states[at] = REPLAY_SENT;
        if (replay->in_flight++ == 0)
            replay->report_ms = now_ms;
        replay->tokens -= 1000;
        return replay->alone ? NEXT_WAITS : NEXT_ROW;
    case RC_REJECT:
        refuse_row(replay, at, &why);
        return NEXT_ROW;
    case RC_RETRY:
        if (replay->in_flight > 0)
            return NEXT_WAITS;
        break;
    case RC_FATAL:
        break;
    }
    replay->why = why;
    begin_drain(replay, now_ms);
    return NEXT_STEP;
}

static enum next handle_row(struct replay *replay, size_t at, int64_t now_ms, enum rc *rc,
                            struct err *err)
{
    const struct relay_row *row = &replay->batch.rows[at];
    struct topic *topic = NULL;
    struct err why = {0};
    enum rc found = topics_find(&replay->topics, row->aggregate_type, &topic, &why);

    if (found == RC_FATAL) {
        *rc = err_fail(err, RC_FATAL, 0, "%s", why.text);
        return NEXT_STEP;
    }
    if (has_tasks(replay, found == RC_OK ? topic : NULL, row)) {
        leave_row(replay, at);
        return NEXT_ROW;
    }
    if (replay->other) {
        topic = replay->other;
        found = RC_OK;
    }
    if (found == RC_OK)
        found = relay_row_check(row, replay->options.row_bytes_max, &why);
    if (found == RC_OK && topic->state == TOPIC_REFUSED)
        found = err_fail(&why, RC_REJECT, 0, "%s", topic->why);
    if (found != RC_OK) {
        refuse_row(replay, at, &why);
        return NEXT_ROW;
    }
    if (replay->options.dry_run) {
        replay->states[at] = REPLAY_DONE;
        return NEXT_ROW;
    }
    if (replay->in_flight > 0 &&
        (replay->states[at] == REPLAY_SUSPECT || topic->state == TOPIC_UNKNOWN))
        return NEXT_WAITS;
    if (topic->state == TOPIC_UNKNOWN) {
        *rc = open_topic(replay, topic, now_ms, err);
        return NEXT_STEP;
    }
    return send_row(replay, topic, at, now_ms);
}

/* Sends rows in their order. A suspect is alone in flight, so rows behind it wait. */
static enum rc send_rows(struct replay *replay, int64_t now_ms, struct err *err)
{
    enum rc rc = RC_OK;
    bool limited = replay->options.rate > 0 && !replay->options.dry_run;

    for (size_t at = replay->batch.next; at < replay->batch.count; at++) {
        if (replay->states[at] != REPLAY_WAITS && replay->states[at] != REPLAY_SUSPECT)
            continue;
        if (replay->alone || (limited && replay->tokens < 1000))
            break;
        if (handle_row(replay, at, now_ms, &rc, err) != NEXT_ROW)
            break;
    }
    advance_place(replay);
    return rc;
}

static int64_t choose_wait(const struct replay *replay, int64_t now_ms)
{
    if (now_ms < replay->wait_until_ms)
        return replay->wait_until_ms - now_ms;
    if (replay->in_flight > 0 || replay->draining)
        return POLL_MS;
    if (replay->batch.next < replay->batch.count && replay->options.rate > 0 &&
        !replay->options.dry_run && replay->tokens < 1000)
        return 1 + (1000 - replay->tokens) / replay->options.rate;
    return 0;
}

static enum rc work(struct replay *replay, int64_t now_ms, struct err *err)
{
    if (replay->in_flight > 0 || replay->draining) {
        poll_broker(replay, now_ms);
        check_flight(replay, now_ms);
    }
    if (replay->draining) {
        if (replay->in_flight > 0 && now_ms < replay->drain_until_ms)
            return RC_OK;
        return end_drain(replay, now_ms, err);
    }
    if (replay->stopping) {
        replay->ended = replay->in_flight == 0;
        return RC_OK;
    }
    if (now_ms < replay->wait_until_ms)
        return RC_OK;
    if (replay->batch.next == replay->batch.count)
        return read_more(replay, now_ms, err);
    add_tokens(replay, now_ms);
    return send_rows(replay, now_ms, err);
}

enum rc replay_step(struct replay *replay, int64_t now_ms, int64_t *wait_ms, struct err *err)
{
    enum rc rc;

    assert(!replay->ended);
    rc = work(replay, now_ms, err);
    if (rc != RC_OK)
        replay->ended = true;
    *wait_ms = replay->ended ? 0 : choose_wait(replay, now_ms);
    return rc;
}

void replay_stop(struct replay *replay)
{
    replay->stopping = true;
}
