/* SPDX-License-Identifier: MIT */
/* The bodies that replay or drop dead records: what is accepted is bounded and selects records on
 * purpose, and what would be answered is JSON. r, d or m for the action | the body */
#include "producer/dead/dead_json.h"

#include "common/text.h"
#include "producer/task/task_json.h"
#include "tests/fuzz/fuzz.h"

#include <jansson.h>
#include <string.h>

#define TOKEN "0a1b2c3d"

static void must_be_json(struct buf *out)
{
    json_t *answer = json_loadb(out->data, out->len, JSON_REJECT_DUPLICATES, NULL);

    fuzz_must(json_is_object(answer), "an answer is JSON");
    json_decref(answer);
    buf_done(out);
}

static void check_filter(const struct dead_filter *filter, bool all)
{
    bool selects = filter->id_count > 0 || filter->topic || filter->reason_class || filter->key ||
                   filter->partition != DEAD_NUMBER_ANY || filter->since_ms != DEAD_NUMBER_ANY ||
                   filter->until_ms != DEAD_NUMBER_ANY;

    fuzz_must(selects != all, "records are selected by a filter, or all of them on purpose");
    fuzz_must(filter->id_count <= DEAD_JSON_IDS_MAX, "ids are bounded");
    for (size_t i = 0; i < filter->id_count; i++)
        fuzz_must(filter->ids[i] > 0, "an id is above 0");
    fuzz_must(filter->partition >= DEAD_NUMBER_ANY && filter->partition <= INT32_MAX,
              "a partition is bounded");
    fuzz_must(filter->since_ms >= DEAD_NUMBER_ANY && filter->until_ms >= DEAD_NUMBER_ANY,
              "times are not below 0");
    fuzz_must(!filter->topic || dead_json_is_topic(filter->topic), "a topic is a name");
    fuzz_must(!filter->reason_class || dead_json_is_class(filter->reason_class),
              "a class is a name");
    fuzz_must(!filter->key || dead_json_is_key(filter->key), "a key is a bounded text");
    fuzz_must(filter->id_max == 0 && !filter->held, "nothing else is selected");
}

static void check_operation(const struct dead_json *json, enum dead_json_kind kind)
{
    const struct dead_operation *operation = &json->operation;
    bool none = operation->filter.id_count == 0 && !operation->filter.topic &&
                !operation->filter.reason_class && !operation->filter.key;

    if (kind == DEAD_JSON_MANY) {
        check_filter(&operation->filter, operation->all);
        fuzz_must(operation->records_max >= 1 && operation->records_max <= DEAD_JSON_ROWS_MAX,
                  "the number of records is bounded");
        fuzz_must(!operation->drop || !operation->ignore_key, "a drop reads no key");
        fuzz_must(!operation->value, "many records have no one value");
    } else {
        fuzz_must(none && !operation->all && !json->dry_run, "the path selects the record");
        fuzz_must(operation->drop == (kind == DEAD_JSON_DROP), "the path names the action");
        fuzz_must(!operation->drop || (!operation->value && !operation->ignore_key),
                  "a drop applies nothing");
    }
    fuzz_must(operation->value_len <= DEAD_VALUE_BYTES_MAX, "a value is bounded");
    fuzz_must(!operation->why || task_json_is_text(operation->why, OPERATION_REASON_CHARS_MAX),
              "a reason is a bounded text");
    fuzz_must(strlen(operation->by) < OPERATION_BY_SIZE &&
                  utf8_fits(operation->by, strlen(operation->by)) &&
                  strstr(operation->by, "token:" TOKEN),
              "a name is bounded and UTF-8, and has the token");
}

/* A record made of the bytes that were sent. */
static void check_record(const struct fuzz_input *input)
{
    const struct dead_view view = {.id = 1,
                                   .topic = "t",
                                   .key = input->data,
                                   .key_len = input->size < 64 ? input->size : 64,
                                   .value = input->data,
                                   .value_len = input->size,
                                   .has_value = true,
                                   .headers = "[[\"a\", \"eA==\"], [\"b\", null]]",
                                   .time_ms = DEAD_NUMBER_ANY,
                                   .reason_class = "decode",
                                   .reason = "a test"};
    struct buf out = {0};
    json_t *answer;

    dead_json_put(&out, &view, true);
    answer = json_loadb(out.data, out.len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
    fuzz_must(json_is_object(answer), "a record is JSON");
    fuzz_must(json_is_string(json_object_get(answer, "payload")) !=
                  json_is_string(json_object_get(answer, "payloadBase64")),
              "bytes are a text or base64");
    json_decref(answer);
    buf_done(&out);
}

static void check_fault(const struct request_fault *fault)
{
    struct buf out = {0};

    fuzz_must(fault->code < REQUEST_FAULT_CODES, "a fault has its code");
    fuzz_must_be_sentence(fault->message);
    request_fault_put(&out, fault);
    must_be_json(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char kinds[] = "rdm"; /* in the order of enum dead_json_kind */
    static struct dead_json json;
    struct fuzz_input input = {data, size};
    const char *kind = strchr(kinds, fuzz_byte(&input));
    struct request_fault fault = {.code = REQUEST_FAULT_CODES};
    enum rc rc;

    if (!kind || *kind == '\0')
        return 0;
    if (input.size > 0)
        check_record(&input);
    rc = dead_json_parse(&json, (enum dead_json_kind)(kind - kinds), TOKEN,
                         input.size > 0 ? (const char *)input.data : "", input.size, &fault);
    fuzz_must(rc == RC_OK || rc == RC_REJECT, "a body is good or bad");
    if (rc == RC_OK)
        check_operation(&json, (enum dead_json_kind)(kind - kinds));
    else
        check_fault(&fault);
    dead_json_done(&json);
    return 0;
}
