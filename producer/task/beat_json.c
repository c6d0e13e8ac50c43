/* SPDX-License-Identifier: MIT */
#include "producer/task/beat_json.h"

#include "common/text.h"
#include "producer/task/task_json.h"

#include <inttypes.h>
#include <jansson.h>
#include <string.h>

/* The body that is being read. */
struct beat_check {
    struct beat_json *json;
    const char *hosts;
    const char *field;
    struct request_fault *fault;
};

static bool fail(const struct beat_check *check, enum request_fault_code code, const char *words)
{
    return request_fault_field(check->fault, check->field, code, words);
}

static bool take_group(const struct beat_check *check, const json_t *value)
{
    const char *text = json_string_value(value);

    if (!text)
        return fail(check, REQUEST_FAULT_WRONG_TYPE, "must be a text");
    if (!task_json_is_name(text, RETRY_NAME_BYTES_MAX))
        return fail(check, REQUEST_FAULT_OUT_OF_RANGE,
                    "must have 1 to 64 characters of A-Z, a-z, 0-9, _ . : and -");
    check->json->beat.group = text;
    return true;
}

static bool take_address(const struct beat_check *check, const json_t *value)
{
    const char *text = json_string_value(value);
    struct err err = {0};

    if (!text || strlen(text) != json_string_length(value))
        return fail(check, REQUEST_FAULT_WRONG_TYPE, "must be a text");
    check->json->beat.address = check->json->address;
    if (retry_client_address(check->json->address, text, check->hosts, &err) == RC_OK)
        return true;
    request_fault_set(check->fault, REQUEST_FAULT_REFUSED, "%s", err.text);
    request_fault_place(check->fault, false, 0, check->field);
    return false;
}

static bool take_version(const struct beat_check *check, const json_t *value)
{
    const char *text = json_string_value(value);

    if (!text)
        return fail(check, REQUEST_FAULT_WRONG_TYPE, "must be a text");
    if (!task_json_is_text(text, RETRY_CLIENT_VERSION_CHARS_MAX) ||
        !utf8_prints(text, strlen(text)))
        return fail(check, REQUEST_FAULT_OUT_OF_RANGE, "must have 1 to 64 printable characters");
    check->json->beat.version = text;
    return true;
}

static bool take_failed_reports(const struct beat_check *check, const json_t *value)
{
    json_int_t number = json_integer_value(value);

    if (!json_is_integer(value))
        return fail(check, REQUEST_FAULT_WRONG_TYPE, "must be a whole number");
    if (number < 0 || number > RETRY_CLIENT_REPORTS_MAX)
        return fail(check, REQUEST_FAULT_OUT_OF_RANGE, "must be 0 to 1000000000");
    check->json->beat.failed_reports = number;
    return true;
}

static const struct {
    const char *name;
    bool (*take)(const struct beat_check *check, const json_t *value);
} fields[] = {
    {"group", take_group},
    {"address", take_address},
    {"version", take_version},
    {"failedReports", take_failed_reports},
};

#define FIELDS (sizeof(fields) / sizeof(fields[0]))

static bool check_names(const struct beat_check *check)
{
    const char *name;
    json_t *value;

    json_object_foreach(check->json->tree, name, value) {
        bool known = false;

        for (size_t i = 0; i < FIELDS; i++)
            known |= strcmp(name, fields[i].name) == 0;
        if (known)
            continue;
        request_fault_set(check->fault, REQUEST_FAULT_UNKNOWN, "a beat has no such field");
        request_fault_place(check->fault, false, 0, name);
        return false;
    }
    return true;
}

enum rc beat_json_parse(struct beat_json *json, const char *hosts, const char *body, size_t len,
                        struct request_fault *fault)
{
    struct beat_check check = {.json = json, .hosts = hosts, .fault = fault};
    enum rc rc;

    memset(json, 0, sizeof(*json));
    json->beat = (struct retry_beat){.group = RETRY_GROUP_DEFAULT, .version = ""};
    rc = request_json_load_object(body, len, &json->tree, fault);
    if (rc != RC_OK)
        return rc;
    if (!check_names(&check))
        return RC_REJECT;
    for (size_t i = 0; i < FIELDS; i++) {
        const json_t *value = json_object_get(json->tree, fields[i].name);

        check.field = fields[i].name;
        if (value && !fields[i].take(&check, value))
            return RC_REJECT;
    }
    if (json->beat.address)
        return RC_OK;
    request_fault_set(fault, REQUEST_FAULT_MISSING, "address is missing");
    request_fault_place(fault, false, 0, "address");
    return RC_REJECT;
}

void beat_json_done(struct beat_json *json)
{
    json_decref(json->tree);
    memset(json, 0, sizeof(*json));
}

void beat_json_put_answer(struct buf *out, const char *config_version)
{
    buf_text_put(out, "{\"configVersion\":");
    json_text_put(out, config_version);
    buf_print(out, ",\"beatMs\":%d,\"expiresMs\":%d}", RETRY_CLIENT_BEAT_MS, RETRY_CLIENT_LIVE_MS);
}

static void put_field(struct buf *out, const char *name, const char *text)
{
    buf_print(out, ",\"%s\":", name);
    json_text_put(out, text);
}

static void put_flag(struct buf *out, const char *name, bool flag)
{
    buf_print(out, ",\"%s\":%s", name, flag ? "true" : "false");
}

static void put_number(struct buf *out, const char *name, int64_t number)
{
    buf_print(out, ",\"%s\":%" PRId64, name, number);
}

void beat_json_put_client(struct buf *out, const struct retry_client_view *view)
{
    buf_text_put(out, "{\"group\":");
    json_text_put(out, view->group);
    put_field(out, "address", view->address);
    put_field(out, "version", view->version);
    put_flag(out, "live", view->is_live);
    put_number(out, "firstBeatAt", view->first_beat_ms);
    put_number(out, "lastBeatAt", view->last_beat_ms);
    put_number(out, "expiresAt", view->expires_ms);
    put_number(out, "failedReports", view->failed_reports);
    put_field(out, "configVersion", view->config_version);
    put_flag(out, "configCurrent", view->config_is_current);
    buf_char(out, '}');
}

/* A policy that SQL has written may not be JSON. */
static void put_policy(struct buf *out, const char *policy)
{
    json_t *value = policy ? json_loads(policy, JSON_REJECT_DUPLICATES, NULL) : NULL;

    if (value)
        buf_text_put(out, policy);
    else if (policy)
        json_text_put(out, policy);
    else
        buf_text_put(out, "null");
    json_decref(value);
}

void beat_json_put_group(struct buf *out, const struct retry_group *group,
                         const char *config_version)
{
    buf_text_put(out, "{\"group\":");
    json_text_put(out, group->name);
    put_field(out, "version", config_version);
    buf_print(out, ",\"enabled\":%s", group->enabled ? "true" : "false");
    put_field(out, "handlers", group->handlers);
    put_field(out, "scenes", group->scenes);
    put_field(out, "topics", group->topics);
    put_field(out, "route", group->route);
    put_field(out, "initScene", group->init_scene[0] ? group->init_scene : RETRY_INIT_STANDARD);
    buf_text_put(out, ",\"policies\":[");
}

void beat_json_put_scene(struct buf *out, const char *scene, bool paused, const char *policy,
                         bool first)
{
    buf_text_put(out, first ? "{\"scene\":" : ",{\"scene\":");
    json_text_put(out, scene);
    buf_print(out, ",\"paused\":%s,\"policy\":", paused ? "true" : "false");
    put_policy(out, policy);
    buf_char(out, '}');
}

void beat_json_put_end(struct buf *out)
{
    buf_text_put(out, "]}");
}
