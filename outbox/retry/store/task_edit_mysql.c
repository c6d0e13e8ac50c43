/* SPDX-License-Identifier: MIT */
#include "outbox/retry/store/task_edit_mysql.h"

#include "common/backoff.h"
#include "common/loop.h"
#include "common/os.h"
#include "common/text.h"
#include "outbox/outbox.h"
#include "outbox/retry/store/scene_mysql.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RETRY_BASE_MS 100
#define RETRY_CAP_MS 2000
#define WHAT_SIZE 64
#define JSON_FLAGS (JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL)

/* The headers that the relay makes and an application may give instead. Those that only the relay
 * may make are in outbox_check_header(). */
static const char *const replaceable_headers[] = {"ce_type", "ce_source", "ce_time",
                                                  "original_timestamp"};

static bool is_replaceable(const char *name)
{
    for (size_t i = 0; i < sizeof(replaceable_headers) / sizeof(replaceable_headers[0]); i++)
        if (strcmp(name, replaceable_headers[i]) == 0)
            return true;
    return false;
}

static bool is_reserved(const char *name)
{
    return name[0] != '\0' && outbox_check_header(name, NULL) != RC_OK;
}

static enum rc parse_json(json_t **json, const char *text, const char *what, struct err *err)
{
    json_error_t fault;

    *json = json_loads(text, JSON_FLAGS, &fault);
    return *json ? RC_OK
                 : err_fail(err, RC_REJECT, 0, "%s: not JSON: %s (line %d, column %d)", what,
                            fault.text, fault.line, fault.column);
}

static enum rc parse_object(json_t **json, const char *text, const char *what, struct err *err)
{
    enum rc rc = parse_json(json, text, what, err);

    if (rc == RC_OK && !json_is_object(*json))
        rc = err_fail(err, RC_REJECT, 0, "%s are not a JSON object", what);
    return rc;
}

/* *pairs: a new list of [name, value]. */
static enum rc make_pairs(json_t **pairs, const json_t *headers, struct err *err)
{
    const char *name;
    json_t *value;
    size_t i;

    *pairs = json_array();
    if (json_is_object(headers)) {
        /* Iterating takes no const, and changes nothing. */
        json_object_foreach((json_t *)(uintptr_t)headers, name, value)
            json_array_append_new(*pairs, json_pack("[s,O]", name, value));
        return RC_OK;
    }
    if (!json_is_array(headers))
        return err_fail(err, RC_REJECT, 0,
                        "headers: neither a JSON object nor a list of [name, value]");
    json_array_foreach(headers, i, value) {
        if (json_array_size(value) != 2 || !json_is_string(json_array_get(value, 0)))
            return err_fail(err, RC_REJECT, 0, "headers: element %zu is not [name, value]", i + 1);
        json_array_append(*pairs, value);
    }
    return RC_OK;
}

static const char *get_name(const json_t *pair)
{
    const char *name = json_string_value(json_array_get(pair, 0));

    return name ? name : "";
}

static const json_t *find_pair(const json_t *pairs, const char *name)
{
    json_t *pair;
    size_t i;

    json_array_foreach(pairs, i, pair) {
        if (strcmp(get_name(pair), name) == 0)
            return pair;
    }
    return NULL;
}

/* A reserved header may be given if it is as it was, so that the options of `retry show --json` can
 * be corrected and given back; or if the task has none. */
static enum rc append_given(json_t *result, const json_t *before, json_t *given, struct err *err)
{
    json_t *pair;
    size_t i;

    json_array_foreach(given, i, pair) {
        const char *name = get_name(pair);
        const json_t *was =
            is_reserved(name) || is_replaceable(name) ? find_pair(before, name) : NULL;

        if (was && json_equal(was, pair))
            continue; /* it was kept */
        if (!was || is_replaceable(name))
            json_array_append(result, pair);
        else
            return err_fail(err, RC_REJECT, 0,
                            "headers: \"%.64s\" is reserved for the relay and stays as it is: "
                            "leave it out",
                            name);
    }
    return RC_OK;
}

/* Invariant: an event is published with an id. If the row's id could not be published, the given
 * one takes its place, also in the CloudEvents attributes. */
static void settle_id(json_t *options, json_t *headers)
{
    const json_t *id = find_pair(headers, "id");

    if (!id)
        return;
    json_object_del(options, "rowId");
    if (find_pair(headers, "ce_specversion") && !find_pair(headers, "ce_id"))
        json_array_append_new(headers, json_pack("[s,O]", "ce_id", json_array_get(id, 1)));
}

/* before: the event's headers so far; any JSON, or NULL. */
static enum rc merge_headers(json_t *options, const json_t *before, const json_t *headers,
                             struct err *err)
{
    json_t *result = json_array();
    json_t *given = NULL;
    json_t *pair;
    size_t i;
    enum rc rc = make_pairs(&given, headers, err);

    json_array_foreach(before, i, pair) {
        const json_t *instead = find_pair(given, get_name(pair));

        if (is_reserved(get_name(pair)) ||
            (is_replaceable(get_name(pair)) && (!instead || json_equal(instead, pair))))
            json_array_append(result, pair);
    }
    if (rc == RC_OK)
        rc = append_given(result, before, given, err);
    settle_id(options, result);
    json_object_set(options, "headers", result);
    json_object_del(options, "rowHeaders"); /* has been corrected */
    json_decref(given);
    json_decref(result);
    return rc;
}

/* Puts the members of more over those of options; key and keyHex are one. */
static void update_members(json_t *options, json_t *more)
{
    if (json_object_get(more, "key"))
        json_object_del(options, "keyHex");
    if (json_object_get(more, "keyHex"))
        json_object_del(options, "key");
    json_object_update(options, more);
}

static enum rc edit_event(json_t *options, json_t *more, const json_t *headers, struct err *err)
{
    json_t *before = json_incref(json_object_get(options, "headers"));
    enum rc rc = RC_OK;

    if (more) {
        if (json_object_get(more, "headers"))
            headers = json_object_get(more, "headers");
        update_members(options, more);
    }
    if (headers)
        rc = merge_headers(options, before, headers, err);
    json_decref(before);
    return rc;
}

static enum rc put_options(struct buf *out, const json_t *options, struct err *err)
{
    char *text = json_dumps(options, RETRY_OPTIONS_JSON);

    buf_text_put(out, text ? text : "");
    free(text);
    if (!text || out->failed)
        return err_fail(err, RC_FATAL, 0, "no memory for the options of a task");
    if (out->len > RETRY_OPTIONS_BYTES_MAX)
        return err_fail(err, RC_REJECT, 0, "options have at most %d bytes",
                        RETRY_OPTIONS_BYTES_MAX);
    return RC_OK;
}

enum rc task_edit_options(struct buf *out, const char *before, bool relays, const char *options,
                          const char *headers, struct err *err)
{
    json_t *result = NULL;
    json_t *more = NULL;
    json_t *given = NULL;
    enum rc rc = RC_OK;

    if (options && options[0])
        rc = parse_object(&more, options, "options", err);
    if (rc == RC_OK && headers)
        rc = parse_json(&given, headers, "headers", err);
    if (rc == RC_OK && given && json_object_get(more, "headers"))
        rc = err_fail(err, RC_REJECT, 0, "the headers are given twice");
    if (rc == RC_OK && !given && !relays) {
        buf_text_put(out, options ? options : before ? before : "");
        goto out;
    }
    if (rc == RC_OK && !relays && options)
        result = more ? json_incref(more) : json_object();
    else
        result = before ? json_loads(before, JSON_FLAGS, NULL) : NULL;
    if (!json_is_object(result)) {
        json_decref(result);
        result = json_object();
    }
    if (rc == RC_OK && relays)
        rc = edit_event(result, more, given, err);
    else if (rc == RC_OK)
        json_object_set(result, "headers", given);
    if (rc == RC_OK)
        rc = put_options(out, result, err);
out:
    json_decref(result);
    json_decref(more);
    json_decref(given);
    return rc;
}

/* One edit: what the operator gave, and the task as it was read. */
struct edit {
    struct db *db;
    const struct retry_handlers *handlers;
    const struct task_edit *given;
    struct buf params; /* given, or the task's */
    bool has_params;
    bool found;
    enum task_state state;
    int64_t epoch;
    enum retry_owner origin;
    char group[RETRY_NAME_BYTES_MAX + 1];
    char scene[RETRY_NAME_BYTES_MAX + 1];
    char handler[RETRY_HANDLER_BYTES_MAX + 1];
    char *ordering_key; /* NULL: none, as the next ones */
    char *idempotency_key;
    char *biz_no;
    char *params_type;
    struct buf options; /* after the edit */
    struct retry_group group_row;
    bool has_group;
    struct buf scene_options;
};

static void forget_task(struct edit *edit)
{
    free(edit->ordering_key);
    free(edit->idempotency_key);
    free(edit->biz_no);
    free(edit->params_type);
    edit->ordering_key = edit->idempotency_key = edit->biz_no = edit->params_type = NULL;
    edit->found = edit->has_group = false;
    buf_reset(&edit->options);
    buf_reset(&edit->scene_options);
    buf_reset(&edit->params);
}

static char *copy_text(const char *text)
{
    return text ? strdup(text) : NULL;
}

/* The state of an ended task is its last one. */
static bool is_left(const struct edit *edit)
{
    return !edit->given->redrive && (edit->state == TASK_RUNNING || edit->state == TASK_PARKED);
}

static enum rc take_task(void *ctx, const struct retry_view *view, struct err *err)
{
    struct edit *edit = ctx;
    const struct task_edit *given = edit->given;

    edit->found = true;
    edit->state = view->state;
    edit->epoch = view->epoch;
    if (is_left(edit))
        return RC_OK;
    if (!retry_owner_read(view->origin, strlen(view->origin), &edit->origin))
        edit->origin = OWNER_UNKNOWN;
    snprintf(edit->group, sizeof(edit->group), "%s", view->group);
    snprintf(edit->scene, sizeof(edit->scene), "%s", view->scene);
    snprintf(edit->handler, sizeof(edit->handler), "%s", view->handler);
    edit->ordering_key = copy_text(view->ordering_key);
    edit->idempotency_key = copy_text(view->idempotency_key);
    edit->biz_no = copy_text(view->biz_no);
    edit->params_type = copy_text(view->params_type);
    edit->has_params = given->params || (view->params && !given->no_params);
    if (given->params)
        buf_put(&edit->params, given->params, given->params_len);
    else if (edit->has_params)
        buf_put(&edit->params, view->params, view->params_len);
    return task_edit_options(&edit->options, view->options, edit->origin == OWNER_RELAY,
                             given->options, given->headers, err);
}

static enum rc take_group(void *ctx, const struct retry_group *group, struct err *err)
{
    struct edit *edit = ctx;

    (void)err;
    edit->group_row = *group;
    edit->has_group = true;
    return RC_OK;
}

static enum rc take_scene(void *ctx, const struct scene_row *row, struct err *err)
{
    struct edit *edit = ctx;

    (void)err;
    if (row->options)
        buf_text_put(&edit->scene_options, row->options);
    return RC_OK;
}

/* A group that is closed only lets its tasks wait, so it does not hinder an edit. */
static enum rc check_edit(struct edit *edit, struct err *err)
{
    enum retry_owner origin;
    const struct retry_new_task task = {
        .group = edit->group,
        .scene = edit->scene,
        .handler = edit->handler,
        .ordering_key = edit->ordering_key,
        .idempotency_key = edit->idempotency_key,
        .biz_no = edit->biz_no,
        .options = edit->options.len > 0 ? buf_text(&edit->options) : NULL,
        .params = edit->has_params ? buf_text(&edit->params) : NULL,
        .params_len = edit->params.len,
        .params_type = edit->params_type,
    };
    struct retry_check_scene scene = {.group = &edit->group_row, .configured = true};
    enum rc rc = retry_group_each(edit->db, edit->group, take_group, edit, err);

    if (rc == RC_OK)
        rc = scene_mysql_each(edit->db, edit->group, edit->scene, take_scene, edit, err);
    if (rc == RC_OK && (edit->options.failed || edit->params.failed || edit->scene_options.failed))
        rc = err_fail(err, RC_FATAL, 0, "no memory for a task");
    if (rc != RC_OK)
        return rc;
    origin = edit->has_group && edit->group_row.enabled ? edit->origin : OWNER_UNKNOWN;
    scene.options = buf_text(&edit->scene_options);
    return retry_check(edit->handlers, &task, origin, &scene, err);
}

/* What the edit replaces, for the operator's log: "headers, params". */
static void put_what(char what[WHAT_SIZE], const struct task_edit *given)
{
    const char *const parts[] = {given->headers ? "headers" : NULL, given->params ? "params" : NULL,
                                 given->no_params ? "no params" : NULL,
                                 given->options ? "options" : NULL};

    what[0] = '\0';
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        if (parts[i])
            text_list_add(what, WHAT_SIZE, parts[i]);
}

static enum rc write_edit(struct edit *edit, struct task_admin_result *result, struct err *err)
{
    const struct task_edit *given = edit->given;
    char what[WHAT_SIZE];
    const struct task_admin_edit wanted = {
        .id = given->id,
        .epoch = edit->found ? edit->epoch : -1,
        .by = given->by,
        .why = given->why,
        .audit_id = given->audit_id,
        .what = what,
        .options = given->options || given->headers ? buf_text(&edit->options) : NULL,
        .params = given->params ? buf_text(&edit->params) : NULL,
        .params_len = edit->params.len,
        .no_params = given->no_params,
    };
    const struct task_admin_order order = {.action = TASK_ADMIN_REQUEUE,
                                           .by = given->by,
                                           .why = given->why,
                                           .content = &wanted,
                                           .audit_id = given->audit_id};

    put_what(what, given);
    return given->redrive ? task_admin_mysql_act(edit->db, &order, &given->id, 1, result, err)
                          : task_admin_mysql_edit(edit->db, &wanted, result, err);
}

/* Reads the task, checks what the edit makes of it, and writes it unless it has changed since. */
static enum rc try_edit(struct edit *edit, struct task_admin_result *result, struct err *err)
{
    const int64_t id = edit->given->id;
    const struct retry_filter filter = {.ids = &id, .id_count = 1, .until_ms = INT64_MAX};
    struct retry_page page;
    enum rc rc;

    forget_task(edit);
    *result = (struct task_admin_result){.id = id, .outcome = TASK_ADMIN_UNFIT};
    rc = retry_find(edit->db, edit->given->redrive, &filter, true, 1, take_task, edit, &page, err);
    if (edit->found && is_left(edit)) {
        result->state = edit->state;
        if (edit->state == TASK_RUNNING)
            result->outcome = TASK_ADMIN_RUNNING;
        return rc;
    }
    if (rc == RC_OK && edit->found)
        rc = check_edit(edit, err);
    return rc == RC_OK ? write_edit(edit, result, err) : rc;
}

/* A transaction that fails is tried again a few times. */
static enum rc edit_task(struct edit *edit, struct task_admin_result *result, struct err *err)
{
    struct backoff backoff = {.base_ms = RETRY_BASE_MS, .cap_ms = RETRY_CAP_MS};
    struct stop stop = {0};
    enum rc rc = stop_init(&stop, err);

    while (rc == RC_OK) {
        rc = try_edit(edit, result, err);
        if (rc != RC_RETRY || backoff.tries == edit->given->tries_max)
            break;
        stop_wait(&stop, backoff_next_ms(&backoff, os_random_u64()));
        rc = RC_OK;
    }
    stop_done(&stop);
    return rc;
}

enum rc task_edit_mysql(struct db *db, const struct retry_handlers *handlers,
                        const struct task_edit *given, struct task_admin_result *result,
                        struct err *err)
{
    struct edit edit = {.db = db, .handlers = handlers, .given = given};
    enum rc rc = edit_task(&edit, result, err);

    if (rc == RC_REJECT && err->code == DB_DUPLICATE)
        err_set(
            err,
            "another active task without an idempotency key does the same, or did so before it was "
            "edited");
    forget_task(&edit);
    buf_done(&edit.params);
    buf_done(&edit.options);
    buf_done(&edit.scene_options);
    return rc;
}
