/* SPDX-License-Identifier: MIT */
#include "producer/dead/dead_json.h"

#include "common/text.h"
#include "producer/task/task_json.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TIME_MS_MAX INT64_C(253402300799999) /* the end of the year 9999 */

#define BIT(kind) (1U << (kind))
#define ONE (BIT(DEAD_JSON_REPLAY) | BIT(DEAD_JSON_DROP))
#define MANY BIT(DEAD_JSON_MANY)
#define REPLAY BIT(DEAD_JSON_REPLAY)

/* The body that is being read. */
struct body_check {
    struct dead_json *json;
    const char *text;
    size_t len;
    const char *field;
    struct request_fault *fault;
};

static bool fail(const struct body_check *check, enum request_fault_code code, const char *words)
{
    return request_fault_field(check->fault, check->field, code, words);
}

static bool take_reason(const struct body_check *check, const json_t *value)
{
    return operation_json_take_reason(value, &check->json->operation.why, check->fault);
}

static bool take_by(const struct body_check *check, const json_t *value)
{
    return operation_json_take_by(value, check->json->by, check->fault);
}

static bool take_flag(const struct body_check *check, const json_t *value, bool *flag)
{
    return request_json_take_flag(value, check->field, flag, check->fault);
}

static bool take_ignore_key(const struct body_check *check, const json_t *value)
{
    return take_flag(check, value, &check->json->operation.ignore_key);
}

static bool take_all(const struct body_check *check, const json_t *value)
{
    return take_flag(check, value, &check->json->operation.all);
}

static bool take_dry_run(const struct body_check *check, const json_t *value)
{
    return take_flag(check, value, &check->json->dry_run);
}

static bool keep_value(const struct body_check *check)
{
    struct dead_json *json = check->json;

    if (json->value.len > DEAD_VALUE_BYTES_MAX)
        return fail(check, REQUEST_FAULT_OUT_OF_RANGE, "may have 65536 bytes at most");
    json->operation.value = buf_text(&json->value);
    json->operation.value_len = json->value.len;
    return true;
}

static bool take_value(const struct body_check *check, const json_t *value)
{
    request_json_copy_member(check->text, check->len, check->field, value, &check->json->value);
    return keep_value(check);
}

static bool take_value_base64(const struct body_check *check, const json_t *value)
{
    struct dead_json *json = check->json;

    if (json->operation.value)
        return fail(check, REQUEST_FAULT_DUPLICATE, "excludes value");
    if (!json_is_string(value))
        return fail(check, REQUEST_FAULT_WRONG_TYPE, "must be a text");
    if (!base64_take(&json->value, json_string_value(value), json_string_length(value)))
        return fail(check, REQUEST_FAULT_OUT_OF_RANGE, "is not base64");
    return keep_value(check);
}

static bool take_action(const struct body_check *check, const json_t *value)
{
    const char *text = json_string_value(value);

    if (!text)
        return fail(check, REQUEST_FAULT_WRONG_TYPE, "must be a text");
    check->json->operation.drop = strcmp(text, "drop") == 0;
    if (!check->json->operation.drop && strcmp(text, "replay") != 0)
        return fail(check, REQUEST_FAULT_OUT_OF_RANGE, "must be replay or drop");
    return true;
}

static bool take_number(const struct body_check *check, const json_t *value, int64_t min,
                        int64_t max, int64_t *number)
{
    char words[80];

    if (!json_is_integer(value))
        return fail(check, REQUEST_FAULT_WRONG_TYPE, "must be an integer");
    *number = json_integer_value(value);
    if (*number >= min && *number <= max)
        return true;
    snprintf(words, sizeof(words), "must be %" PRId64 " to %" PRId64, min, max);
    return fail(check, REQUEST_FAULT_OUT_OF_RANGE, words);
}

static bool take_ids(const struct body_check *check, const json_t *value)
{
    struct dead_json *json = check->json;
    size_t count = json_array_size(value);

    if (!json_is_array(value))
        return fail(check, REQUEST_FAULT_WRONG_TYPE, "must be a list");
    if (count == 0 || count > DEAD_JSON_IDS_MAX)
        return fail(check, REQUEST_FAULT_OUT_OF_RANGE, "must have 1 to 200 ids");
    for (size_t i = 0; i < count; i++)
        if (!take_number(check, json_array_get(value, i), 1, INT64_MAX, &json->ids[i]))
            return false;
    json->operation.filter.ids = json->ids;
    json->operation.filter.id_count = count;
    return true;
}

static bool take_text(const struct body_check *check, const json_t *value,
                      bool (*is_good)(const char *text), const char *words, const char **out)
{
    *out = json_string_value(value);
    if (!*out)
        return fail(check, REQUEST_FAULT_WRONG_TYPE, "must be a text");
    return is_good(*out) || fail(check, REQUEST_FAULT_OUT_OF_RANGE, words);
}

static bool take_topic(const struct body_check *check, const json_t *value)
{
    return take_text(check, value, dead_json_is_topic, "is not the name of a topic",
                     &check->json->operation.filter.topic);
}

static bool take_class(const struct body_check *check, const json_t *value)
{
    return take_text(check, value, dead_json_is_class, "is not a class of reasons, as decode",
                     &check->json->operation.filter.reason_class);
}

static bool take_key(const struct body_check *check, const json_t *value)
{
    return take_text(check, value, dead_json_is_key, "must have 1 to 255 characters",
                     &check->json->operation.filter.key);
}

static bool take_partition(const struct body_check *check, const json_t *value)
{
    return take_number(check, value, 0, INT32_MAX, &check->json->operation.filter.partition);
}

static bool take_since(const struct body_check *check, const json_t *value)
{
    return take_number(check, value, 0, TIME_MS_MAX, &check->json->operation.filter.since_ms);
}

static bool take_until(const struct body_check *check, const json_t *value)
{
    return take_number(check, value, 0, TIME_MS_MAX, &check->json->operation.filter.until_ms);
}

static bool take_limit(const struct body_check *check, const json_t *value)
{
    int64_t limit = 0;
    bool taken = take_number(check, value, 1, DEAD_JSON_ROWS_MAX, &limit);

    check->json->operation.records_max = (uint64_t)limit;
    return taken;
}

static const struct {
    const char *name;
    bool (*take)(const struct body_check *check, const json_t *value);
    unsigned kinds; /* that take the field */
    bool selects;   /* records */
} fields[] = {
    {"reason", take_reason, ONE | MANY, false},
    {"by", take_by, ONE | MANY, false},
    {"value", take_value, REPLAY, false},
    {"valueBase64", take_value_base64, REPLAY, false},
    {"ignoreKey", take_ignore_key, REPLAY | MANY, false},
    {"action", take_action, MANY, false},
    {"all", take_all, MANY, false},
    {"limit", take_limit, MANY, false},
    {"dryRun", take_dry_run, MANY, false},
    {"ids", take_ids, MANY, true},
    {"topic", take_topic, MANY, true},
    {"partition", take_partition, MANY, true},
    {"reasonClass", take_class, MANY, true},
    {"key", take_key, MANY, true},
    {"since", take_since, MANY, true},
    {"until", take_until, MANY, true},
};

#define FIELDS (sizeof(fields) / sizeof(fields[0]))

static bool check_names(const struct body_check *check, enum dead_json_kind kind)
{
    const char *name;
    json_t *value;

    json_object_foreach(check->json->tree, name, value) {
        bool known = false;

        for (size_t i = 0; i < FIELDS; i++)
            known |= strcmp(name, fields[i].name) == 0 && (fields[i].kinds & BIT(kind)) != 0;
        if (known)
            continue;
        request_fault_set(check->fault, REQUEST_FAULT_UNKNOWN, "this action has no such field");
        request_fault_place(check->fault, false, 0, name);
        return false;
    }
    return true;
}

/* What a body for many records needs beside good fields: an empty filter must be meant. */
static bool check_many(struct body_check *check, bool selects)
{
    const struct dead_operation *operation = &check->json->operation;

    check->field = "action";
    if (!json_object_get(check->json->tree, "action"))
        return fail(check, REQUEST_FAULT_MISSING, "is missing: replay or drop");
    check->field = "ignoreKey";
    if (operation->drop && operation->ignore_key)
        return fail(check, REQUEST_FAULT_OUT_OF_RANGE, "is of no use for drop");
    check->field = "all";
    if (operation->all && selects)
        return fail(check, REQUEST_FAULT_DUPLICATE, "excludes ids and filters");
    if (operation->all || selects)
        return true;
    request_fault_set(check->fault, REQUEST_FAULT_MISSING,
                      "select records: ids, topic, partition, reasonClass, key, since or until, or "
                      "all: true");
    return false;
}

static bool take_fields(struct body_check *check, enum dead_json_kind kind)
{
    bool selects = false;

    if (!check_names(check, kind))
        return false;
    for (size_t i = 0; i < FIELDS; i++) {
        const json_t *value = json_object_get(check->json->tree, fields[i].name);

        check->field = fields[i].name;
        if (value && !fields[i].take(check, value))
            return false;
        selects |= value && fields[i].selects;
    }
    return kind != DEAD_JSON_MANY || check_many(check, selects);
}

bool dead_json_is_topic(const char *text)
{
    static const char allowed[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
    size_t len = strspn(text, allowed);

    return len > 0 && len <= DEAD_TOPIC_BYTES_MAX && text[len] == '\0';
}

bool dead_json_is_class(const char *text)
{
    size_t len = strspn(text, "abcdefghijklmnopqrstuvwxyz_");

    return len > 0 && len <= DEAD_CLASS_BYTES_MAX && text[len] == '\0';
}

bool dead_json_is_key(const char *text)
{
    return task_json_is_text(text, DEAD_KEY_CHARS_MAX);
}

enum rc dead_json_parse(struct dead_json *json, enum dead_json_kind kind, const char *token,
                        const char *body, size_t len, struct request_fault *fault)
{
    struct body_check check = {.json = json, .text = body, .len = len, .fault = fault};
    enum rc rc;

    memset(json, 0, sizeof(*json));
    snprintf(json->by, sizeof(json->by), "token:%s", token);
    json->operation = (struct dead_operation){
        .drop = kind == DEAD_JSON_DROP,
        .filter = {.partition = DEAD_NUMBER_ANY,
                   .since_ms = DEAD_NUMBER_ANY,
                   .until_ms = DEAD_NUMBER_ANY},
        .by = json->by,
        .via = "http",
        .records_max = kind == DEAD_JSON_MANY ? DEAD_JSON_ROWS : 0,
    };
    rc = request_json_load_object(body, len, &json->tree, fault);
    if (rc != RC_OK)
        return rc;
    if (!take_fields(&check, kind))
        return RC_REJECT;
    return json->value.failed ? RC_FATAL : RC_OK;
}

void dead_json_done(struct dead_json *json)
{
    json_decref(json->tree);
    buf_done(&json->value);
    memset(json, 0, sizeof(*json));
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

static void put_utf8(struct buf *out, const void *bytes, size_t len)
{
    json_t *value = json_stringn(len > 0 ? bytes : "", len);
    char *text = json_dumps(value, JSON_ENCODE_ANY);

    if (text)
        buf_text_put(out, text);
    else
        out->failed = true;
    free(text);
    json_decref(value);
}

/* Appends "name" if the bytes are UTF-8, else "nameBase64"; the other member is null. */
static void put_bytes(struct buf *out, const char *name, const void *bytes, size_t len)
{
    bool is_text = bytes && utf8_fits(bytes, len);

    buf_print(out, ",\"%s\":", name);
    if (is_text)
        put_utf8(out, bytes, len);
    else
        buf_text_put(out, "null");
    buf_print(out, ",\"%sBase64\":", name);
    if (bytes && !is_text) {
        buf_char(out, '"');
        base64_put(out, bytes, len);
        buf_char(out, '"');
    } else {
        buf_text_put(out, "null");
    }
}

static void put_header(struct buf *out, const json_t *header)
{
    const json_t *value = json_array_get(header, 1);
    const char *name = json_string_value(json_array_get(header, 0));
    struct buf bytes = {0};

    if (json_is_string(value))
        base64_take(&bytes, json_string_value(value), json_string_length(value));
    buf_text_put(out, "{\"name\":");
    json_text_put(out, name ? name : "");
    put_bytes(out, "value", json_is_string(value) ? buf_text(&bytes) : NULL, bytes.len);
    buf_char(out, '}');
    out->failed |= bytes.failed;
    buf_done(&bytes);
}

static void put_headers(struct buf *out, const char *text)
{
    json_t *headers = text ? json_loads(text, 0, NULL) : NULL;
    size_t count = json_array_size(headers);

    buf_text_put(out, ",\"headers\":[");
    for (size_t i = 0; i < count; i++) {
        if (i > 0)
            buf_char(out, ',');
        put_header(out, json_array_get(headers, i));
    }
    buf_char(out, ']');
    json_decref(headers);
}

static void put_place(struct buf *out, const char *topic, int32_t partition, int64_t offset)
{
    put_text(out, "topic", topic);
    put_number(out, "partition", partition, true);
    put_number(out, "offset", offset, true);
}

void dead_json_put(struct buf *out, const struct dead_view *view, bool whole)
{
    buf_text_put(out, "{\"id\":");
    buf_i64(out, view->id);
    put_place(out, view->topic, view->partition, view->offset);
    put_bytes(out, "key", view->key, view->key_len);
    put_text(out, "reasonClass", view->reason_class);
    put_text(out, "reason", view->reason);
    put_number(out, "diedAt", view->died_ms, true);
    put_number(out, "recordTime", view->time_ms, view->time_ms != DEAD_NUMBER_ANY);
    put_number(out, "payloadBytes", (int64_t)view->value_len, view->has_value);
    put_text(out, "decision", view->decision);
    put_number(out, "decidedAt", view->decided_ms, view->decision != NULL);
    put_text(out, "decidedBy", view->decision ? view->decided_by : NULL);
    if (whole) {
        put_headers(out, view->headers);
        put_bytes(out, "payload", view->value, view->value_len);
        put_bytes(out, "appliedValue", view->applied_value, view->applied_len);
    }
    buf_char(out, '}');
}

void dead_json_put_result(struct buf *out, const struct dead_result *result)
{
    bool stays = result->outcome == DEAD_OUTCOME_STAYS;

    buf_text_put(out, "{\"id\":");
    buf_i64(out, result->id);
    put_place(out, result->place.topic, result->place.partition, result->place.offset);
    put_text(out, "reasonClass", stays ? result->reason_class : NULL);
    put_text(out, "reason", stays ? result->reason : NULL);
    put_number(out, "behind", result->behind, result->behind != 0);
    buf_char(out, '}');
}

const char *dead_json_outcome(enum dead_outcome outcome)
{
    switch (outcome) {
    case DEAD_OUTCOME_APPLIED:
        return "applied";
    case DEAD_OUTCOME_DUPLICATE:
        return "duplicate";
    case DEAD_OUTCOME_STALE:
        return "stale";
    case DEAD_OUTCOME_DROPPED:
        return "dropped";
    case DEAD_OUTCOME_STAYS:
    case DEAD_OUTCOME_WAITS:
        break;
    }
    return NULL;
}
