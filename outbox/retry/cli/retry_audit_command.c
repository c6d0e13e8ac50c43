/* SPDX-License-Identifier: MIT */
#include "outbox/retry/cli/retry_audit_command.h"

#include "common/buf.h"
#include "common/options.h"
#include "common/utc.h"
#include "outbox/retry/cli/task_text.h"
#include "outbox/retry/store/audit_mysql.h"

#include <inttypes.h>
#include <jansson.h>
#include <string.h>

static void put_word(struct buf *out, const char *name, const char *value)
{
    if (!value)
        return;
    buf_print(out, "%s%s=", out->len > 0 ? " " : "", name);
    buf_text_put(out, value);
}

static void put_ids(struct buf *out, const struct retry_filter *filter)
{
    for (size_t i = 0; i < filter->id_count; i++)
        buf_print(out, "%s%" PRId64, i > 0 ? "," : "id=", filter->ids[i]);
}

/* Which tasks the action selects, or what it sets; not the content of tasks. */
static void put_what(struct buf *out, const struct retry_request *request)
{
    const struct retry_words *words = &request->words;

    put_ids(out, &request->filter);
    put_word(out, "key", request->filter.ordering_key);
    put_word(out, "handler", words->handler);
    put_word(out, "state", words->state);
    put_word(out, "outcome", words->outcome);
    put_word(out, "bizNo", words->biz_no);
    put_word(out, "bizNoPrefix", words->biz_no_prefix);
    put_word(out, "reasonClass", words->reason_class);
    put_word(out, "since", words->since);
    put_word(out, "until", words->until);
    put_word(out, "all", words->all ? "yes" : NULL);
    put_word(out, "force", words->force ? "yes" : NULL);
    put_word(out, "skip", words->skip ? "yes" : NULL);
    put_word(out, "handlers", words->handlers);
    put_word(out, "scenes", words->scenes);
    put_word(out, "topics", words->topics);
    put_word(out, "initScene", words->init_scene);
    put_word(out, "shards", words->shards);
    put_word(out, "route", words->route);
    put_word(out, "description", words->description);
    put_word(out, "policy", words->policy);
    if (words->to > 0)
        buf_print(out, "%sto=%" PRId64, out->len > 0 ? " " : "", words->to);
    put_word(out, "options", words->options ? "given" : NULL);
    put_word(out, "headers", words->headers ? "given" : NULL);
    put_word(out, "params", words->params_path ? "given" : words->no_params ? "none" : NULL);
}

enum rc retry_audit_begin(struct db *db, struct retry_request *request, const char *by,
                          struct err *err)
{
    bool names_group = strncmp(retry_action_name(request->action), "group", 5) == 0;
    struct buf what = {0};
    struct audit_entry entry = {
        .by = by,
        .via = "shell",
        .action = retry_action_name(request->action),
        .group = request->scene || names_group ? request->group : request->words.group,
        .scene = request->scene ? request->scene : request->words.scene,
        .why = request->words.reason,
    };
    enum rc rc;

    put_what(&what, request);
    entry.what = buf_text(&what);
    rc = audit_mysql_begin(db, &entry, &request->audit_id, err);
    if (rc != RC_OK)
        err_wrap(err, "the audit cannot be written, nothing was changed");
    buf_done(&what);
    return rc;
}

void retry_audit_refuse(struct db *db, const struct retry_request *request)
{
    audit_mysql_add(db, request->audit_id, 0, NULL);
}

struct audit_output {
    struct buf out;
    bool json;
    size_t rows;
};

static void put_json(struct buf *out, const struct audit_entry *entry)
{
    json_t *object = json_pack(
        "{s:I, s:I, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:o}", "id", (json_int_t)entry->id, "at_ms",
        (json_int_t)entry->at_ms, "by", entry->by, "via", entry->via, "action", entry->action,
        "group", entry->group, "scene", entry->scene, "what", entry->what, "why", entry->why,
        "changed", entry->changed >= 0 ? json_integer(entry->changed) : json_null());

    task_text_put_object(out, object);
}

static void put_text(struct buf *out, const struct audit_entry *entry)
{
    char when[WHEN_TEXT_SIZE];

    when_text(when, entry->at_ms);
    buf_print(out, "%6" PRId64 "  %s  ", entry->id, when);
    task_text_line(out, entry->by);
    buf_print(out, " (%s)  %s", entry->via, entry->action);
    if (entry->group[0] || entry->scene[0]) {
        buf_text_put(out, " ");
        task_text_line(out, entry->group[0] ? entry->group : "*");
        buf_char(out, '/');
        task_text_line(out, entry->scene[0] ? entry->scene : "*");
    }
    if (entry->what[0]) {
        buf_char(out, ' ');
        task_text_line(out, entry->what);
    }
    if (entry->changed >= 0)
        buf_print(out, "  changed %" PRId64, entry->changed);
    else
        buf_text_put(out, "  unknown");
    if (entry->why[0]) {
        buf_text_put(out, ": ");
        task_text_line(out, entry->why);
    }
    buf_char(out, '\n');
}

static enum rc print_entry(void *ctx, const struct audit_entry *entry, struct err *err)
{
    struct audit_output *output = ctx;

    (void)err;
    if (output->json) {
        buf_text_put(&output->out, output->rows == 0 ? "\n  " : ",\n  ");
        put_json(&output->out, entry);
    } else {
        put_text(&output->out, entry);
    }
    output->rows++;
    return RC_OK;
}

static void end_output(struct audit_output *output, const struct audit_page *page)
{
    struct buf *out = &output->out;

    if (output->json)
        task_text_page_end(out, output->rows > 0, page->more, page->after);
    else if (output->rows == 0)
        buf_text_put(out, "no action matches\n");
    else if (page->more)
        buf_print(out, "more actions follow; continue with --after %" PRId64 "\n", page->after);
}

int retry_audit(struct db *db, const struct retry_request *request)
{
    const struct retry_words *words = &request->words;
    struct audit_filter filter = {
        .by = words->by,
        .group = words->group,
        .scene = words->scene,
        .since_ms = request->filter.since_ms,
        .until_ms = request->filter.until_ms,
        .after = words->after,
    };
    struct audit_output output = {.json = words->json};
    size_t rows_max = words->limit > 0 ? (size_t)words->limit : RETRY_LIST_ROWS;
    struct audit_page page = {.more = true};
    struct err err = {0};
    enum rc rc = RC_OK;

    if (rows_max > RETRY_LIST_ROWS_MAX)
        rows_max = RETRY_LIST_ROWS_MAX;
    if (output.json)
        buf_text_put(&output.out, "{\"actions\": [");
    while (rc == RC_OK && page.more && output.rows < rows_max) {
        rc = audit_mysql_list(db, &filter, rows_max - output.rows, print_entry, &output, &page,
                              &err);
        filter.after = page.after;
    }
    if (rc != RC_OK) {
        buf_done(&output.out);
        return options_fail(rc, &err);
    }
    end_output(&output, &page);
    return options_print(&output.out);
}
