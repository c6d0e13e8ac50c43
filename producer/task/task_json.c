/* SPDX-License-Identifier: MIT */
#include "producer/task/task_json.h"

#include "common/base64.h"
#include "common/utf8.h"
#include "producer/http/json_split.h"

#include <jansson.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PARSE_FLAGS (JSON_REJECT_DUPLICATES | JSON_DECODE_ANY)
#define DELAY_MS_MAX INT64_C(315360000000) /* ten years */
#define TYPE_BYTES_MAX 128
#define BINARY_TYPE "application/octet-stream"

/* One item under inspection. */
struct look {
    const struct task_json *tasks;
    size_t index;
    const char *text; /* of the item */
    size_t len;
    struct task_item *item;
    struct request_fault *fault;
};

static void place_set(const struct look *look, const char *field)
{
    request_fault_place(look->fault, look->tasks->array, look->index, field);
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

static bool name_take(const struct look *look, const char *field, const json_t *value,
                      const char **place, size_t bytes_max)
{
    *place = json_string_value(value);
    if (*place && task_json_is_name(*place, bytes_max))
        return true;
    if (*place)
        request_fault_set(look->fault, REQUEST_FAULT_OUT_OF_RANGE,
                          "%s must have 1 to %zu characters of A-Z, a-z, 0-9, _ . : and -", field,
                          bytes_max);
    else
        request_fault_set(look->fault, REQUEST_FAULT_WRONG_TYPE, "%s must be a text", field);
    place_set(look, field);
    return false;
}

static bool text_take(const struct look *look, const char *field, const json_t *value,
                      const char **place, size_t characters_max)
{
    if (json_is_null(value))
        return true;
    *place = json_string_value(value);
    if (*place && task_json_is_text(*place, characters_max))
        return true;
    if (*place)
        request_fault_set(look->fault, REQUEST_FAULT_OUT_OF_RANGE,
                          "%s must have 1 to %zu characters", field, characters_max);
    else
        request_fault_set(look->fault, REQUEST_FAULT_WRONG_TYPE, "%s must be a text", field);
    place_set(look, field);
    return false;
}

static bool group_take(const struct look *look, const json_t *value)
{
    return name_take(look, "group", value, &look->item->task.group, RETRY_NAME_BYTES_MAX);
}

static bool scene_take(const struct look *look, const json_t *value)
{
    return name_take(look, "scene", value, &look->item->task.scene, RETRY_NAME_BYTES_MAX);
}

static bool handler_take(const struct look *look, const json_t *value)
{
    return name_take(look, "handler", value, &look->item->task.handler, RETRY_HANDLER_BYTES_MAX);
}

static bool ordering_key_take(const struct look *look, const json_t *value)
{
    return text_take(look, "orderingKey", value, &look->item->task.ordering_key,
                     RETRY_ORDERING_KEY_CHARS_MAX);
}

static bool idempotency_key_take(const struct look *look, const json_t *value)
{
    return text_take(look, "idempotencyKey", value, &look->item->task.idempotency_key,
                     RETRY_IDEMPOTENCY_KEY_CHARS_MAX);
}

static bool biz_no_take(const struct look *look, const json_t *value)
{
    return text_take(look, "bizNo", value, &look->item->task.biz_no, RETRY_BIZ_NO_CHARS_MAX);
}

/* What is written into the database is the value's own text: a number keeps its digits. */
static char *value_text(const struct look *look, const char *field, const json_t *value)
{
    struct json_piece piece;
    char *text;

    if (json_split_member(look->text, look->len, field, &piece)) {
        text = malloc(piece.len + 1);
        if (text) {
            memcpy(text, look->text + piece.at, piece.len);
            text[piece.len] = '\0';
        }
        return text;
    }
    return json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
}

static bool options_take(const struct look *look, const json_t *value)
{
    struct task_item *item = look->item;

    if (!json_is_object(value)) {
        request_fault_set(look->fault, REQUEST_FAULT_WRONG_TYPE, "options must be an object");
    } else {
        item->options = value_text(look, "options", value);
        item->task.options = item->options;
        if (item->options && strlen(item->options) <= RETRY_OPTIONS_BYTES_MAX)
            return true;
        request_fault_set(look->fault, REQUEST_FAULT_OUT_OF_RANGE,
                          "options must have %d bytes at most", RETRY_OPTIONS_BYTES_MAX);
    }
    place_set(look, "options");
    return false;
}

static bool params_keep(const struct look *look, const char *field)
{
    struct task_item *item = look->item;

    if (!item->params.failed && item->params.len <= RETRY_PARAMS_BYTES_MAX) {
        item->task.params = buf_text(&item->params);
        item->task.params_len = item->params.len;
        return true;
    }
    request_fault_set(look->fault, REQUEST_FAULT_OUT_OF_RANGE,
                      "%s must stand for %zu bytes at most", field, RETRY_PARAMS_BYTES_MAX);
    place_set(look, field);
    return false;
}

static bool params_take(const struct look *look, const json_t *value)
{
    char *text = value_text(look, "params", value);

    if (text)
        buf_text_put(&look->item->params, text);
    else
        look->item->params.failed = true;
    free(text);
    return params_keep(look, "params");
}

static bool params_base64_take(const struct look *look, const json_t *value)
{
    struct task_item *item = look->item;

    if (item->task.params) {
        request_fault_set(look->fault, REQUEST_FAULT_DUPLICATE,
                          "there may be params or paramsBase64, not both");
    } else if (!json_is_string(value)) {
        request_fault_set(look->fault, REQUEST_FAULT_WRONG_TYPE, "paramsBase64 must be a text");
    } else if (!base64_take(&item->params, json_string_value(value), json_string_length(value))) {
        request_fault_set(look->fault, REQUEST_FAULT_OUT_OF_RANGE, "paramsBase64 is no base64");
    } else {
        if (!item->task.params_type)
            item->task.params_type = BINARY_TYPE;
        return params_keep(look, "paramsBase64");
    }
    place_set(look, "paramsBase64");
    return false;
}

static bool params_type_take(const struct look *look, const json_t *value)
{
    const char *type = json_string_value(value);

    if (type && *type && strlen(type) <= TYPE_BYTES_MAX) {
        look->item->task.params_type = type;
        while (*type >= 0x20 && *type < 0x7f)
            type++;
        if (!*type)
            return true;
    }
    request_fault_set(look->fault, type ? REQUEST_FAULT_OUT_OF_RANGE : REQUEST_FAULT_WRONG_TYPE,
                      "paramsType must be a text of 1 to %d printable ASCII characters",
                      TYPE_BYTES_MAX);
    place_set(look, "paramsType");
    return false;
}

static bool delay_take(const struct look *look, const json_t *value)
{
    json_int_t delay = json_integer_value(value);

    look->item->task.delay_ms = delay;
    if (json_is_integer(value) && delay >= 0 && delay <= DELAY_MS_MAX)
        return true;
    request_fault_set(
        look->fault, json_is_integer(value) ? REQUEST_FAULT_OUT_OF_RANGE : REQUEST_FAULT_WRONG_TYPE,
        "delayMs must be an integer of 0 to %lld", (long long)DELAY_MS_MAX);
    place_set(look, "delayMs");
    return false;
}

static const struct {
    const char *name;
    bool (*take)(const struct look *look, const json_t *value);
    bool must;
} fields[] = {
    {"group", group_take, false},
    {"scene", scene_take, true},
    {"handler", handler_take, true},
    {"orderingKey", ordering_key_take, false},
    {"idempotencyKey", idempotency_key_take, false},
    {"bizNo", biz_no_take, false},
    {"options", options_take, false},
    {"params", params_take, false},
    {"paramsType", params_type_take, false},
    {"paramsBase64", params_base64_take, false},
    {"delayMs", delay_take, false},
};

#define FIELDS (sizeof(fields) / sizeof(fields[0]))

static bool fields_known(const struct look *look, json_t *object)
{
    const char *name;
    json_t *value;

    json_object_foreach(object, name, value) {
        bool known = false;

        for (size_t i = 0; i < FIELDS; i++)
            known |= strcmp(name, fields[i].name) == 0;
        if (known)
            continue;
        request_fault_set(look->fault, REQUEST_FAULT_UNKNOWN, "a task has no such field");
        place_set(look, name);
        return false;
    }
    return true;
}

static bool item_take(const struct look *look, json_t *object)
{
    if (!json_is_object(object)) {
        request_fault_set(look->fault, REQUEST_FAULT_WRONG_TYPE, "a task must be an object");
        place_set(look, NULL);
        return false;
    }
    if (!fields_known(look, object))
        return false;
    for (size_t i = 0; i < FIELDS; i++) {
        const json_t *value = json_object_get(object, fields[i].name);

        if (value && !fields[i].take(look, value))
            return false;
        if (value || !fields[i].must)
            continue;
        request_fault_set(look->fault, REQUEST_FAULT_MISSING, "%s is missing", fields[i].name);
        place_set(look, fields[i].name);
        return false;
    }
    return true;
}

/* False: it is bad; *broken: not it alone, for the whole body is no JSON. RC_FATAL: no memory. */
static enum rc item_parse(const struct look *look, size_t place, bool *broken)
{
    json_error_t error;

    look->item->tree = json_loadb(look->text, look->len, PARSE_FLAGS, &error);
    if (look->item->tree)
        return item_take(look, look->item->tree) ? RC_OK : RC_REJECT;
    switch ((int)json_error_code(&error)) {
    case json_error_out_of_memory:
        return RC_FATAL;
    case json_error_numeric_overflow:
        request_fault_set(look->fault, REQUEST_FAULT_OUT_OF_RANGE, "a number is too large");
        place_set(look, NULL);
        return RC_REJECT;
    default:
        *broken = true;
        request_fault_set(look->fault, REQUEST_FAULT_NOT_JSON, "not JSON at byte %zu: %s",
                          place + (size_t)(error.position > 0 ? error.position : 0), error.text);
        return RC_REJECT;
    }
}

static enum rc items_parse(struct task_json *tasks, struct json_split *split,
                           struct request_fault *fault)
{
    for (size_t i = 0; i < tasks->count; i++) {
        struct json_piece piece = {0, split->len};
        struct task_item *item = &tasks->items[i];
        struct look look = {.tasks = tasks, .index = i, .item = item, .fault = &item->fault};
        bool broken = false;
        enum rc rc;

        if (tasks->array)
            json_split_next(split, &piece);
        look.text = split->body + piece.at;
        look.len = piece.len;
        rc = item_parse(&look, piece.at, &broken);
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
    return items_parse(tasks, &split, fault);
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
        buf_text_put(out, item->ticket.existed ? ",\"existed\":true}" : ",\"existed\":false}");
    }
    if (tasks->array)
        buf_char(out, ']');
    return true;
}

static void text_put(struct buf *out, const char *name, const char *text)
{
    buf_print(out, ",\"%s\":", name);
    if (text)
        request_fault_put_text(out, text);
    else
        buf_text_put(out, "null");
}

static void number_put(struct buf *out, const char *name, int64_t number, bool known)
{
    buf_print(out, ",\"%s\":", name);
    if (known)
        buf_i64(out, number);
    else
        buf_text_put(out, "null");
}

static bool json_value_put(struct buf *out, const char *name, const void *text, size_t len)
{
    json_t *value = len > 0 ? json_loadb(text, len, PARSE_FLAGS, NULL) : NULL;

    if (!value)
        return false;
    json_decref(value);
    buf_print(out, ",\"%s\":", name);
    buf_put(out, text, len);
    return true;
}

static void whole_put(struct buf *out, const struct retry_view *view)
{
    bool json = strncmp(view->params_type, "application/json", 16) == 0;

    if (!view->options || !json_value_put(out, "options", view->options, strlen(view->options)))
        text_put(out, "options", view->options);
    text_put(out, "paramsType", view->params_type);
    if (!view->params) {
        buf_text_put(out, ",\"params\":null");
    } else if (!json || !json_value_put(out, "params", view->params, view->params_len)) {
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
    text_put(out, "group", view->group);
    text_put(out, "scene", view->scene);
    text_put(out, "handler", view->handler);
    text_put(out, "state", active ? task_state_name(view->state) : view->outcome);
    text_put(out, "orderingKey", view->ordering_key);
    text_put(out, "idempotencyKey", view->idempotency_key);
    text_put(out, "bizNo", view->biz_no);
    number_put(out, "failures", view->attempts, true);
    text_put(out, "reasonClass", view->reason_class[0] ? view->reason_class : NULL);
    text_put(out, "reason", view->reason[0] ? view->reason : NULL);
    number_put(out, "nextAt", view->next_ms, active && view->state == TASK_WAITING);
    number_put(out, "madeAt", view->made_ms, true);
    number_put(out, "endedAt", view->ended_ms, !active);
    number_put(out, "parentId", view->parent_id, view->parent_id != 0);
    number_put(out, "requeuedAs", view->requeued_as, view->requeued_as != 0);
    number_put(out, "step", view->step, true);
    if (whole)
        whole_put(out, view);
}

void task_json_put_attempt(struct buf *out, const struct retry_attempt_view *attempt)
{
    buf_text_put(out, "{\"at\":");
    buf_i64(out, attempt->at_ms);
    number_put(out, "tookMs", attempt->took_ms, true);
    text_put(out, "by", attempt->owner);
    number_put(out, "step", attempt->step, true);
    text_put(out, "outcome", attempt->outcome);
    text_put(out, "reasonClass", attempt->reason_class[0] ? attempt->reason_class : NULL);
    text_put(out, "reason", attempt->reason[0] ? attempt->reason : NULL);
    buf_char(out, '}');
}
