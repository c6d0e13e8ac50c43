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

struct queue_work {
    const char *group;
    struct bundle *bundles; /* HELD_SUBMIT_MAX of them, the size of a page */
    size_t count;
    int64_t after;
    uint64_t rows; /* of the page */
    uint64_t records;
    uint64_t tasks;
    uint64_t made;
};

static struct bundle *find_bundle(struct queue_work *work, const struct dead_view *view)
{
    const struct dead_item item = {.topic = view->topic,
                                   .partition = view->partition,
                                   .key = view->key,
                                   .key_len = view->key_len};
    uint64_t hash = dead_key_of(&item);
    struct bundle *bundle;

    for (size_t i = 0; i < work->count; i++)
        if (work->bundles[i].hash == hash)
            return &work->bundles[i];
    bundle = &work->bundles[work->count++];
    bundle->hash = hash;
    bundle->options.has_dead = true;
    bundle->options.id_count = 0;
    bundle->partition = view->partition;
    bundle->key_len = view->key_len < DEAD_KEY_BYTES_MAX ? view->key_len : DEAD_KEY_BYTES_MAX;
    if (view->key)
        memcpy(bundle->key, view->key, bundle->key_len);
    snprintf(bundle->topic, sizeof(bundle->topic), "%s", view->topic);
    snprintf(bundle->options.group, sizeof(bundle->options.group), "%s", work->group);
    return bundle;
}

static enum rc on_view(void *ctx, const struct dead_view *view, struct err *err)
{
    struct queue_work *work = ctx;
    struct vote_options *options = &find_bundle(work, view)->options;

    (void)err;
    options->ids[options->id_count++] = view->id;
    work->after = view->id;
    work->rows++;
    return RC_OK;
}

static enum rc submit_page(struct queue_work *work, const struct held_store *store, struct err *err)
{
    struct retry_new_task tasks[HELD_SUBMIT_MAX];
    size_t made = 0;
    enum rc rc = RC_OK;

    for (size_t i = 0; rc == RC_OK && i < work->count; i++) {
        struct bundle *bundle = &work->bundles[i];
        const struct held_place place = {bundle->topic, bundle->partition,
                                         bundle->hash != 0 ? bundle->key : NULL, bundle->key_len};

        rc = held_task_make(&bundle->task, &bundle->options, &place, err);
        tasks[i] = held_task_view(&bundle->task);
    }
    if (rc == RC_OK)
        rc = store->submit(store->ctx, tasks, work->count, &made, err);
    if (rc != RC_OK)
        return rc;
    work->records += work->rows;
    work->tasks += work->count;
    work->made += made;
    return RC_OK;
}

static enum rc submit_records(struct queue_work *work, struct dead_mysql *mysql,
                              const struct dead_request *request, const struct held_store *store,
                              struct err *err)
{
    uint64_t max = request->words.limit > 0 ? (uint64_t)request->words.limit : UINT64_MAX;
    enum rc rc;

    do {
        uint64_t left = max - work->records;
        size_t page = left < HELD_SUBMIT_MAX ? (size_t)left : HELD_SUBMIT_MAX;

        work->rows = 0;
        work->count = 0;
        if (page == 0)
            return RC_OK;
        rc = dead_mysql_list(mysql, &request->filter, false, work->after, page, on_view, work, err);
        if (rc == RC_OK && work->count > 0)
            rc = submit_page(work, store, err);
    } while (rc == RC_OK && work->rows > 0);
    return rc;
}

static int print_result(const struct queue_work *work, bool json)
{
    struct buf out = {0};

    if (json)
        buf_print(&out,
                  "{\"records\": %" PRIu64 ", \"tasks\": %" PRIu64 ", \"made\": %" PRIu64 "}\n",
                  work->records, work->tasks, work->made);
    else
        buf_print(&out,
                  "%" PRIu64 " dead records are in the retry queue, in %" PRIu64
                  " tasks of scene " HELD_TASK_SCENE "; %" PRIu64
                  " of these tasks existed before; `tallybox retry list` shows them\n",
                  work->records, work->tasks, work->tasks - work->made);
    return options_print(&out);
}

int dead_queue(struct dead_mysql *mysql, struct dead_request *request,
               const struct settings *settings)
{
    struct queue_work work = {.group = settings->consumer.group};
    struct held_mysql *held = NULL;
    struct err err = {0};
    enum rc rc = held_mysql_open(&held, settings, &err);
    int code;

    work.bundles = calloc(HELD_SUBMIT_MAX, sizeof(*work.bundles));
    if (rc == RC_OK && !work.bundles)
        rc = err_fail(&err, RC_FATAL, 0, "no memory for a page of dead records");
    if (rc == RC_OK)
        rc = submit_records(&work, mysql, request, held_mysql_store(held), &err);
    for (size_t i = 0; work.bundles && i < HELD_SUBMIT_MAX; i++)
        held_task_done(&work.bundles[i].task);
    free(work.bundles);
    held_mysql_close(held);
    if (rc != RC_OK)
        return options_fail(rc, &err);
    code = print_result(&work, request->words.json);
    return code == EXIT_DONE && work.records == 0 && !dead_request_is_bulk(request) ? EXIT_FAILED
                                                                                    : code;
}
