/* SPDX-License-Identifier: MIT */
#include "outbox/retry/cli/retry_list_command.h"

#include "common/options.h"
#include "outbox/retry/cli/retry_group_command.h"
#include "outbox/retry/cli/retry_scene_command.h"
#include "outbox/retry/cli/task_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Kinds of tasks in a list whose group is asked about them. */
#define KINDS_MAX 16

struct shown_kind {
    char group[RETRY_NAME_BYTES_MAX + 1];
    char scene[RETRY_NAME_BYTES_MAX + 1];
    char handler[RETRY_HANDLER_BYTES_MAX + 1];
    char origin[16];
};

struct listing {
    struct buf out;
    struct shown_kind kinds[KINDS_MAX];
    size_t kind_count;
    bool json;
    bool ended;
    int64_t now_ms;
    size_t rows;
};

static struct shown_kind kind_of(const struct retry_view *view)
{
    struct shown_kind kind;

    memset(&kind, 0, sizeof(kind));
    snprintf(kind.group, sizeof(kind.group), "%s", view->group);
    snprintf(kind.scene, sizeof(kind.scene), "%s", view->scene);
    snprintf(kind.handler, sizeof(kind.handler), "%s", view->handler);
    snprintf(kind.origin, sizeof(kind.origin), "%s", view->origin);
    return kind;
}

static void kind_note(struct listing *listing, const struct retry_view *view)
{
    struct shown_kind kind = kind_of(view);

    if (view->outcome || view->state != TASK_WAITING || listing->kind_count == KINDS_MAX)
        return;
    for (size_t i = 0; i < listing->kind_count; i++)
        if (memcmp(&listing->kinds[i], &kind, sizeof(kind)) == 0)
            return;
    listing->kinds[listing->kind_count++] = kind;
}

/* Why its tasks do not run, if they do not. */
static enum rc kind_say(struct db *db, const struct shown_kind *kind, struct buf *out,
                        struct err *err)
{
    const struct retry_view view = {.group = kind->group,
                                    .scene = kind->scene,
                                    .handler = kind->handler,
                                    .origin = kind->origin};

    return retry_group_note(db, &view, out, err);
}

static enum rc kinds_say(struct db *db, struct listing *listing, struct err *err)
{
    enum rc rc = RC_OK;

    for (size_t i = 0; i < listing->kind_count && rc == RC_OK; i++)
        rc = kind_say(db, &listing->kinds[i], &listing->out, err);
    return rc;
}

static enum rc list_row(void *ctx, const struct retry_view *view, struct err *err)
{
    struct listing *listing = ctx;

    (void)err;
    if (listing->json) {
        buf_text_put(&listing->out, listing->rows == 0 ? "\n  " : ",\n  ");
        task_json(&listing->out, view, false);
    } else {
        if (listing->rows == 0)
            task_list_head(&listing->out, listing->ended);
        task_list_row(&listing->out, view, listing->now_ms);
    }
    kind_note(listing, view);
    listing->rows++;
    return RC_OK;
}

static void list_end(struct listing *listing, const struct retry_page *page)
{
    struct buf *out = &listing->out;

    if (listing->json) {
        buf_print(out, "%s],\n\"more\": %s,\n\"after\": %" PRId64 "}\n",
                  listing->rows > 0 ? "\n" : "", page->more ? "true" : "false", page->after);
        return;
    }
    if (listing->rows == 0)
        buf_print(out, "no such task%s\n", listing->ended ? " in the history" : "");
    else if (page->more)
        buf_print(out, "there are more; go on with --after %" PRId64 "\n", page->after);
}

int retry_list(struct db *db, struct retry_request *request, int64_t now_ms)
{
    const struct retry_words *words = &request->words;
    struct listing listing = {
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
    if (listing.json)
        buf_text_put(&listing.out, "{\"tasks\": [");
    while (rc == RC_OK && page.more && listing.rows < rows_max) {
        size_t left = rows_max - listing.rows;

        request->filter.after = page.after;
        rc = retry_find(db, listing.ended, &request->filter, false,
                        left < RETRY_PAGE_ROWS_MAX ? left : RETRY_PAGE_ROWS_MAX, list_row, &listing,
                        &page, &err);
    }
    if (rc != RC_OK) {
        buf_done(&listing.out);
        return options_fail(rc, &err);
    }
    list_end(&listing, &page);
    if (!listing.ended && !listing.json)
        rc = retry_scene_notes(db, words->group, words->scene, &listing.out, &err);
    if (rc == RC_OK && !listing.ended && !listing.json)
        rc = kinds_say(db, &listing, &err);
    if (rc != RC_OK) {
        buf_done(&listing.out);
        return options_fail(rc, &err);
    }
    return options_print(&listing.out);
}

struct showing {
    struct buf out;
    const struct retry_words *words;
    int64_t now_ms;
    bool parked; /* its row still stands in its key's way */
    bool found;
    bool no_params;
    size_t attempts;
    struct shown_kind kind;
    bool waits;
};

static void show_json(struct showing *showing, const struct retry_view *view)
{
    buf_text_put(&showing->out, "{\"task\": ");
    task_json(&showing->out, view, true);
    buf_print(&showing->out, ",\n\"parked\": %s,\n\"attempts\": [",
              showing->parked ? "true" : "false");
}

static enum rc show_view(void *ctx, const struct retry_view *view, struct err *err)
{
    struct showing *showing = ctx;

    (void)err;
    if (!view->outcome && view->state == TASK_PARKED) {
        showing->parked = true; /* the history has all of it */
        return RC_OK;
    }
    showing->found = true;
    showing->kind = kind_of(view);
    showing->waits = !view->outcome && view->state == TASK_WAITING;
    if (showing->words->params) {
        showing->no_params = !view->params;
        buf_put(&showing->out, view->params ? view->params : "", view->params_len);
    } else if (showing->words->json) {
        show_json(showing, view);
    } else {
        task_show_text(&showing->out, view, showing->now_ms);
        if (showing->parked)
            buf_text_put(&showing->out, "parked          its key waits for `tallybox retry "
                                        "unpark`\n");
    }
    return RC_OK;
}

static enum rc show_attempt(void *ctx, const struct retry_attempt_view *attempt, struct err *err)
{
    struct showing *showing = ctx;

    (void)err;
    if (showing->words->json) {
        buf_text_put(&showing->out, showing->attempts == 0 ? "\n  " : ",\n  ");
        task_attempt_json(&showing->out, attempt);
    } else {
        task_attempt_text(&showing->out, attempt, showing->attempts == 0, showing->now_ms);
    }
    showing->attempts++;
    return RC_OK;
}

int retry_show(struct db *db, struct retry_request *request, int64_t now_ms)
{
    struct showing showing = {.words = &request->words, .now_ms = now_ms};
    struct retry_page page;
    struct err err = {0};
    enum rc rc = retry_find(db, false, &request->filter, true, 1, show_view, &showing, &page, &err);

    if (rc == RC_OK && !showing.found)
        rc = retry_find(db, true, &request->filter, true, 1, show_view, &showing, &page, &err);
    if (rc == RC_OK && !showing.found)
        rc = err_fail(&err, RC_FATAL, 0, "there is no task %" PRId64, request->ids[0]);
    if (rc == RC_OK && showing.no_params)
        rc = err_fail(&err, RC_FATAL, 0, "task %" PRId64 " has no parameters", request->ids[0]);
    if (rc == RC_OK && !request->words.params && !request->words.json)
        rc = retry_scene_notes(db, showing.kind.group, showing.kind.scene, &showing.out, &err);
    if (rc == RC_OK && showing.waits && !request->words.params && !request->words.json)
        rc = kind_say(db, &showing.kind, &showing.out, &err);
    if (rc == RC_OK && !request->words.params)
        rc = retry_attempts(db, request->ids[0], show_attempt, &showing, &err);
    if (rc != RC_OK) {
        buf_done(&showing.out);
        return options_fail(rc, &err);
    }
    if (request->words.json)
        buf_print(&showing.out, "%s]}\n", showing.attempts > 0 ? "\n" : "");
    return options_print(&showing.out);
}
