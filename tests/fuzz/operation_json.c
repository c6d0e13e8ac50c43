/* SPDX-License-Identifier: MIT */
/* The bodies of operators' actions on tasks: what is accepted is what the action takes, and content
 * is the text that was sent. r, c, u, q or e for the action | the body */
#include "producer/task/operation_json.h"

#include "common/text.h"
#include "outbox/retry/retry.h"
#include "producer/task/task_json.h"
#include "tests/fuzz/fuzz.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define TOKEN "0a1b2c3d"
#define BY_END "token:" TOKEN

/* The text stands for the same value as the field of the body. */
static void check_value(const struct operation_json *json, const char *field, const void *text,
                        size_t len)
{
    json_t *again = json_loadb(text, len, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, NULL);

    fuzz_must(again && json_equal(again, json_object_get(json->tree, field)),
              "content is what was sent");
    fuzz_must(len == 0 || strchr(" \t\r\n", ((const char *)text)[0]) == NULL,
              "content begins with its value");
    json_decref(again);
}

static void check_content(const struct operation_json *json)
{
    const struct retry_operation *operation = &json->operation;
    bool content = operation->kind == OPERATION_REQUEUE || operation->kind == OPERATION_EDIT;
    bool any =
        operation->options || operation->headers || operation->params || operation->no_params;

    fuzz_must(content || !any, "only these actions take content");
    fuzz_must(any || operation->kind != OPERATION_EDIT, "an edit replaces something");
    fuzz_must(!operation->params || !operation->no_params, "params are given or taken away");
    fuzz_must(operation->params_len <= RETRY_PARAMS_BYTES_MAX, "params are bounded");
    if (operation->options)
        check_value(json, "options", operation->options, strlen(operation->options));
    if (operation->headers)
        check_value(json, "headers", operation->headers, strlen(operation->headers));
    if (operation->params && json_object_get(json->tree, "params"))
        check_value(json, "params", operation->params, operation->params_len);
}

static void check_names(const struct retry_operation *operation)
{
    size_t len = strlen(operation->by);

    fuzz_must(len < OPERATION_BY_SIZE && len >= strlen(BY_END) && utf8_fits(operation->by, len),
              "a name is bounded and UTF-8");
    if (operation->by[len - 1] == ')')
        fuzz_must(strcmp(operation->by + len - strlen("(" BY_END ")"), "(" BY_END ")") == 0,
                  "the token is behind the name");
    else
        fuzz_must(strcmp(operation->by, BY_END) == 0, "without a name there is the token");
    fuzz_must(!operation->why || task_json_is_text(operation->why, OPERATION_REASON_CHARS_MAX),
              "a reason is a bounded text");
}

static void check_fault(const struct request_fault *fault)
{
    struct buf out = {0};
    json_t *answer;

    fuzz_must(fault->code < REQUEST_FAULT_CODES, "a fault has its code");
    fuzz_must_be_sentence(fault->message);
    request_fault_put(&out, fault);
    answer = json_loadb(out.data, out.len, JSON_REJECT_DUPLICATES, NULL);
    fuzz_must(json_is_object(answer), "a fault's answer is JSON, also with a field of the client");
    json_decref(answer);
    buf_done(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char kinds[] = "rcuqe"; /* in the order of enum retry_operation_kind */
    struct fuzz_input input = {data, size};
    const char *kind = strchr(kinds, fuzz_byte(&input));
    struct request_fault fault = {.code = REQUEST_FAULT_CODES};
    struct operation_json json;
    enum rc rc;

    if (!kind || *kind == '\0')
        return 0;
    rc = operation_json_parse(&json, (enum retry_operation_kind)(kind - kinds), TOKEN,
                              input.size > 0 ? (const char *)input.data : "", input.size, &fault);
    fuzz_must(rc == RC_OK || rc == RC_REJECT, "a body is good or bad");
    if (rc == RC_OK) {
        fuzz_must(!json.operation.force || *kind == 'c', "only cancel takes force");
        fuzz_must(!json.operation.skip || *kind == 'u', "only unpark takes skip");
        check_names(&json.operation);
        check_content(&json);
    } else {
        check_fault(&fault);
    }
    operation_json_done(&json);
    return 0;
}
