/* SPDX-License-Identifier: MIT */
#include "consumer/dead/dead_queue_command.h"

#include "common/options.h"
#include "consumer/dead/dead.h"
#include "consumer/held/held_mysql.h"
#include "consumer/held/held_task.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(HELD_SUBMIT_MAX <= VOTE_OPTIONS_IDS_MAX, "a page fits into one task");

/* The records of one key in a page. */
struct bundle {
    uint64_t hash; /* of the key; 0: none */
    struct vote_options options;
    char topic[VOTE_OPTIONS_TOPIC_SIZE];
    int32_t partition;
    char key[DEAD_KEY_BYTES_MAX];
    size_t key_len;
    struct held_task task;
};

struct handing {
    const char *group;
    struct bundle *bundles; /* HELD_SUBMIT_MAX of them, as a page has records */
    size_t count;
    int64_t after;
    uint64_t rows; /* of the page */
    uint64_t records;
    uint64_t tasks;
    uint64_t made;
};

static struct bundle *bundle_of(struct handing *handing, const struct dead_view *view)
{
    const struct dead_item item = {.topic = view->topic,
                                   .partition = view->partition,
                                   .key = view->key,
                                   .key_len = view->key_len};
    uint64_t hash = dead_key_of(&item);
    struct bundle *bundle;

    for (size_t i = 0; i < handing->count; i++)
        if (handing->bundles[i].hash == hash)
            return &handing->bundles[i];
    bundle = &handing->bundles[handing->count++];
    bundle->hash = hash;
    bundle->options.has_dead = true;
    bundle->options.id_count = 0;
    bundle->partition = view->partition;
    bundle->key_len = view->key_len < DEAD_KEY_BYTES_MAX ? view->key_len : DEAD_KEY_BYTES_MAX;
    if (view->key)
        memcpy(bundle->key, view->key, bundle->key_len);
    snprintf(bundle->topic, sizeof(bundle->topic), "%s", view->topic);
    snprintf(bundle->options.group, sizeof(bundle->options.group), "%s", handing->group);
    return bundle;
}

static enum rc on_view(void *ctx, const struct dead_view *view, struct err *err)
{
    struct handing *handing = ctx;
    struct vote_options *options = &bundle_of(handing, view)->options;

    (void)err;
    options->ids[options->id_count++] = view->id;
    handing->after = view->id;
    handing->rows++;
    return RC_OK;
}

static enum rc page_submit(struct handing *handing, const struct held_store *store, struct err *err)
{
    struct retry_new_task tasks[HELD_SUBMIT_MAX];
    size_t made = 0;
    enum rc rc = RC_OK;

    for (size_t i = 0; rc == RC_OK && i < handing->count; i++) {
        struct bundle *bundle = &handing->bundles[i];
        const struct held_place place = {bundle->topic, bundle->partition,
                                         bundle->hash != 0 ? bundle->key : NULL, bundle->key_len};

        rc = held_task_make(&bundle->task, &bundle->options, &place, err);
        tasks[i] = held_task_view(&bundle->task);
    }
    if (rc == RC_OK)
        rc = store->submit(store->ctx, tasks, handing->count, &made, err);
    if (rc != RC_OK)
        return rc;
    handing->records += handing->rows;
    handing->tasks += handing->count;
    handing->made += made;
    return RC_OK;
}

static enum rc hand_over(struct handing *handing, struct dead_mysql *mysql,
                         const struct dead_request *request, const struct held_store *store,
                         struct err *err)
{
    uint64_t max = request->words.limit > 0 ? (uint64_t)request->words.limit : UINT64_MAX;
    enum rc rc;

    do {
        uint64_t left = max - handing->records;
        size_t page = left < HELD_SUBMIT_MAX ? (size_t)left : HELD_SUBMIT_MAX;

        handing->rows = 0;
        handing->count = 0;
        if (page == 0)
            return RC_OK;
        rc = dead_mysql_list(mysql, &request->filter, false, handing->after, page, on_view, handing,
                             err);
        if (rc == RC_OK && handing->count > 0)
            rc = page_submit(handing, store, err);
    } while (rc == RC_OK && handing->rows > 0);
    return rc;
}

static int print(const struct handing *handing, bool json)
{
    struct buf out = {0};

    if (json)
        buf_print(&out,
                  "{\"records\": %" PRIu64 ", \"tasks\": %" PRIu64 ", \"made\": %" PRIu64 "}\n",
                  handing->records, handing->tasks, handing->made);
    else
        buf_print(&out,
                  "%" PRIu64 " dead records are in the retry queue, in %" PRIu64
                  " tasks of scene " HELD_TASK_SCENE ", %" PRIu64
                  " of which were there before; `tallybox retry list` shows them\n",
                  handing->records, handing->tasks, handing->tasks - handing->made);
    return options_print(&out);
}

int dead_queue(struct dead_mysql *mysql, struct dead_request *request,
               const struct settings *settings)
{
    struct handing handing = {.group = settings->consumer.group};
    struct held_mysql *held = NULL;
    struct err err = {0};
    enum rc rc = held_mysql_open(&held, settings, &err);
    int code;

    handing.bundles = calloc(HELD_SUBMIT_MAX, sizeof(*handing.bundles));
    if (rc == RC_OK && !handing.bundles)
        rc = err_fail(&err, RC_FATAL, 0, "no memory for a page of dead records");
    if (rc == RC_OK)
        rc = hand_over(&handing, mysql, request, held_mysql_store(held), &err);
    for (size_t i = 0; handing.bundles && i < HELD_SUBMIT_MAX; i++)
        held_task_done(&handing.bundles[i].task);
    free(handing.bundles);
    held_mysql_close(held);
    if (rc != RC_OK)
        return options_fail(rc, &err);
    code = print(&handing, request->words.json);
    return code == EXIT_DONE && handing.records == 0 && !dead_request_is_bulk(request) ? EXIT_FAILED
                                                                                       : code;
}
