/* SPDX-License-Identifier: MIT */
#include "producer/vote/vote.h"

#include "common/buf.h"
#include "common/id.h"
#include "common/log.h"
#include "outbox/lanes.h"
#include "schema/vote_event.h"

#include <assert.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RANDOM_BYTES 10  /* of one event id */
#define KEY_TEXT_SIZE 21 /* a BIGINT in decimal, and the end */

struct vote_engine {
    struct vote_engine_config config;
    struct vote_count_row *counts; /* of the transaction, sorted by content_id */
    size_t count_count;
    bool made_counts;              /* the transaction may have made rows of vote_count */
    struct vote_state_row *states; /* of the transaction, sorted by content_id, voter_id */
    size_t state_count;
    struct outbox_event *events; /* in the order of arrival */
    struct outbox_event *lane_events;
    size_t event_count;
    char (*keys)[KEY_TEXT_SIZE]; /* aggregate ids of the events */
    size_t *payload_ends;        /* of each event, in payloads */
    struct buf payloads;
    uint8_t *random_bytes;
    uint64_t tries; /* transactions begun, the number of the one under way */
};

enum rc vote_engine_open(struct vote_engine **out, const struct vote_engine_config *config,
                         struct err *err)
{
    struct vote_engine *engine = calloc(1, sizeof(*engine));
    size_t max = config->items_max;

    assert(max > 0 && config->lane_count > 0);
    *out = NULL;
    if (!engine)
        return err_fail(err, RC_FATAL, 0, "no memory for the vote engine");
    engine->config = *config;
    engine->counts = calloc(max, sizeof(*engine->counts));
    engine->states = calloc(max, sizeof(*engine->states));
    engine->events = calloc(max, sizeof(*engine->events));
    engine->lane_events = calloc(max, sizeof(*engine->lane_events));
    engine->keys = calloc(max, sizeof(*engine->keys));
    engine->payload_ends = calloc(max, sizeof(*engine->payload_ends));
    engine->random_bytes = calloc(max, RANDOM_BYTES);
    if (!engine->counts || !engine->states || !engine->events || !engine->lane_events ||
        !engine->keys || !engine->payload_ends || !engine->random_bytes) {
        vote_engine_close(engine);
        return err_fail(err, RC_FATAL, 0, "no memory for batches of %zu votes", max);
    }
    *out = engine;
    return RC_OK;
}

void vote_engine_close(struct vote_engine *engine)
{
    if (!engine)
        return;
    buf_done(&engine->payloads);
    free(engine->random_bytes);
    free(engine->payload_ends);
    free(engine->keys);
    free(engine->lane_events);
    free(engine->events);
    free(engine->states);
    free(engine->counts);
    free(engine);
}

static int compare_numbers(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

static int compare_counts(const void *a, const void *b)
{
    const struct vote_count_row *one = a;
    const struct vote_count_row *two = b;

    return compare_numbers(one->content_id, two->content_id);
}

static int compare_states(const void *a, const void *b)
{
    const struct vote_state_row *one = a;
    const struct vote_state_row *two = b;
    int order = compare_numbers(one->content_id, two->content_id);

    return order ? order : compare_numbers(one->voter_id, two->voter_id);
}

/* Lists each content and each pair of the window once, in the order in which all writers lock
 * them. */
static void collect_rows(struct vote_engine *engine, struct vote_item **items, size_t count)
{
    size_t kept = 0;

    for (size_t i = 0; i < count; i++) {
        engine->counts[i] =
            (struct vote_count_row){.content_id = items[i]->content_id,
                                    .wanted = items[i]->voting == 1 || items[i]->needs_count};
        engine->states[i] = (struct vote_state_row){.voter_id = items[i]->voter_id,
                                                    .content_id = items[i]->content_id};
    }
    qsort(engine->counts, count, sizeof(*engine->counts), compare_counts);
    for (size_t i = 1; i < count; i++) {
        if (compare_counts(&engine->counts[kept], &engine->counts[i]) == 0)
            engine->counts[kept].wanted |= engine->counts[i].wanted;
        else
            engine->counts[++kept] = engine->counts[i];
    }
    engine->count_count = kept + 1;

    kept = 0;
    qsort(engine->states, count, sizeof(*engine->states), compare_states);
    for (size_t i = 1; i < count; i++) {
        if (compare_states(&engine->states[kept], &engine->states[i]) != 0)
            engine->states[++kept] = engine->states[i];
    }
    engine->state_count = kept + 1;
}

static struct vote_count_row *find_count(struct vote_engine *engine, const struct vote_item *item)
{
    struct vote_count_row key = {.content_id = item->content_id};

    return bsearch(&key, engine->counts, engine->count_count, sizeof(key), compare_counts);
}

static struct vote_state_row *find_state(struct vote_engine *engine, const struct vote_item *item)
{
    struct vote_state_row key = {.voter_id = item->voter_id, .content_id = item->content_id};

    return bsearch(&key, engine->states, engine->state_count, sizeof(key), compare_states);
}

static bool are_counts_complete(const struct vote_engine *engine)
{
    for (size_t i = 0; i < engine->count_count; i++) {
        if (engine->counts[i].wanted && !engine->counts[i].found)
            return false;
    }
    return true;
}

/* A deleted content may have no row of vote_count, and none is made for it: a row that was found
 * may be removed as soon as the transaction ends. A row that is still there is locked behind the
 * others, which may deadlock with a writer and is repeated. A found row of another content would be
 * made again, too, so it counts as wanted from now on. */
static enum rc leave_out_deleted(struct vote_engine *engine, struct err *err)
{
    const struct vote_store *store = engine->config.store;
    enum rc rc = store->read_deleted(store->ctx, engine->counts, engine->count_count, err);

    for (size_t i = 0; rc == RC_OK && i < engine->count_count; i++) {
        struct vote_count_row *count = &engine->counts[i];

        count->wanted = (count->wanted || count->found) && !count->deleted;
        count->found &= !count->deleted;
    }
    return rc;
}

/* Invariant P2: the locks on vote_count order the votes of a content. One locking read suffices if
 * all contents have rows. New rows are made in a new transaction that locks everything in key order
 * from the beginning: in this one a low key would be locked after a high one, and two writers could
 * deadlock. */
static enum rc lock_counts_in_order(struct vote_engine *engine, struct err *err)
{
    const struct vote_store *store = engine->config.store;
    enum rc rc = store->lock_counts(store->ctx, engine->counts, engine->count_count, err);

    if (rc != RC_OK || are_counts_complete(engine))
        return rc;
    rc = leave_out_deleted(engine, err);
    if (rc != RC_OK || are_counts_complete(engine))
        return rc;
    store->rollback(store->ctx);
    rc = store->begin(store->ctx, err);
    engine->made_counts = true;
    if (rc == RC_OK)
        rc = store->make_counts(store->ctx, engine->counts, engine->count_count, err);
    if (rc == RC_OK)
        rc = store->lock_counts(store->ctx, engine->counts, engine->count_count, err);
    if (rc == RC_OK && !are_counts_complete(engine))
        rc = err_fail(err, RC_RETRY, 0, "a row of vote_count vanished right after it was made");
    return rc;
}

/* Invariant P4: a vote on a deleted content writes nothing. The deletions were read under the locks
 * on vote_count: a writer that deletes a content under its lock has every vote before or after it.
 * False: a content was deleted after leave_out_deleted() had not found it, and the transaction has
 * made a row of vote_count that must not stay. */
static bool mark_deleted_items(struct vote_engine *engine, struct vote_item **items, size_t count)
{
    bool fits = true;

    for (size_t i = 0; i < count; i++) {
        items[i]->deleted = find_state(engine, items[i])->deleted;
        if (items[i]->deleted && engine->made_counts && find_count(engine, items[i])->wanted)
            fits = false;
    }
    return fits;
}

/* Invariant P2. A vote that is taken back needs no row of vote_count if there is none: no voter has
 * voted. False: another writer has made the row and a vote since it was not found. */
static bool has_locked_votes(struct vote_engine *engine, struct vote_item **items, size_t count)
{
    bool locked = true;

    for (size_t i = 0; i < count; i++) {
        const struct vote_state_row *state = find_state(engine, items[i]);

        if (state->deleted || !state->found || find_count(engine, items[i])->found)
            continue;
        items[i]->needs_count = true;
        locked = false;
    }
    return locked;
}

/* The number of an earlier transaction that was committed although the answer to its COMMIT was
 * lost, or 0. That transaction has ended, because this one holds its locks; if one of its event ids
 * is in the table, all of its rows are. */
static uint64_t find_unknown(struct vote_engine *engine, struct vote_item **items, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct vote_state_row *state;

        if (items[i]->unknown == 0 || !items[i]->changed)
            continue;
        state = find_state(engine, items[i]);
        if (state->found &&
            memcmp(&state->event_id, &items[i]->event_id, sizeof(state->event_id)) == 0)
            return items[i]->unknown;
    }
    return 0;
}

static void add_event(struct vote_engine *engine, const struct vote_item *item, int64_t now_ms)
{
    size_t n = engine->event_count++;
    struct vote_event event = {
        .event_id = item->event_id,
        .voter_id = item->voter_id,
        .content_id = item->content_id,
        .voting = item->voting,
        .votes = item->votes,
        .occurred_ms = now_ms,
    };

    vote_event_encode(&event, &engine->payloads);
    engine->payload_ends[n] = engine->payloads.len;
    snprintf(engine->keys[n], KEY_TEXT_SIZE, "%" PRId64, item->content_id);
    engine->events[n] = (struct outbox_event){
        .id = item->event_id,
        .aggregate_type = VOTE_AGGREGATE_TYPE,
        .aggregate_id = engine->keys[n],
        .type = VOTE_EVENT_TYPE,
        .headers = item->headers,
    };
}

static void apply_item(struct vote_engine *engine, struct vote_item *item, int64_t now_ms)
{
    struct vote_count_row *count = find_count(engine, item);
    struct vote_state_row *state = find_state(engine, item);
    bool was = state->found && state->voting == 1;

    item->unknown = 0;
    item->changed = !item->deleted && was != (item->voting == 1);
    if (item->changed) {
        count->votes += item->voting == 1 ? 1 : -1;
        count->changed = true;
        id_make(&state->event_id, now_ms,
                engine->random_bytes + engine->event_count * RANDOM_BYTES);
        state->voting = item->voting;
        state->version++;
        state->found = true;
        state->changed = true;
    }
    item->votes = count->votes;
    item->has_event = state->found;
    item->event_id = state->event_id;
    if (item->changed)
        add_event(engine, item, now_ms);
}

/* Ids are new for each attempt: if the first attempt was committed and every row of it has changed
 * since, an id that is used again would name two changes. */
static enum rc apply_items(struct vote_engine *engine, struct vote_item **items, size_t count,
                           int64_t now_ms, struct err *err)
{
    size_t begin = 0;

    engine->event_count = 0;
    buf_reset(&engine->payloads);
    engine->config.rng_bytes(engine->random_bytes, count * RANDOM_BYTES);
    for (size_t i = 0; i < count; i++)
        apply_item(engine, items[i], now_ms);
    if (engine->payloads.failed)
        return err_fail(err, RC_FATAL, 0, "no memory for the events of %zu votes", count);
    for (size_t n = 0; n < engine->event_count; n++) {
        engine->events[n].payload = engine->payloads.data + begin;
        engine->events[n].payload_len = engine->payload_ends[n] - begin;
        begin = engine->payload_ends[n];
    }
    return RC_OK;
}

static enum rc append_to_lane(struct vote_engine *engine, size_t lane, struct err *err)
{
    const struct vote_store *store = engine->config.store;
    char name[OUTBOX_LANE_NAME_SIZE];
    size_t count = 0;

    for (size_t n = 0; n < engine->event_count; n++) {
        if (outbox_lane_of(engine->keys[n], engine->config.lane_count) == lane)
            engine->lane_events[count++] = engine->events[n];
    }
    if (count == 0)
        return RC_OK;
    outbox_lane_name(name, lane);
    return store->append(store->ctx, name, engine->lane_events, count, err);
}

static enum rc write_rows(struct vote_engine *engine, struct err *err)
{
    const struct vote_store *store = engine->config.store;
    enum rc rc = store->write_states(store->ctx, engine->states, engine->state_count, err);

    if (rc == RC_OK)
        rc = store->write_counts(store->ctx, engine->counts, engine->count_count, err);
    for (size_t lane = 0; rc == RC_OK && lane < engine->config.lane_count; lane++)
        rc = append_to_lane(engine, lane, err);
    return rc;
}

static void finish_items(struct vote_item **items, size_t count)
{
    for (size_t i = 0; i < count; i++)
        items[i]->outcome = items[i]->deleted ? VOTE_DELETED : VOTE_DONE;
}

/* Finishes the items with what transaction `number` had computed. */
static void finish_unknown(struct vote_item **items, size_t count, uint64_t number)
{
    for (size_t i = 0; i < count; i++) {
        if (items[i]->unknown != number)
            continue;
        finish_items(&items[i], 1);
        items[i]->unknown = 0;
    }
}

/* Invariant P1: an item is done only after its COMMIT; a lost answer leaves it unknown. */
static enum rc commit_items(struct vote_engine *engine, struct vote_item **items, size_t count,
                            struct err *err)
{
    const struct vote_store *store = engine->config.store;
    enum rc rc = store->commit(store->ctx, err);

    for (size_t i = 0; rc == RC_RETRY && i < count; i++)
        items[i]->unknown = engine->tries;
    if (rc == RC_OK)
        finish_items(items, count);
    return rc;
}

/* Runs one transaction over the window. Invariant P2: a vote, its counter and its event are in it.
 * It stays open only after a failure. */
static enum rc try_window(struct vote_engine *engine, const struct vote_batch *batch,
                          struct err *err)
{
    const struct vote_store *store = engine->config.store;
    struct vote_item **items = batch->items + batch->done;
    uint64_t number;
    int64_t now_ms = 0;
    enum rc rc = store->begin(store->ctx, err);

    if (rc != RC_OK)
        return rc;
    engine->tries++;
    engine->made_counts = false;
    collect_rows(engine, items, batch->window);
    rc = lock_counts_in_order(engine, err);
    if (rc == RC_OK)
        rc = store->read_states(store->ctx, engine->states, engine->state_count, &now_ms, err);
    if (rc != RC_OK)
        return rc;
    number = find_unknown(engine, items, batch->window);
    if (number != 0) {
        finish_unknown(items, batch->count - batch->done, number);
        store->rollback(store->ctx);
        return RC_OK;
    }
    if (!mark_deleted_items(engine, items, batch->window) ||
        !has_locked_votes(engine, items, batch->window)) {
        store->rollback(store->ctx);
        return RC_OK; /* the next step finds the deletion, or the row, in time */
    }
    rc = apply_items(engine, items, batch->window, now_ms, err);
    if (rc == RC_OK && engine->event_count == 0) {
        finish_items(items, batch->window);
        store->rollback(store->ctx);
        return RC_OK;
    }
    if (rc == RC_OK)
        rc = write_rows(engine, err);
    if (rc == RC_OK)
        rc = commit_items(engine, items, batch->window, err);
    return rc;
}

void vote_batch_start(struct vote_batch *batch, struct vote_item **items, size_t count)
{
    assert(count > 0);
    *batch = (struct vote_batch){.items = items, .count = count, .window = count};
}

bool vote_batch_finished(const struct vote_batch *batch)
{
    return batch->done == batch->count;
}

/* Skips the items that have their outcome and opens the window up to window_max items, but not
 * beyond an item that a recovered transaction has already answered. */
static void move_window(struct vote_batch *batch, size_t window_max)
{
    struct vote_item **items = batch->items;

    while (batch->done < batch->count && items[batch->done]->outcome != VOTE_OPEN)
        batch->done++;
    batch->window = 0;
    while (batch->window < window_max && batch->done + batch->window < batch->count &&
           items[batch->done + batch->window]->outcome == VOTE_OPEN)
        batch->window++;
}

/* Halves the window until it holds only the refused vote, then continues after that vote with
 * windows that grow again: one bad vote costs a few transactions, not one for each other vote. */
static void refuse_window(struct vote_batch *batch, const struct err *err)
{
    struct vote_item *item = batch->items[batch->done];

    if (batch->window > 1) {
        batch->window /= 2;
        return;
    }
    item->outcome = VOTE_REFUSED;
    item->unknown = 0;
    log_error(LOG_ERROR, "vote_refused", err, "voter=%" PRId64 " content=%" PRId64, item->voter_id,
              item->content_id);
    move_window(batch, 1);
}

enum rc vote_engine_step(struct vote_engine *engine, struct vote_batch *batch, struct err *err)
{
    const struct vote_store *store = engine->config.store;
    enum rc rc;

    assert(batch->window > 0 && batch->window <= engine->config.items_max);
    rc = try_window(engine, batch, err);
    switch (rc) {
    case RC_OK:
        move_window(batch, batch->window * 2);
        return RC_OK;
    case RC_REJECT:
        store->rollback(store->ctx);
        refuse_window(batch, err);
        return RC_OK;
    case RC_RETRY:
    case RC_FATAL:
        store->rollback(store->ctx);
        return rc;
    }
    return RC_FATAL;
}
