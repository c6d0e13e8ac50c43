/* SPDX-License-Identifier: MIT */
#include "producer/task/task_json.h"

#include "common/text.h"
#include "producer/http/request_json.h"

#include <jansson.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PARSE_FLAGS (JSON_REJECT_DUPLICATES | JSON_DECODE_ANY)
#define DELAY_MS_MAX INT64_C(315360000000) /* ten years */
#define TYPE_BYTES_MAX 128
#define BINARY_TYPE "application/octet-stream"

/* The item that is being checked. */
struct item_check {
    const struct task_json *tasks;
    size_t index;
    const char *text; /* of the item */
    size_t len;
    struct task_item *item;
    struct request_fault *fault;
};

static void set_place(const struct item_check *check, const char *field)
{
    request_fault_place(check->fault, check->tasks->array, check->index, field);
}

bool task_json_is_name(const char *text, size_t bytes_max)
{
    size_t len = strlen(text);

    return len > 0 && len <= bytes_max &&
           strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.:-") ==
               len;
}

bool task_json_is_text(const char *text, size_t characters_max)
{
    size_t count = 0;

    if (!utf8_fits(text, strlen(text)))
        return false;
    for (const char *at = text; *at; at++)
        count += ((unsigned char)*at & 0xc0) != 0x80;
    return count > 0 && count <= characters_max;
}

static bool take_name(const struct item_check *check, const char *field, const json_t *value,
                      const char **place, size_t bytes_max)
{
    *place = json_string_value(value);
    if (*place && task_json_is_name(*place, bytes_max))
        return true;
    if (*place)
        request_fault_set(check->fault, REQUEST_FAULT_OUT_OF_RANGE,
                          "%s must have 1 to %zu characters of A-Z, a-z, 0-9, _ . : and -", field,
                          bytes_max);
    else
        request_fault_set(check->fault, REQUEST_FAULT_WRONG_TYPE, "%s must be a text", field);
    set_place(check, field);
    return false;
}

static bool take_text(const struct item_check *check, const char *field, const json_t *value,
                      const char **place, size_t characters_max)
{
    if (json_is_null(value))
        return true;
    *place = json_string_value(value);
    if (*place && task_json_is_text(*place, characters_max))
        return true;
    if (*place)
        request_fault_set(check->fault, REQUEST_FAULT_OUT_OF_RANGE,
                          "%s must have 1 to %zu characters", field, characters_max);
    else
        request_fault_set(check->fault, REQUEST_FAULT_WRONG_TYPE, "%s must be a text", field);
    set_place(check, field);
    return false;
}

static bool take_group(const struct item_check *check, const json_t *value)
{
    return take_name(check, "group", value, &check->item->task.group, RETRY_NAME_BYTES_MAX);
}

static bool take_scene(const struct item_check *check, const json_t *value)
{
    return take_name(check, "scene", value, &check->item->task.scene, RETRY_NAME_BYTES_MAX);
}

static bool take_handler(const struct item_check *check, const json_t *value)
{
    return take_name(check, "handler", value, &check->item->task.handler, RETRY_HANDLER_BYTES_MAX);
}

static bool take_ordering_key(const struct item_check *check, const json_t *value)
{
    return take_text(check, "orderingKey", value, &check->item->task.ordering_key,
                     RETRY_ORDERING_KEY_CHARS_MAX);
}

static bool take_idempotency_key(const struct item_check *check, const json_t *value)
{
    return take_text(check, "idempotencyKey", value, &check->item->task.idempotency_key,
                     RETRY_IDEMPOTENCY_KEY_CHARS_MAX);
}

static bool take_biz_no(const struct item_check *check, const json_t *value)
{
    return take_text(check, "bizNo", value, &check->item->task.biz_no, RETRY_BIZ_NO_CHARS_MAX);
}

/* Copies the text of the value as it was sent, so that a number keeps its digits. NULL: no
 * memory. */
static char *copy_value(const struct item_check *check, const char *field, const json_t *value)
{
    struct json_piece piece;
    char *text;

    if (json_split_member(check->text, check->len, field, &piece)) {
        text = malloc(piece.len + 1);
        if (text) {
            memcpy(text, check->text + piece.at, piece.len);
            text[piece.len] = '\0';
        }
        return text;
    }
    return json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
}

static bool take_options(const struct item_check *check, const json_t *value)
{
    struct task_item *item = check->item;

    if (!json_is_object(value)) {
        request_fault_set(check->fault, REQUEST_FAULT_WRONG_TYPE, "options must be an object");
    } else {
        item->options = copy_value(check, "options", value);
        item->task.options = item->options;
        if (item->options && strlen(item->options) <= RETRY_OPTIONS_BYTES_MAX)
            return true;
        request_fault_set(check->fault, REQUEST_FAULT_OUT_OF_RANGE,
                          "options must have %d bytes at most", RETRY_OPTIONS_BYTES_MAX);
    }
    set_place(check, "options");
    return false;
}

static bool keep_params(const struct item_check *check, const char *field)
{
    struct task_item *item = check->item;

    if (!item->params.failed && item->params.len <= RETRY_PARAMS_BYTES_MAX) {
        item->task.params = buf_text(&item->params);
        item->task.params_len = item->params.len;
        return true;
    }
    request_fault_set(check->fault, REQUEST_FAULT_OUT_OF_RANGE, "%s may have %zu bytes at most",
                      field, RETRY_PARAMS_BYTES_MAX);
    set_place(check, field);
    return false;
}

static bool take_params(const struct item_check *check, const json_t *value)
{
    char *text = copy_value(check, "params", value);

    if (text)
        buf_text_put(&check->item->params, text);
    else
        check->item->params.failed = true;
    free(text);
    return keep_params(check, "params");
}

static bool take_params_base64(const struct item_check *check, const json_t *value)
{
    struct task_item *item = check->item;

    if (item->task.params) {
        request_fault_set(check->fault, REQUEST_FAULT_DUPLICATE,
                          "params and paramsBase64 exclude each other");
    } else if (!json_is_string(value)) {
        request_fault_set(check->fault, REQUEST_FAULT_WRONG_TYPE, "paramsBase64 must be a text");
    } else if (!base64_take(&item->params, json_string_value(value), json_string_length(value))) {
        request_fault_set(check->fault, REQUEST_FAULT_OUT_OF_RANGE, "paramsBase64 is not base64");
    } else {
        if (!item->task.params_type)
            item->task.params_type = BINARY_TYPE;
        return keep_params(check, "paramsBase64");
    }
    set_place(check, "paramsBase64");
    return false;
}

static bool take_params_type(const struct item_check *check, const json_t *value)
{
    const char *type = json_string_value(value);

    if (type && *type && strlen(type) <= TYPE_BYTES_MAX) {
        check->item->task.params_type = type;
        while (*type >= 0x20 && *type < 0x7f)
            type++;
        if (!*type)
            return true;
    }
    request_fault_set(check->fault, type ? REQUEST_FAULT_OUT_OF_RANGE : REQUEST_FAULT_WRONG_TYPE,
                      "paramsType must be a text of 1 to %d printable ASCII characters",
                      TYPE_BYTES_MAX);
    set_place(check, "paramsType");
    return false;
}

static bool take_delay(const struct item_check *check, const json_t *value)
{
    json_int_t delay = json_integer_value(value);

    check->item->task.delay_ms = delay;
    if (json_is_integer(value) && delay >= 0 && delay <= DELAY_MS_MAX)
        return true;
    request_fault_set(check->fault,
                      json_is_integer(value) ? REQUEST_FAULT_OUT_OF_RANGE
                                             : REQUEST_FAULT_WRONG_TYPE,
                      "delayMs must be an integer of 0 to %lld", (long long)DELAY_MS_MAX);
    set_place(check, "delayMs");
    return false;
}

static const struct {
    const char *name;
    bool (*take)(const struct item_check *check, const json_t *value);
    bool must;
} fields[] = {
    {"group", take_group, false},
    {"scene", take_scene, true},
    {"handler", take_handler, true},
    {"orderingKey", take_ordering_key, false},
    {"idempotencyKey", take_idempotency_key, false},
    {"bizNo", take_biz_no, false},
    {"options", take_options, false},
    {"params", take_params, false},
    {"paramsType", take_params_type, false},
    {"paramsBase64", take_params_base64, false},
    {"delayMs", take_delay, false},
};

#define FIELDS (sizeof(fields) / sizeof(fields[0]))

static bool check_fields(const struct item_check *check, json_t *object)
{
    const char *name;
    json_t *value;

    json_object_foreach(object, name, value) {
        bool known = false;

        for (size_t i = 0; i < FIELDS; i++)
            known |= strcmp(name, fields[i].name) == 0;
        if (known)
            continue;
        request_fault_set(check->fault, REQUEST_FAULT_UNKNOWN, "a task has no such field");
        set_place(check, name);
        return false;
    }
    return true;
}

static bool take_item(const struct item_check *check, json_t *object)
{
    if (!json_is_object(object)) {
        request_fault_set(check->fault, REQUEST_FAULT_WRONG_TYPE, "a task must be an object");
        set_place(check, NULL);
        return false;
    }
    if (!check_fields(check, object))
        return false;
    for (size_t i = 0; i < FIELDS; i++) {
        const json_t *value = json_object_get(object, fields[i].name);

        if (value && !fields[i].take(check, value))
            return false;
        if (value || !fields[i].must)
            continue;
        request_fault_set(check->fault, REQUEST_FAULT_MISSING, "%s is missing", fields[i].name);
        set_place(check, fields[i].name);
        return false;
    }
    return true;
}

/* RC_REJECT: the item is bad; *broken: the whole body is not JSON. RC_FATAL: no memory. */
static enum rc parse_item(const struct item_check *check, size_t place, bool *broken)
{
    json_error_t error;

    check->item->tree = request_json_load(check->text, check->len, PARSE_FLAGS, &error);
    if (check->item->tree)
        return take_item(check, check->item->tree) ? RC_OK : RC_REJECT;
    switch ((int)json_error_code(&error)) {
    case json_error_out_of_memory:
        return RC_FATAL;
    case json_error_numeric_overflow:
        request_fault_set(check->fault, REQUEST_FAULT_OUT_OF_RANGE, "a number is too large");
        set_place(check, NULL);
        return RC_REJECT;
    default:
        *broken = true;
        request_fault_set(check->fault, REQUEST_FAULT_NOT_JSON, "not JSON at byte %zu: %s",
                          place + (size_t)(error.position > 0 ? error.position : 0), error.text);
        return RC_REJECT;
    }
}

static enum rc parse_items(struct task_json *tasks, struct json_split *split,
                           struct request_fault *fault)
{
    for (size_t i = 0; i < tasks->count; i++) {
        struct json_piece piece = {0, split->len};
        struct task_item *item = &tasks->items[i];
        struct item_check check = {.tasks = tasks, .index = i, .item = item, .fault = &item->fault};
        bool broken = false;
        enum rc rc;

        if (tasks->array)
            json_split_next(split, &piece);
        check.text = split->body + piece.at;
        check.len = piece.len;
        rc = parse_item(&check, piece.at, &broken);
        if (rc == RC_REJECT)
            item->bad = true;
        if (rc == RC_FATAL)
            return rc;
        if (broken || (rc == RC_REJECT && !tasks->array)) {
            *fault = item->fault;
            return RC_REJECT;
        }
    }
    return RC_OK;
}

enum rc task_json_parse(struct task_json *tasks, const char *body, size_t len,
                        struct request_fault *fault)
{
    struct json_split split = {.body = body, .len = len};
    enum rc rc = RC_OK;

    *tasks = (struct task_json){.count = 1};
    json_split_blanks(&split);
    tasks->array = split.at < len && body[split.at] == '[';
    if (tasks->array) {
        split.at++;
        rc = json_split_count(split, TASK_ITEMS_MAX, "tasks", &tasks->count, fault);
    }
    if (rc != RC_OK)
        return rc;
    tasks->items = calloc(tasks->count, sizeof(*tasks->items));
    if (!tasks->items)
        return RC_FATAL;
    return parse_items(tasks, &split, fault);
}

void task_json_done(struct task_json *tasks)
{
    for (size_t i = 0; tasks->items && i < tasks->count; i++) {
        json_decref(tasks->items[i].tree);
        free(tasks->items[i].options);
        buf_done(&tasks->items[i].params);
    }
    free(tasks->items);
    tasks->items = NULL;
}

size_t task_json_good(const struct task_json *tasks)
{
    size_t count = 0;

    for (size_t i = 0; i < tasks->count; i++)
        count += !tasks->items[i].bad;
    return count;
}

bool task_json_answer(const struct task_json *tasks, struct buf *out, struct request_fault *fault)
{
    if (tasks->array)
        buf_char(out, '[');
    for (size_t i = 0; i < tasks->count; i++) {
        const struct task_item *item = &tasks->items[i];

        if (i > 0)
            buf_char(out, ',');
        if (item->bad && !tasks->array) {
            *fault = item->fault;
            return false;
        }
        if (item->bad) {
            request_fault_put(out, &item->fault);
            continue;
        }
        buf_text_put(out, "{\"id\":");
        buf_i64(out, item->ticket.id);
        buf_text_put(out, item->ticket.existed ? ",\"existed\":true" : ",\"existed\":false");
        if (item->ticket.outcome[0])
            buf_print(out, ",\"outcome\":\"%s\"", item->ticket.outcome);
        buf_char(out, '}');
    }
    if (tasks->array)
        buf_char(out, ']');
    return true;
}

static void put_text(struct buf *out, const char *name, const char *text)
{
    buf_print(out, ",\"%s\":", name);
    if (text)
        json_text_put(out, text);
    else
        buf_text_put(out, "null");
}

static void put_number(struct buf *out, const char *name, int64_t number, bool known)
{
    buf_print(out, ",\"%s\":", name);
    if (known)
        buf_i64(out, number);
    else
        buf_text_put(out, "null");
}

static bool put_json_value(struct buf *out, const char *name, const void *text, size_t len)
{
    json_t *value = len > 0 ? request_json_load(text, len, PARSE_FLAGS, NULL) : NULL;

    if (!value)
        return false;
    json_decref(value);
    buf_print(out, ",\"%s\":", name);
    buf_put(out, text, len);
    return true;
}

static void put_answer(struct buf *out, const struct first_try_result *result)
{
    size_t len = result->answer ? result->answer_len : 0;

    if (len == 0 || len > TASK_JSON_ANSWER_BYTES_MAX) {
        buf_text_put(out, ",\"result\":null");
        return;
    }
    if (put_json_value(out, "result", result->answer, len))
        return;
    buf_text_put(out, ",\"resultBase64\":\"");
    base64_put(out, result->answer, len);
    buf_char(out, '"');
}

bool task_json_names_call(const char *options)
{
    static const char *const names[] = {"url", "urls", "path", "method", "headers"};
    json_t *object = options ? json_loads(options, 0, NULL) : NULL;
    bool found = false;

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        found = found || json_object_get(object, names[i]) != NULL;
    json_decref(object);
    return found;
}

void task_json_put_try(struct buf *out, const struct first_try_result *result)
{
    const char *outcome = result->outcome[0] ? result->outcome : result->ticket.outcome;

    buf_text_put(out, "{\"id\":");
    buf_i64(out, result->ticket.id);
    buf_text_put(out, result->ticket.existed ? ",\"existed\":true" : ",\"existed\":false");
    if (outcome[0])
        put_text(out, "outcome", outcome);
    buf_text_put(out, result->tried ? ",\"tried\":true" : ",\"tried\":false");
    put_text(out, "state",
             outcome[0]            ? outcome
             : result->state_known ? task_state_name(result->state)
                                   : NULL);
    put_number(out, "failures", result->attempts, true);
    put_text(out, "reasonClass", result->reason_class[0] ? result->reason_class : NULL);
    put_text(out, "reason", result->reason[0] ? result->reason : NULL);
    put_number(out, "nextAt", result->next_ms, result->next_ms > 0);
    if (strcmp(outcome, "done") == 0 && result->tried)
        put_answer(out, result);
    buf_char(out, '}');
}

static void put_whole(struct buf *out, const struct retry_view *view)
{
    bool json = strncmp(view->params_type, "application/json", 16) == 0;

    if (!view->options || !put_json_value(out, "options", view->options, strlen(view->options)))
        put_text(out, "options", view->options);
    put_text(out, "paramsType", view->params_type);
    if (!view->params) {
        buf_text_put(out, ",\"params\":null");
    } else if (!json || !put_json_value(out, "params", view->params, view->params_len)) {
        buf_text_put(out, ",\"paramsBase64\":\"");
        base64_put(out, view->params, view->params_len);
        buf_char(out, '"');
    }
}

void task_json_put(struct buf *out, const struct retry_view *view, bool whole)
{
    bool active = !view->outcome;

    buf_text_put(out, "{\"id\":");
    buf_i64(out, view->id);
    put_text(out, "group", view->group);
    put_text(out, "scene", view->scene);
    put_text(out, "handler", view->handler);
    put_text(out, "state", active ? task_state_name(view->state) : view->outcome);
    put_text(out, "orderingKey", view->ordering_key);
    put_text(out, "idempotencyKey", view->idempotency_key);
    put_text(out, "bizNo", view->biz_no);
    put_number(out, "failures", view->attempts, true);
    put_text(out, "reasonClass", view->reason_class[0] ? view->reason_class : NULL);
    put_text(out, "reason", view->reason[0] ? view->reason : NULL);
    put_number(out, "nextAt", view->next_ms, active && view->state == TASK_WAITING);
    put_number(out, "madeAt", view->made_ms, true);
    put_number(out, "endedAt", view->ended_ms, !active);
    put_number(out, "parentId", view->parent_id, view->parent_id != 0);
    put_number(out, "requeuedAs", view->requeued_as, view->requeued_as != 0);
    put_number(out, "step", view->step, true);
    if (whole)
        put_whole(out, view);
}

void task_json_put_attempt(struct buf *out, const struct retry_attempt_view *attempt)
{
    buf_text_put(out, "{\"at\":");
    buf_i64(out, attempt->at_ms);
    put_number(out, "tookMs", attempt->took_ms, true);
    put_text(out, "by", attempt->owner);
    put_number(out, "step", attempt->step, true);
    put_text(out, "outcome", attempt->outcome);
    put_text(out, "reasonClass", attempt->reason_class[0] ? attempt->reason_class : NULL);
    put_text(out, "reason", attempt->reason[0] ? attempt->reason : NULL);
    buf_char(out, '}');
}

static void put_some_text(struct buf *out, const char *name, const char *text)
{
    put_text(out, name, text[0] ? text : NULL);
}

void task_json_put_page_end(struct buf *out, bool more, int64_t after)
{
    buf_print(out, "],\"more\":%s", more ? "true" : "false");
    put_number(out, "after", after, more);
    buf_char(out, '}');
}

void task_json_put_action(struct buf *out, const struct retry_action_view *view)
{
    buf_text_put(out, "{\"id\":");
    buf_i64(out, view->id);
    put_number(out, "at", view->at_ms, true);
    put_text(out, "by", view->by);
    put_text(out, "via", view->via);
    put_text(out, "action", view->action);
    put_some_text(out, "group", view->group);
    put_some_text(out, "scene", view->scene);
    put_some_text(out, "what", view->what);
    put_some_text(out, "why", view->why);
    put_number(out, "changed", view->changed, view->changed >= 0);
    buf_char(out, '}');
}
