/* SPDX-License-Identifier: MIT */
#include "outbox/retry/cli/retry_list_command.h"

#include "common/options.h"
#include "outbox/retry/cli/retry_group_command.h"
#include "outbox/retry/cli/retry_scene_command.h"
#include "outbox/retry/cli/task_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* At most this many kinds of listed tasks are explained. */
#define KINDS_MAX 16

struct shown_kind {
    char group[RETRY_NAME_BYTES_MAX + 1];
    char scene[RETRY_NAME_BYTES_MAX + 1];
    char handler[RETRY_HANDLER_BYTES_MAX + 1];
    char origin[16];
};

struct task_list {
    struct buf out;
    struct shown_kind kinds[KINDS_MAX];
    size_t kind_count;
    bool json;
    bool ended;
    int64_t now_ms;
    size_t rows;
};

static struct shown_kind add_kind(const struct retry_view *view)
{
    struct shown_kind kind;

    memset(&kind, 0, sizeof(kind));
    snprintf(kind.group, sizeof(kind.group), "%s", view->group);
    snprintf(kind.scene, sizeof(kind.scene), "%s", view->scene);
    snprintf(kind.handler, sizeof(kind.handler), "%s", view->handler);
    snprintf(kind.origin, sizeof(kind.origin), "%s", view->origin);
    return kind;
}

static void note_kind(struct task_list *task_list, const struct retry_view *view)
{
    struct shown_kind kind = add_kind(view);

    if (view->outcome || view->state != TASK_WAITING || task_list->kind_count == KINDS_MAX)
        return;
    for (size_t i = 0; i < task_list->kind_count; i++)
        if (memcmp(&task_list->kinds[i], &kind, sizeof(kind)) == 0)
            return;
    task_list->kinds[task_list->kind_count++] = kind;
}

/* Appends the reason why tasks of this kind do not run, if there is one. */
static enum rc explain_kind(struct db *db, const struct shown_kind *kind, struct buf *out,
                            struct err *err)
{
    const struct retry_view view = {.group = kind->group,
                                    .scene = kind->scene,
                                    .handler = kind->handler,
                                    .origin = kind->origin};

    return retry_group_note(db, &view, out, err);
}

static enum rc explain_kinds(struct db *db, struct task_list *task_list, struct err *err)
{
    enum rc rc = RC_OK;

    for (size_t i = 0; i < task_list->kind_count && rc == RC_OK; i++)
        rc = explain_kind(db, &task_list->kinds[i], &task_list->out, err);
    return rc;
}

static enum rc print_row(void *ctx, const struct retry_view *view, struct err *err)
{
    struct task_list *task_list = ctx;

    (void)err;
    if (task_list->json) {
        buf_text_put(&task_list->out, task_list->rows == 0 ? "\n  " : ",\n  ");
        task_json(&task_list->out, view, false);
    } else {
        if (task_list->rows == 0)
            task_list_head(&task_list->out, task_list->ended);
        task_list_row(&task_list->out, view, task_list->now_ms);
    }
    note_kind(task_list, view);
    task_list->rows++;
    return RC_OK;
}

static void end_list(struct task_list *task_list, const struct retry_page *page)
{
    struct buf *out = &task_list->out;

    if (task_list->json) {
        buf_print(out, "%s],\n\"more\": %s,\n\"after\": %" PRId64 "}\n",
                  task_list->rows > 0 ? "\n" : "", page->more ? "true" : "false", page->after);
        return;
    }
    if (task_list->rows == 0)
        buf_print(out, "no such task%s\n", task_list->ended ? " in the history" : "");
    else if (page->more)
        buf_print(out, "more tasks follow; continue with --after %" PRId64 "\n", page->after);
}

int retry_list(struct db *db, struct retry_request *request, int64_t now_ms)
{
    const struct retry_words *words = &request->words;
    struct task_list task_list = {
        .json = words->json,
        .ended = request->action == RETRY_HISTORY,
        .now_ms = now_ms,
    };
    size_t rows_max = words->limit > 0 ? (size_t)words->limit : RETRY_LIST_ROWS;
    struct retry_page page = {.more = true, .after = words->after};
    struct err err = {0};
    enum rc rc = RC_OK;

    if (rows_max > RETRY_LIST_ROWS_MAX)
        rows_max = RETRY_LIST_ROWS_MAX;
    if (task_list.json)
        buf_text_put(&task_list.out, "{\"tasks\": [");
    while (rc == RC_OK && page.more && task_list.rows < rows_max) {
        size_t left = rows_max - task_list.rows;

        request->filter.after = page.after;
        rc = retry_find(db, task_list.ended, &request->filter, false,
                        left < RETRY_PAGE_ROWS_MAX ? left : RETRY_PAGE_ROWS_MAX, print_row,
                        &task_list, &page, &err);
    }
    if (rc != RC_OK) {
        buf_done(&task_list.out);
        return options_fail(rc, &err);
    }
    end_list(&task_list, &page);
    if (!task_list.ended && !task_list.json)
        rc = retry_scene_notes(db, words->group, words->scene, &task_list.out, &err);
    if (rc == RC_OK && !task_list.ended && !task_list.json)
        rc = explain_kinds(db, &task_list, &err);
    if (rc != RC_OK) {
        buf_done(&task_list.out);
        return options_fail(rc, &err);
    }
    return options_print(&task_list.out);
}

struct task_show {
    struct buf out;
    const struct retry_words *words;
    int64_t now_ms;
    bool parked; /* its row still blocks its key */
    bool found;
    bool no_params;
    size_t attempts;
    struct shown_kind kind;
    bool waits;
};

static void show_json(struct task_show *task_show, const struct retry_view *view)
{
    buf_text_put(&task_show->out, "{\"task\": ");
    task_json(&task_show->out, view, true);
    buf_print(&task_show->out, ",\n\"parked\": %s,\n\"attempts\": [",
              task_show->parked ? "true" : "false");
}

static enum rc show_view(void *ctx, const struct retry_view *view, struct err *err)
{
    struct task_show *task_show = ctx;

    (void)err;
    if (!view->outcome && view->state == TASK_PARKED) {
        task_show->parked = true; /* the history has the whole task */
        return RC_OK;
    }
    task_show->found = true;
    task_show->kind = add_kind(view);
    task_show->waits = !view->outcome && view->state == TASK_WAITING;
    if (task_show->words->params) {
        task_show->no_params = !view->params;
        buf_put(&task_show->out, view->params ? view->params : "", view->params_len);
    } else if (task_show->words->json) {
        show_json(task_show, view);
    } else {
        task_show_text(&task_show->out, view, task_show->now_ms);
        if (task_show->parked)
            buf_text_put(&task_show->out, "parked          its key waits for `tallybox retry "
                                          "unpark`\n");
    }
    return RC_OK;
}

static enum rc show_attempt(void *ctx, const struct retry_attempt_view *attempt, struct err *err)
{
    struct task_show *task_show = ctx;

    (void)err;
    if (task_show->words->json) {
        buf_text_put(&task_show->out, task_show->attempts == 0 ? "\n  " : ",\n  ");
        task_attempt_json(&task_show->out, attempt);
    } else {
        task_attempt_text(&task_show->out, attempt, task_show->attempts == 0, task_show->now_ms);
    }
    task_show->attempts++;
    return RC_OK;
}

int retry_show(struct db *db, struct retry_request *request, int64_t now_ms)
{
    struct task_show task_show = {.words = &request->words, .now_ms = now_ms};
    struct retry_page page;
    struct err err = {0};
    enum rc rc =
        retry_find(db, false, &request->filter, true, 1, show_view, &task_show, &page, &err);

    if (rc == RC_OK && !task_show.found)
        rc = retry_find(db, true, &request->filter, true, 1, show_view, &task_show, &page, &err);
    if (rc == RC_OK && !task_show.found)
        rc = err_fail(&err, RC_FATAL, 0, "there is no task %" PRId64, request->ids[0]);
    if (rc == RC_OK && task_show.no_params)
        rc = err_fail(&err, RC_FATAL, 0, "task %" PRId64 " has no parameters", request->ids[0]);
    if (rc == RC_OK && !request->words.params && !request->words.json)
        rc =
            retry_scene_notes(db, task_show.kind.group, task_show.kind.scene, &task_show.out, &err);
    if (rc == RC_OK && task_show.waits && !request->words.params && !request->words.json)
        rc = explain_kind(db, &task_show.kind, &task_show.out, &err);
    if (rc == RC_OK && !request->words.params)
        rc = retry_attempts(db, request->ids[0], show_attempt, &task_show, &err);
    if (rc != RC_OK) {
        buf_done(&task_show.out);
        return options_fail(rc, &err);
    }
    if (request->words.json)
        buf_print(&task_show.out, "%s]}\n", task_show.attempts > 0 ? "\n" : "");
    return options_print(&task_show.out);
}
