/* SPDX-License-Identifier: MIT */
#include "outbox/retry/cli/task_text.h"

#include "common/text.h"
#include "common/utc.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KIND_COLUMNS 26
#define KEY_COLUMNS 20
#define ALL_COLUMNS (SIZE_MAX / 2)

/* Up to columns characters of text on one line, cut with dots; then blanks up to `fill`. */
static void put_cell(struct buf *out, const char *text, size_t columns, size_t fill)
{
    char *copy = strdup(text);
    const char *at = copy;
    size_t count = 0;

    if (!copy) {
        out->failed = true;
        return;
    }
    utf8_clean(copy);
    for (; *at && count < columns; count++) {
        size_t len = utf8_len(at);
        size_t next = len > 0 ? len : 1;

        if (count + 2 >= columns && strlen(at) > 2 * next) {
            buf_text_put(out, "..");
            count += 2;
            break;
        }
        buf_put(out, at, next);
        at += next;
    }
    for (; count < fill; count++)
        buf_char(out, ' ');
    free(copy);
}

static const char *get_state(const struct retry_view *view)
{
    return view->outcome ? view->outcome : task_state_name(view->state);
}

void task_text_line(struct buf *out, const char *text)
{
    put_cell(out, text, ALL_COLUMNS, 0);
}

bool task_text_word(struct buf *out, const char *text)
{
    static const char plain[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.:/@%+=,-";

    if (!utf8_prints(text, strlen(text)) || strpbrk(text, "\t\r\n"))
        return false;
    if (text[0] != '\0' && text[0] != '-' && text[strspn(text, plain)] == '\0') {
        buf_text_put(out, text);
        return true;
    }
    buf_char(out, '\'');
    for (; *text; text++) {
        if (*text == '\'')
            buf_text_put(out, "'\\''");
        else
            buf_char(out, *text);
    }
    buf_char(out, '\'');
    return true;
}

void task_text_head(struct buf *out, bool ended)
{
    buf_print(out, "%8s  %-*s  %-9s  %5s  %-12s  %-*s  %s\n", "id", KIND_COLUMNS, "group/scene",
              ended ? "outcome" : "state", "tries", ended ? "ended" : "next", KEY_COLUMNS,
              "key or bizNo", "reason");
}

static void put_next(char text[WHEN_AGE_SIZE + 8], const struct retry_view *view, int64_t now_ms)
{
    char age[WHEN_AGE_SIZE];

    if (view->outcome) {
        when_age(age, now_ms - view->ended_ms);
        snprintf(text, WHEN_AGE_SIZE + 8, "%s ago", age);
    } else if (view->state == TASK_WAITING && view->next_ms > now_ms) {
        when_age(age, view->next_ms - now_ms);
        snprintf(text, WHEN_AGE_SIZE + 8, "in %s", age);
    } else {
        snprintf(text, WHEN_AGE_SIZE + 8, "%s", view->state == TASK_WAITING ? "due" : "-");
    }
}

void task_text_row(struct buf *out, const struct retry_view *view, int64_t now_ms)
{
    char kind[2 * RETRY_NAME_BYTES_MAX + 2];
    char next[WHEN_AGE_SIZE + 8];
    const char *key = view->ordering_key ? view->ordering_key : view->biz_no;

    snprintf(kind, sizeof(kind), "%s/%s", view->group, view->scene);
    put_next(next, view, now_ms);
    buf_print(out, "%8" PRId64 "  ", view->id);
    put_cell(out, kind, KIND_COLUMNS, KIND_COLUMNS);
    buf_print(out, "  %-9s  %5" PRId64 "  %-12s  ", get_state(view), view->attempts, next);
    /* Never cut: `retry unpark` takes it. */
    put_cell(out, key ? key : "-", ALL_COLUMNS, KEY_COLUMNS);
    buf_text_put(out, "  ");
    if (view->reason_class[0])
        buf_print(out, "%s: ", view->reason_class);
    /* Never cut: the word that matters is often the last one. */
    put_cell(out, view->reason, ALL_COLUMNS, 0);
    buf_char(out, '\n');
}

static void put_text(struct buf *out, const char *name, const char *text)
{
    buf_print(out, "%-16s", name);
    put_cell(out, text ? text : "(none)", ALL_COLUMNS, 0);
    buf_char(out, '\n');
}

static void put_time(struct buf *out, const char *name, int64_t ms, int64_t now_ms)
{
    char time[WHEN_TEXT_SIZE];
    char age[WHEN_AGE_SIZE];

    when_text(time, ms);
    when_age(age, ms > now_ms ? ms - now_ms : now_ms - ms);
    buf_print(out, "%-16s%s, %s%s%s\n", name, time, ms > now_ms ? "in " : "", age,
              ms > now_ms ? "" : " ago");
}

static void put_number(struct buf *out, const char *name, int64_t number)
{
    if (number != 0)
        buf_print(out, "%-16s%" PRId64 "\n", name, number);
}

void task_text_show(struct buf *out, const struct retry_view *view, int64_t now_ms)
{
    put_number(out, "id", view->id);
    put_text(out, "group", view->group);
    put_text(out, "scene", view->scene);
    put_text(out, "handler", view->handler);
    put_text(out, "origin", view->origin);
    put_text(out, "state", get_state(view));
    put_text(out, "ordering key", view->ordering_key);
    put_text(out, "idempotency key",
             view->idempotency_key ? view->idempotency_key : "(what the task does)");
    put_text(out, "bizNo", view->biz_no);
    buf_print(out, "%-16s%" PRId64 " failed\n", "attempts", view->attempts);
    if (view->reason_class[0] || view->reason[0])
        put_text(out, "reason class", view->reason_class);
    if (view->reason[0])
        put_text(out, "reason", view->reason);
    if (!view->outcome && view->state == TASK_WAITING)
        put_time(out, "next", view->next_ms, now_ms);
    if (!view->outcome && view->state == TASK_WAITING && view->exhausts_ms != 0)
        put_time(out, view->ordering_key ? "blocks at" : "exhausted at", view->exhausts_ms, now_ms);
    if (view->owner[0])
        put_text(out, view->outcome ? "ended by" : "owner", view->owner);
    if (!view->outcome && view->lease_ms != 0)
        put_time(out, "lease until", view->lease_ms, now_ms);
    put_time(out, "made", view->made_ms, now_ms);
    if (view->outcome)
        put_time(out, "ended", view->ended_ms, now_ms);
    put_number(out, "requeued as", view->requeued_as);
    put_number(out, "parent", view->parent_id);
    put_number(out, "step", view->step);
    put_text(out, "options", view->options);
    put_text(out, "type", view->params_type);
    bytes_show(out, 16, "params", view->params, view->params_len);
    if (view->step_result)
        bytes_show(out, 16, "step result", view->step_result, view->step_result_len);
}

void task_text_attempt(struct buf *out, const struct retry_attempt_view *attempt, bool first,
                       int64_t now_ms)
{
    char age[WHEN_AGE_SIZE];
    char ago[WHEN_AGE_SIZE + 8];
    char took[WHEN_AGE_SIZE];

    if (first)
        buf_print(out, "\n%-12s  %-8s  %-8s  %-24s  %s\n", "attempted", "took", "outcome", "by",
                  "reason");
    when_age(age, now_ms - attempt->at_ms);
    snprintf(ago, sizeof(ago), "%s ago", age);
    when_age(took, attempt->took_ms);
    buf_print(out, "%-12s  %-8s  %-8s  ", ago, took, attempt->outcome);
    put_cell(out, attempt->owner, 24, 24);
    buf_print(out, "  %s%s", attempt->reason_class, attempt->reason_class[0] ? ": " : "");
    put_cell(out, attempt->reason, ALL_COLUMNS, 0);
    buf_char(out, '\n');
}

/* "name" if the bytes are UTF-8, else "name_base64"; the other field is null. */
static int make_json_bytes(json_t *object, const char *name, const void *bytes, size_t len)
{
    char other[32];
    struct buf text = {0};
    json_t *plain = NULL;
    json_t *coded = NULL;

    snprintf(other, sizeof(other), "%s_base64", name);
    if (bytes && utf8_fits(bytes, len)) {
        plain = json_stringn(bytes, len);
    } else if (bytes) {
        base64_put(&text, bytes, len);
        coded = json_string(buf_text(&text));
    }
    buf_done(&text);
    if (bytes && !plain && !coded)
        return -1;
    return json_object_set_new(object, name, plain ? plain : json_null()) +
           json_object_set_new(object, other, coded ? coded : json_null());
}

static json_t *make_json_time(int64_t ms)
{
    return ms != 0 ? json_integer(ms) : json_null();
}

static json_t *make_json_id(int64_t id)
{
    return id != 0 ? json_integer(id) : json_null();
}

void task_text_put_object(struct buf *out, json_t *object)
{
    char *text = object ? json_dumps(object, 0) : NULL;

    if (text)
        buf_text_put(out, text);
    else
        out->failed = true;
    free(text);
    json_decref(object);
}

static void put_json(struct buf *out, json_t *object, int failed)
{
    out->failed = out->failed || failed != 0;
    task_text_put_object(out, object);
}

static int put_whole_json(json_t *object, const struct retry_view *view)
{
    int failed = json_object_set_new(object, "options",
                                     view->options ? json_string(view->options) : json_null());

    failed += make_json_bytes(object, "params", view->params, view->params_len);
    return failed +
           make_json_bytes(object, "step_result", view->step_result, view->step_result_len);
}

void task_text_page_end(struct buf *out, bool rows, bool more, int64_t after)
{
    buf_print(out, "%s],\n\"more\": %s,\n\"after\": ", rows ? "\n" : "", more ? "true" : "false");
    if (more)
        buf_i64(out, after);
    else
        buf_text_put(out, "null");
    buf_text_put(out, "}\n");
}

void task_text_json(struct buf *out, const struct retry_view *view, bool whole)
{
    json_t *object = json_pack(
        "{s:I, s:s, s:s, s:s, s:s?, s:s?, s:s?, s:s, s:I, s:o, s:s, s:s, s:s, s:I}", "id",
        (json_int_t)view->id, "group", view->group, "scene", view->scene, "handler", view->handler,
        "ordering_key", view->ordering_key, "idempotency_key", view->idempotency_key, "biz_no",
        view->biz_no, "state", task_state_name(view->state), "attempts", (json_int_t)view->attempts,
        "next_ms", make_json_time(view->next_ms), "reason_class", view->reason_class, "reason",
        view->reason, "owner", view->owner, "epoch", (json_int_t)view->epoch);
    int failed = object ? 0 : -1;

    failed += json_object_set_new(object, "origin", json_string(view->origin));
    failed += json_object_set_new(object, "lease_until_ms", make_json_time(view->lease_ms));
    failed += json_object_set_new(object, "parent_id", make_json_id(view->parent_id));
    failed += json_object_set_new(object, "step", json_integer(view->step));
    failed += json_object_set_new(object, "made_ms", make_json_time(view->made_ms));
    failed += json_object_set_new(object, "changed_ms", make_json_time(view->changed_ms));
    failed += json_object_set_new(object, "params_type", json_string(view->params_type));
    failed += json_object_set_new(object, "params_bytes",
                                  view->has_params ? json_integer((json_int_t)view->params_len)
                                                   : json_null());
    failed += json_object_set_new(object, "outcome",
                                  view->outcome ? json_string(view->outcome) : json_null());
    failed += json_object_set_new(object, "ended_ms", make_json_time(view->ended_ms));
    failed += json_object_set_new(object, "requeued_as", make_json_id(view->requeued_as));
    if (whole)
        failed += put_whole_json(object, view);
    put_json(out, object, failed);
}

void task_text_attempt_json(struct buf *out, const struct retry_attempt_view *attempt)
{
    json_t *object =
        json_pack("{s:I, s:I, s:s, s:I, s:s, s:s, s:s}", "at_ms", (json_int_t)attempt->at_ms,
                  "took_ms", (json_int_t)attempt->took_ms, "owner", attempt->owner, "step",
                  (json_int_t)attempt->step, "outcome", attempt->outcome, "reason_class",
                  attempt->reason_class, "reason", attempt->reason);

    put_json(out, object, 0);
}
