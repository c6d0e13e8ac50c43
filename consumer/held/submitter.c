/* SPDX-License-Identifier: MIT */
#include "consumer/held/submitter.h"

#include "common/log.h"
#include "consumer/consumer_metrics.h"
#include "consumer/held/vote_task.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RETRY_BASE_MS 1000
#define RETRY_CAP_MS 30000

enum rc submitter_init(struct submitter *submitter, const struct held_store *store,
                       const char *group, uint64_t (*rng)(void), struct err *err)
{
    memset(submitter, 0, sizeof(*submitter));
    submitter->store = store;
    submitter->group = group;
    submitter->rng = rng;
    submitter->backoff = (struct backoff){.base_ms = RETRY_BASE_MS, .cap_ms = RETRY_CAP_MS};
    condition_init(&submitter->submitting, CONDITION_DEPENDENCY,
                   "dep=sink role=consume reason=cannot_submit_held");
    submitter->page = calloc(SUBMITTER_PAGE_ROWS, sizeof(*submitter->page));
    submitter->tasks = calloc(HELD_SUBMIT_MAX, sizeof(*submitter->tasks));
    if (submitter->page && submitter->tasks)
        return RC_OK;
    submitter_done(submitter);
    return err_fail(err, RC_FATAL, 0, "no memory for keys that are held");
}

void submitter_done(struct submitter *submitter)
{
    for (size_t i = 0; submitter->tasks && i < HELD_SUBMIT_MAX; i++)
        vote_task_done(&submitter->tasks[i]);
    free(submitter->page);
    free(submitter->tasks);
    dead_keys_done(&submitter->keys);
    condition_done(&submitter->submitting);
}

void submitter_request(struct submitter *submitter)
{
    atomic_fetch_add(&submitter->kept, 1);
}

static void on_key(void *ctx, const struct held_key *key)
{
    struct submitter *submitter = ctx;
    const struct dead_item item = {
        .topic = key->topic,
        .partition = key->partition,
        .key = key->key,
        .key_len = strlen(key->key),
    };
    uint64_t hash = dead_key_of(&item);

    submitter->rows++;
    submitter->after = key->id;
    if (dead_keys_find(&submitter->keys, hash) != 0)
        return;
    if (dead_keys_add(&submitter->keys, hash, key->id, NULL) != RC_OK)
        submitter->full = true;
    submitter->page[submitter->count++] = *key;
}

/* Submits tasks for `count` keys of the page, starting at `from`. */
static enum rc submit_keys(struct submitter *submitter, size_t from, size_t count, size_t *made,
                           struct err *err)
{
    const struct held_store *store = submitter->store;
    struct retry_new_task tasks[HELD_SUBMIT_MAX];
    struct vote_options options = {.has_dead = true};
    enum rc rc = RC_OK;

    snprintf(options.group, sizeof(options.group), "%s", submitter->group);
    for (size_t i = 0; rc == RC_OK && i < count; i++) {
        const struct held_key *key = &submitter->page[from + i];
        const struct vote_task_place place = {key->topic, key->partition, key->key,
                                              strlen(key->key)};

        snprintf(options.topic, sizeof(options.topic), "%s", key->topic);
        snprintf(options.key, sizeof(options.key), "%s", key->key);
        options.partition = key->partition;
        rc = vote_task_make(&submitter->tasks[i], &options, &place, err);
        tasks[i] = vote_task_view(&submitter->tasks[i]);
    }
    return rc == RC_OK ? store->submit(store->ctx, tasks, count, made, err) : rc;
}

static enum rc submit_page(struct submitter *submitter, struct err *err)
{
    const struct held_store *store = submitter->store;
    size_t made = 0;
    size_t all = 0;
    enum rc rc;

    submitter->rows = 0;
    submitter->count = 0;
    submitter->full = false;
    rc =
        store->read_keys(store->ctx, submitter->after, SUBMITTER_PAGE_ROWS, on_key, submitter, err);
    if (rc == RC_OK && submitter->full)
        rc = err_fail(err, RC_FATAL, 0, "no memory for keys that are held");
    for (size_t from = 0; rc == RC_OK && from < submitter->count; from += HELD_SUBMIT_MAX) {
        size_t left = submitter->count - from;

        rc = submit_keys(submitter, from, left < HELD_SUBMIT_MAX ? left : HELD_SUBMIT_MAX, &made,
                         err);
        all += made;
    }
    submitter->found += (int64_t)submitter->count;
    metric_add(&consume_tasks, (int64_t)all);
    if (all > 0)
        log_event(LOG_INFO, "held_submitted", "tasks=%zu", all);
    return rc;
}

/* No failure stops consuming, and held records stay held. */
static int64_t fail_search(struct submitter *submitter, const struct err *err, int64_t now_ms)
{
    int64_t wait_ms = backoff_next_ms(&submitter->backoff, submitter->rng());

    condition_fail(&submitter->submitting, now_ms, err);
    submitter->searching = false;
    submitter->began_ms = now_ms + wait_ms - SUBMITTER_GAP_MS;
    submitter->next_ms = now_ms + wait_ms;
    return wait_ms;
}

static int64_t end_search(struct submitter *submitter, int64_t now_ms)
{
    metric_set(&consume_held, submitter->found);
    condition_ok(&submitter->submitting, now_ms);
    backoff_reset(&submitter->backoff);
    submitter->searching = false;
    submitter->next_ms = submitter->began_ms + SUBMITTER_SEARCH_MS;
    return 0;
}

static int64_t search_due_ms(const struct submitter *submitter)
{
    int64_t soon_ms = submitter->began_ms + SUBMITTER_GAP_MS;

    if (atomic_load(&submitter->kept) != submitter->seen && soon_ms < submitter->next_ms)
        return soon_ms;
    return submitter->next_ms;
}

static void begin_search(struct submitter *submitter, int64_t now_ms)
{
    submitter->searching = true;
    submitter->seen = atomic_load(&submitter->kept);
    submitter->began_ms = now_ms;
    submitter->after = 0;
    submitter->found = 0;
    dead_keys_done(&submitter->keys);
}

int64_t submitter_step(void *ctx, int64_t now_ms)
{
    struct submitter *submitter = ctx;
    struct err err = {0};

    if (!submitter->searching) {
        if (now_ms < search_due_ms(submitter))
            return search_due_ms(submitter) - now_ms;
        begin_search(submitter, now_ms);
    }
    if (submit_page(submitter, &err) != RC_OK)
        return fail_search(submitter, &err, now_ms);
    if (submitter->rows < SUBMITTER_PAGE_ROWS)
        return end_search(submitter, now_ms);
    return 0;
}
