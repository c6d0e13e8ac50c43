/* SPDX-License-Identifier: MIT */
#include "producer/remark/recommended_builder.h"

#include "common/log.h"
#include "producer/serve_metrics.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* An announcement is visible this long after its time at most: one short transaction makes it. */
#define CHANGE_OVERLAP_MS 10000
/* Housekeeping keeps them for longer (consumer/maintenance/old_rows.h). */
#define CHANGES_MS_MAX 86400000
/* Checks in one step; the rest follows at once. */
#define BATCHES_MAX 20
/* The builder looks so often whether the watcher reads again. */
#define LOST_LOOK_MS 100
/* A list is built again when a roll-up ended or the weights changed meanwhile. */
#define BUILDS_MAX 4
#define LOG_AGAIN_MS 60000

void recommended_watcher_init(struct recommended_watcher *watcher, struct recommended *lists,
                              const struct recommended_store *store)
{
    *watcher = (struct recommended_watcher){.lists = lists, .store = store};
    condition_init(&watcher->database, CONDITION_DEPENDENCY,
                   "dep=sink role=serve reason=lists_unseen");
}

void recommended_watcher_done(struct recommended_watcher *watcher)
{
    condition_done(&watcher->database);
}

static int compare_items(const void *a, const void *b)
{
    int64_t one = *(const int64_t *)a;
    int64_t two = *(const int64_t *)b;

    return (one > two) - (one < two);
}

/* Until it can be announced that an item was written, at least the list of this process is right.
 * *count: items announced. */
static enum rc announce_written(struct recommended_watcher *watcher, size_t *count, int64_t now_ms)
{
    int64_t items[RECOMMENDED_BATCH_MAX];
    struct err err = {0};
    enum rc rc;

    *count = recommended_take_written(watcher->lists, items);
    if (*count == 0)
        return RC_OK;
    /* Watchers that write rows in the same order cannot deadlock. */
    qsort(items, *count, sizeof(items[0]), compare_items);
    rc = watcher->store->announce(watcher->store->ctx, items, *count, &err);
    recommended_end_written(watcher->lists, rc == RC_OK, now_ms);
    if (rc != RC_OK && reasons_add(&watcher->reasons, err.text, now_ms, LOG_AGAIN_MS))
        log_error(LOG_WARN, "change_unannounced", &err, "items=%zu", *count);
    return rc;
}

struct change_reading {
    struct recommended *lists;
    int64_t now_ms;
};

static void on_change(void *ctx, int64_t item_id, int64_t changed_ms)
{
    const struct change_reading *reading = ctx;

    recommended_changed(reading->lists, item_id, changed_ms, reading->now_ms);
}

static enum rc read_changes(struct recommended_watcher *watcher, int64_t now_ms, struct err *err)
{
    struct change_reading reading = {watcher->lists, now_ms};
    int64_t within_ms = CHANGES_MS_MAX;

    if (watcher->read_ms > 0 && now_ms - watcher->read_ms < CHANGES_MS_MAX - CHANGE_OVERLAP_MS)
        within_ms = now_ms - watcher->read_ms + CHANGE_OVERLAP_MS;
    return watcher->store->read_changes(watcher->store->ctx, within_ms, on_change, &reading, err);
}

/* *more: there are items left. */
static enum rc check_items(struct recommended_watcher *watcher, bool *more, struct err *err)
{
    int64_t items[RECOMMENDED_BATCH_MAX];
    int64_t windows[RECOMMENDED_BATCH_MAX];

    *more = true;
    for (int i = 0; i < BATCHES_MAX; i++) {
        size_t count = recommended_take_checks(watcher->lists, items);
        enum rc rc;

        *more = count == RECOMMENDED_BATCH_MAX;
        if (count == 0)
            return RC_OK;
        rc = watcher->store->newest(watcher->store->ctx, items, count, windows, err);
        recommended_end_checks(watcher->lists, items, rc == RC_OK ? windows : NULL, count);
        if (rc != RC_OK || !*more)
            return rc;
    }
    return RC_OK;
}

/* The two numbers are input: a person may have changed or restored the row of rollup_state. */
static enum rc check_state(const struct recommended_state *state, struct err *err)
{
    if (state->started == state->finished || state->started == state->finished + 1)
        return RC_OK;
    return err_fail(err, RC_RETRY, 0,
                    "rollup_state.started_window is %" PRId64 ", but finished_window is %" PRId64
                    ": recommended lists wait until tallybox rollup has ended a roll-up",
                    state->started, state->finished);
}

int64_t recommended_watcher_step(void *arg, int64_t now_ms)
{
    struct recommended_watcher *watcher = arg;
    const struct recommended_store *store = watcher->store;
    struct recommended_state state = {0};
    struct err err = {0};
    bool more = false;
    bool later = true;
    uint64_t began;
    size_t count;
    enum rc rc;

    announce_written(watcher, &count, now_ms);
    began = recommended_begin_read(watcher->lists);
    rc = store->read_state(store->ctx, &state, &err);
    if (rc == RC_OK)
        rc = check_state(&state, &err);
    if (rc == RC_OK) {
        later = recommended_set_state(watcher->lists, &state, began);
        rc = read_changes(watcher, now_ms, &err);
    }
    if (rc == RC_OK)
        rc = check_items(watcher, &more, &err);
    if (rc != RC_OK) {
        /* Votes do not depend on the sink: a fault that an operator must correct is waited for. */
        recommended_lost(watcher->lists);
        condition_fail(&watcher->database, now_ms, &err);
        return RECOMMENDED_WATCH_MS;
    }
    watcher->read_ms = now_ms;
    recommended_seen(watcher->lists, now_ms);
    condition_ok(&watcher->database, now_ms);
    return more || !later ? 0 : RECOMMENDED_WATCH_MS;
}

void recommended_watcher_end(struct recommended_watcher *watcher, int64_t now_ms)
{
    size_t count = 1;

    for (int i = 0; i < BATCHES_MAX && count > 0; i++)
        if (announce_written(watcher, &count, now_ms) != RC_OK)
            return;
}

void recommended_builder_init(struct recommended_builder *builder, struct recommended *lists,
                              const struct recommended_store *store, size_t rows_max,
                              int64_t (*clock_us)(void), const struct stop *stop)
{
    assert(rows_max > 0 && rows_max <= RECOMMENDED_MAX);
    memset(builder, 0, sizeof(*builder));
    builder->lists = lists;
    builder->store = store;
    builder->rows_max = rows_max;
    builder->clock_us = clock_us;
    builder->stop = stop;
}

static enum rc build_list(struct recommended_builder *builder, int64_t item_id,
                          struct recommended_state *state, size_t *count, struct err *err)
{
    const struct recommended_store *store = builder->store;

    for (int builds = 0; builds < BUILDS_MAX; builds++) {
        uint64_t began = recommended_begin_read(builder->lists);
        struct recommended_state seen = {0};
        enum rc rc;

        *count = 0;
        metric_add(&serve_recommended_queries, 1);
        rc = store->build(store->ctx, item_id, state, builder->rows_max, builder->ids, count, &seen,
                          err);
        if (rc == RC_OK)
            rc = check_state(&seen, err);
        if (rc != RC_OK)
            return rc;
        assert(*count <= builder->rows_max);
        /* Otherwise lists are built again until the watcher has read the same. */
        recommended_set_state(builder->lists, &seen, began);
        if (recommended_state_equal(state, &seen)) {
            state->now_ms = seen.now_ms;
            return RC_OK;
        }
        *state = seen;
    }
    return err_fail(err, RC_RETRY, 0, "roll-ups end faster than a list is built");
}

static void fail_build(struct recommended_builder *builder, int64_t item_id, const struct err *err)
{
    int64_t now_ms = builder->clock_us() / 1000;

    recommended_failed(builder->lists, item_id, now_ms);
    if (stop_requested(builder->stop))
        return;
    metric_add(&serve_recommended_failed, 1);
    if (reasons_add(&builder->reasons, err->text, now_ms, LOG_AGAIN_MS))
        log_error(LOG_WARN, "recommended_build_failed", err, "item=%" PRId64, item_id);
}

int64_t recommended_builder_step(void *arg, int64_t now_ms)
{
    struct recommended_builder *builder = arg;
    struct recommended_list *list = NULL;
    struct recommended_state state;
    struct err err = {0};
    int64_t begin_us;
    int64_t item_id;
    int64_t wait_ms;
    size_t count;
    enum rc rc;

    if (!recommended_read_state(builder->lists, &state))
        return LOST_LOOK_MS;
    if (!recommended_take(builder->lists, now_ms, &item_id, &wait_ms))
        return wait_ms;
    begin_us = builder->clock_us();
    rc = build_list(builder, item_id, &state, &count, &err);
    if (rc == RC_OK) {
        list = recommended_list_new(item_id, &state, builder->ids, count);
        if (!list)
            rc = err_fail(&err, RC_RETRY, 0, "no memory for a list of %zu remarks", count);
    }
    if (rc != RC_OK) {
        fail_build(builder, item_id, &err);
        return 0;
    }
    metric_add(&serve_recommended_built, 1);
    metric_observe_us(&serve_recommended_seconds, builder->clock_us() - begin_us);
    /* A change at the very time of the read may not be in it. */
    recommended_built(builder->lists, list, state.now_ms - 1, builder->clock_us() / 1000);
    return 0;
}
