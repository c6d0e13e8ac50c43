/* SPDX-License-Identifier: MIT */
#include "producer/task/operation_json.h"

#include "common/text.h"
#include "outbox/retry/retry.h"
#include "producer/task/task_json.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#define BIT(kind) (1U << (kind))
#define ANY (BIT(OPERATION_RUN_NOW) | BIT(OPERATION_CANCEL) | BIT(OPERATION_UNPARK) | CONTENT)
#define CONTENT (BIT(OPERATION_REQUEUE) | BIT(OPERATION_EDIT))

/* The body that is being read. */
struct body_check {
    struct operation_json *json;
    const char *text;
    size_t len;
    const char *field;
    struct request_fault *fault;
};

static bool fail(const struct body_check *check, enum request_fault_code code, const char *words)
{
    return request_fault_field(check->fault, check->field, code, words);
}

bool operation_json_take_reason(const json_t *value, const char **why, struct request_fault *fault)
{
    const char *text = json_string_value(value);

    if (!text)
        return request_fault_field(fault, "reason", REQUEST_FAULT_WRONG_TYPE, "must be a text");
    if (!task_json_is_text(text, OPERATION_REASON_CHARS_MAX))
        return request_fault_field(fault, "reason", REQUEST_FAULT_OUT_OF_RANGE,
                                   "must have 1 to 512 characters");
    *why = text;
    return true;
}

bool operation_json_take_by(const json_t *value, char by[OPERATION_BY_SIZE],
                            struct request_fault *fault)
{
    const char *text = json_string_value(value);
    char token[32];

    if (!text)
        return request_fault_field(fault, "by", REQUEST_FAULT_WRONG_TYPE, "must be a text");
    if (!task_json_is_text(text, OPERATION_BY_CHARS_MAX))
        return request_fault_field(fault, "by", REQUEST_FAULT_OUT_OF_RANGE,
                                   "must have 1 to 64 characters");
    snprintf(token, sizeof(token), "%s", by);
    snprintf(by, OPERATION_BY_SIZE, "%s (%s)", text, token);
    return true;
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

static bool take_force(const struct body_check *check, const json_t *value)
{
    return take_flag(check, value, &check->json->operation.force);
}

static bool take_skip(const struct body_check *check, const json_t *value)
{
    return take_flag(check, value, &check->json->operation.skip);
}

static bool take_no_params(const struct body_check *check, const json_t *value)
{
    return take_flag(check, value, &check->json->operation.no_params);
}

static void copy_value(const struct body_check *check, const json_t *value, struct buf *out)
{
    request_json_copy_member(check->text, check->len, check->field, value, out);
}

static bool take_options(const struct body_check *check, const json_t *value)
{
    struct operation_json *json = check->json;

    if (!json_is_object(value))
        return fail(check, REQUEST_FAULT_WRONG_TYPE, "must be an object");
    copy_value(check, value, &json->options);
    if (json->options.failed || json->options.len > RETRY_OPTIONS_BYTES_MAX)
        return fail(check, REQUEST_FAULT_OUT_OF_RANGE, "must have 65535 bytes at most");
    json->operation.options = buf_text(&json->options);
    return true;
}

static bool take_headers(const struct body_check *check, const json_t *value)
{
    struct operation_json *json = check->json;

    if (!json_is_object(value) && !json_is_array(value))
        return fail(check, REQUEST_FAULT_WRONG_TYPE, "must be an object or a list");
    copy_value(check, value, &json->headers);
    if (json->headers.failed || json->headers.len > RETRY_OPTIONS_BYTES_MAX)
        return fail(check, REQUEST_FAULT_OUT_OF_RANGE, "must have 65535 bytes at most");
    json->operation.headers = buf_text(&json->headers);
    return true;
}

static bool keep_params(const struct body_check *check)
{
    struct operation_json *json = check->json;

    if (json->params.failed || json->params.len > RETRY_PARAMS_BYTES_MAX)
        return fail(check, REQUEST_FAULT_OUT_OF_RANGE, "may have 16777216 bytes at most");
    json->operation.params = buf_text(&json->params);
    json->operation.params_len = json->params.len;
    return true;
}

static bool take_params(const struct body_check *check, const json_t *value)
{
    copy_value(check, value, &check->json->params);
    return keep_params(check);
}

static bool take_params_base64(const struct body_check *check, const json_t *value)
{
    struct operation_json *json = check->json;

    if (json->operation.params)
        return fail(check, REQUEST_FAULT_DUPLICATE, "excludes params");
    if (!json_is_string(value))
        return fail(check, REQUEST_FAULT_WRONG_TYPE, "must be a text");
    if (!base64_take(&json->params, json_string_value(value), json_string_length(value)))
        return fail(check, REQUEST_FAULT_OUT_OF_RANGE, "is not base64");
    return keep_params(check);
}

static const struct {
    const char *name;
    bool (*take)(const struct body_check *check, const json_t *value);
    unsigned kinds; /* that take the field */
} fields[] = {
    {"reason", take_reason, ANY},
    {"by", take_by, ANY},
    {"force", take_force, BIT(OPERATION_CANCEL)},
    {"skip", take_skip, BIT(OPERATION_UNPARK)},
    {"options", take_options, CONTENT},
    {"headers", take_headers, CONTENT},
    {"params", take_params, CONTENT},
    {"paramsBase64", take_params_base64, CONTENT},
    {"noParams", take_no_params, CONTENT},
};

#define FIELDS (sizeof(fields) / sizeof(fields[0]))

static bool check_names(struct body_check *check)
{
    enum retry_operation_kind kind = check->json->operation.kind;
    const char *name;
    json_t *value;

    json_object_foreach(check->json->tree, name, value) {
        bool known = false;

        for (size_t i = 0; i < FIELDS; i++)
            known |= strcmp(name, fields[i].name) == 0 && (fields[i].kinds & BIT(kind)) != 0;
        if (known)
            continue;
        request_fault_set(check->fault, REQUEST_FAULT_UNKNOWN, "%s has no such field",
                          retry_operation_name(kind));
        request_fault_place(check->fault, false, 0, name);
        return false;
    }
    return true;
}

/* Of the content as a whole. */
static bool check_content(const struct retry_operation *operation, struct request_fault *fault)
{
    if (operation->params && operation->no_params) {
        request_fault_set(fault, REQUEST_FAULT_DUPLICATE, "noParams excludes params");
        request_fault_place(fault, false, 0, "noParams");
        return false;
    }
    if (operation->kind == OPERATION_EDIT && !operation->options && !operation->headers &&
        !operation->params && !operation->no_params) {
        request_fault_set(fault, REQUEST_FAULT_MISSING,
                          "nothing to replace: options, headers, params, paramsBase64 or noParams "
                          "is missing");
        return false;
    }
    return true;
}

enum rc operation_json_parse(struct operation_json *json, enum retry_operation_kind kind,
                             const char *token, const char *body, size_t len,
                             struct request_fault *fault)
{
    struct body_check check = {.json = json, .text = body, .len = len, .fault = fault};
    enum rc rc;

    memset(json, 0, sizeof(*json));
    snprintf(json->by, sizeof(json->by), "token:%s", token);
    json->operation = (struct retry_operation){.kind = kind, .by = json->by, .via = "http"};
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
    return check_content(&json->operation, fault) ? RC_OK : RC_REJECT;
}

void operation_json_done(struct operation_json *json)
{
    json_decref(json->tree);
    buf_done(&json->options);
    buf_done(&json->headers);
    buf_done(&json->params);
    memset(json, 0, sizeof(*json));
}
