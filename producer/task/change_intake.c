/* SPDX-License-Identifier: MIT */
#include "producer/task/change_intake.h"

#include "common/text.h"
#include "producer/task/change_json.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* A page ends after the row with which it is so long: policies may be long. */
#define PAGE_BYTES_MAX ((size_t)1 << 20)

static enum rc fail_request(struct task_intake_request *request, enum request_fault_code code,
                            const char *words)
{
    request->failed = true;
    request_fault_set(&request->fault, code, "%s", words);
    return RC_OK;
}

static enum rc fail_unknown(struct task_intake_request *request, const char *group,
                            const char *scene)
{
    char words[200];

    if (scene)
        snprintf(words, sizeof(words),
                 "scene %.64s/%.64s has no row: it has what its group says; version 0 makes one",
                 group, scene);
    else
        snprintf(words, sizeof(words), "there is no group %.64s", group);
    return fail_request(request, REQUEST_FAULT_NOT_FOUND, words);
}

static void answer_change(struct task_intake_request *request, const struct retry_changed *result)
{
    const struct retry_change *change = request->change;
    char words[200];

    if (result->outdated) {
        snprintf(words, sizeof(words),
                 "the version is %" PRId64 ", not %" PRId64
                 ": nothing was changed; read the row again",
                 result->version, change->version);
        fail_request(request, REQUEST_FAULT_CONFLICT, words);
        request_fault_at(&request->fault, "/version");
        return;
    }
    buf_reset(&request->body);
    buf_text_put(&request->body, "{\"group\":");
    json_text_put(&request->body, change->group);
    if (change->scene) {
        buf_text_put(&request->body, ",\"scene\":");
        json_text_put(&request->body, change->scene);
    }
    buf_print(&request->body, ",\"action\":\"%s\",\"changed\":%s,\"version\":%" PRId64 "}",
              retry_change_name(change->kind), result->changed ? "true" : "false", result->version);
}

/* A new group is made by a change that is based on version 0; nothing else makes a row of a name
 * that may be a typing error. */
enum rc change_intake_make(const struct task_store *store, struct task_intake_request *request,
                           struct err *err)
{
    struct retry_change *change = request->change;
    struct retry_changed result = {.changed = false};
    struct retry_group group;
    bool found = false;
    enum rc rc = store->group(store->ctx, change->group, &group, &found, err);

    if (rc != RC_OK)
        return rc;
    if (!found && (change->kind != CHANGE_GROUP_SET || change->version != 0))
        return fail_unknown(request, change->group, NULL);
    rc = store->change(store->ctx, change, &result, err);
    if (rc == RC_OK)
        answer_change(request, &result);
    return rc;
}

struct page {
    struct task_intake_request *request;
    const struct retry_scene_counts *counts; /* of one scene */
    size_t rows;
    bool more;
    char group[RETRY_NAME_BYTES_MAX + 1]; /* of the last row */
    char scene[RETRY_NAME_BYTES_MAX + 1];
};

/* Returns whether the page takes one more row. */
static bool take_row(struct page *page)
{
    struct task_intake_request *request = page->request;

    if (page->more || page->rows == request->rows_max ||
        (page->rows > 0 && request->body.len > PAGE_BYTES_MAX)) {
        page->more = true;
        return false;
    }
    if (page->rows++ > 0)
        buf_char(&request->body, ',');
    return true;
}

static void end_page(struct page *page)
{
    struct buf *body = &page->request->body;

    buf_print(body, "],\"more\":%s,\"after\":", page->more ? "true" : "false");
    if (!page->more)
        buf_text_put(body, "null");
    else
        buf_print(body, "\"%s%s%s\"", page->group, page->scene[0] ? "/" : "", page->scene);
    buf_char(body, '}');
}

static enum rc put_scene(void *ctx, const struct retry_scene_view *view, struct err *err)
{
    struct page *page = ctx;

    (void)err;
    if (!take_row(page))
        return RC_OK;
    change_json_put_scene(&page->request->body, view, page->counts);
    snprintf(page->group, sizeof(page->group), "%s", view->group);
    snprintf(page->scene, sizeof(page->scene), "%s", view->scene);
    return RC_OK;
}

static enum rc show_scene(const struct task_store *store, struct task_intake_request *request,
                          struct err *err)
{
    const struct retry_scene_filter *filter = &request->scenes;
    struct retry_scene_counts counts;
    struct page page = {.request = request, .counts = &counts};
    enum rc rc = store->count_scene(store->ctx, filter->group, filter->scene, &counts, err);

    request->rows_max = 1;
    if (rc == RC_OK)
        rc = store->find_scenes(store->ctx, filter, 1, put_scene, &page, err);
    return rc == RC_OK && page.rows == 0 ? fail_unknown(request, filter->group, filter->scene) : rc;
}

enum rc change_intake_scenes(const struct task_store *store, struct task_intake_request *request,
                             struct err *err)
{
    struct page page = {.request = request};
    enum rc rc;

    buf_reset(&request->body);
    if (request->scenes.scene)
        return show_scene(store, request, err);
    buf_text_put(&request->body, "{\"scenes\":[");
    rc = store->find_scenes(store->ctx, &request->scenes, request->rows_max + 1, put_scene, &page,
                            err);
    if (rc == RC_OK)
        end_page(&page);
    return rc;
}

static enum rc put_group(void *ctx, const struct retry_group *group, struct err *err)
{
    struct page *page = ctx;
    const char *after = page->request->scenes.after_group;

    (void)err;
    if ((after && strcmp(group->name, after) <= 0) || !take_row(page))
        return RC_OK;
    change_json_put_group(&page->request->body, group);
    snprintf(page->group, sizeof(page->group), "%s", group->name);
    return RC_OK;
}

enum rc change_intake_groups(const struct task_store *store, struct task_intake_request *request,
                             struct err *err)
{
    const char *name = request->scenes.group;
    struct page page = {.request = request};
    enum rc rc;

    buf_reset(&request->body);
    if (!name)
        buf_text_put(&request->body, "{\"groups\":[");
    rc = store->each_group(store->ctx, name, put_group, &page, err);
    if (rc != RC_OK)
        return rc;
    if (!name)
        end_page(&page);
    else if (page.rows == 0)
        return fail_unknown(request, name, NULL);
    return RC_OK;
}
