/* SPDX-License-Identifier: MIT */
#include "outbox/retry/cli/retry_client_command.h"

#include "common/options.h"
#include "outbox/retry/cli/task_text.h"
#include "outbox/retry/clients/client.h"

#include <inttypes.h>
#include <jansson.h>

#define ROWS_MAX 10000

struct client_list {
    struct buf out;
    bool json;
    size_t count;
};

static void put_client_json(struct client_list *list, const struct retry_client_view *view)
{
    buf_text_put(&list->out, list->count == 0 ? "\n  " : ",\n  ");
    task_text_put_object(
        &list->out,
        json_pack("{s:s, s:s, s:s, s:b, s:s, s:b, s:I, s:I, s:I, s:I}", "group", view->group,
                  "address", view->address, "version", view->version, "live", view->is_live,
                  "config_version", view->config_version, "config_current", view->config_is_current,
                  "failed_reports", (json_int_t)view->failed_reports, "first_beat_ms",
                  (json_int_t)view->first_beat_ms, "last_beat_ms", (json_int_t)view->last_beat_ms,
                  "expires_ms", (json_int_t)view->expires_ms));
}

static void put_client_row(struct client_list *list, const struct retry_client_view *view)
{
    if (list->count == 0)
        buf_print(&list->out, "%-24s  %-40s  %-7s  %9s  %-7s  %14s  %s\n", "group", "address",
                  "state", "last beat", "config", "failed reports", "version");
    buf_print(&list->out, "%-24s  %-40s  %-7s  %7" PRId64 " s  %-7s  %14" PRId64 "  ", view->group,
              view->address, view->is_live ? "live" : "expired",
              (view->now_ms - view->last_beat_ms) / 1000,
              view->config_is_current ? "current" : "old", view->failed_reports);
    task_text_line(&list->out, view->version);
    buf_char(&list->out, '\n');
}

static enum rc list_on_client(void *ctx, const struct retry_client_view *view, struct err *err)
{
    struct client_list *list = ctx;

    (void)err;
    if (list->json)
        put_client_json(list, view);
    else
        put_client_row(list, view);
    list->count++;
    return RC_OK;
}

int retry_clients(struct db *db, const struct retry_request *request)
{
    struct client_list list = {.json = request->words.json};
    struct err err = {0};
    enum rc rc;

    if (list.json)
        buf_text_put(&list.out, "{\"clients\": [");
    rc = retry_client_each(db, request->words.group, NULL, ROWS_MAX, list_on_client, &list, &err);
    if (rc != RC_OK) {
        buf_done(&list.out);
        return options_fail(rc, &err);
    }
    if (list.json)
        buf_text_put(&list.out, list.count > 0 ? "\n]}\n" : "]}\n");
    else if (list.count == 0)
        buf_text_put(&list.out, "there is no client\n");
    return options_print(&list.out);
}
