/* SPDX-License-Identifier: MIT */
/* The bodies that change scenes and groups: what is accepted is what was sent, what is checked can
 * be read by the queue, and what would be answered is JSON. p, r, s, g, e or d for the change | the
 * body */
#include "producer/task/change_json.h"

#include "common/text.h"
#include "outbox/retry/clients/client.h"
#include "outbox/retry/policy/policy.h"
#include "producer/task/task_json.h"
#include "tests/fuzz/fuzz.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#define TOKEN "0a1b2c3d"

/* The text stands for the same object as the field of the body, or for null or a word. */
static void check_object(const struct change_json *json, const char *field, const char *text)
{
    const json_t *value = json_object_get(json->tree, field);
    json_t *again;

    if (json_is_null(value)) {
        fuzz_must(*text == '\0', "null removes");
        return;
    }
    if (json_is_string(value)) {
        fuzz_must(strcmp(text, json_string_value(value)) == 0, "a word is what was sent");
        return;
    }
    again = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    fuzz_must(json_is_object(again) && json_equal(again, value), "an object is what was sent");
    fuzz_must(*text == '{' && text[strlen(text) - 1] == '}', "an object has no blanks around it");
    json_decref(again);
}

static void check_values(const struct change_json *json)
{
    const struct retry_change *change = &json->change;
    const struct retry_group_values *values = &change->values;
    const struct {
        const char *field;
        const char *text;
    } texts[] = {
        {"handlers", values->handlers}, {"scenes", values->scenes},
        {"topics", values->topics},     {"route", values->route},
        {"shards", values->shards},     {"description", values->description},
    };
    bool any = values->init_scene != NULL;

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        const char *sent = json_string_value(json_object_get(json->tree, texts[i].field));

        any |= texts[i].text != NULL;
        fuzz_must((texts[i].text != NULL) == (sent != NULL), "a value is given or not");
        fuzz_must(!sent || strcmp(texts[i].text, sent) == 0, "a value is what was sent");
    }
    fuzz_must(!any || change->kind == CHANGE_GROUP_SET, "only a group has these values");
    fuzz_must((!change->policy && !change->options) || change->kind == CHANGE_SCENE_SET,
              "only a scene has a policy and options");
    if (change->policy)
        check_object(json, "policy", change->policy);
    if (change->options)
        check_object(json, "options", change->options);
    if (values->init_scene)
        check_object(json, "initScene", values->init_scene);
    any |= change->policy || change->options;
    if (change->kind == CHANGE_SCENE_SET || change->kind == CHANGE_GROUP_SET)
        fuzz_must(any && change->has_version, "a change sets something, and says on which version");
    fuzz_must(change->version >= 0, "a version is no number below zero");
    fuzz_must(!change->why || task_json_is_text(change->why, OPERATION_REASON_CHARS_MAX),
              "a reason is a bounded text");
    fuzz_must(strlen(change->by) < OPERATION_BY_SIZE && utf8_fits(change->by, strlen(change->by)) &&
                  strstr(change->by, "token:" TOKEN),
              "a name is bounded and UTF-8, and has the token");
}

static void must_be_json(struct buf *out)
{
    json_t *answer = json_loadb(out->data, out->len, JSON_REJECT_DUPLICATES, NULL);

    fuzz_must(json_is_object(answer), "an answer is JSON");
    json_decref(answer);
    buf_done(out);
}

/* The queue reads what a checked change writes. */
static void check_scene(const struct retry_change *change)
{
    struct retry_scene_view view = {.group = "default",
                                    .scene = "mail",
                                    .policy =
                                        change->policy && *change->policy ? change->policy : NULL,
                                    .options = change->options,
                                    .fault = ""};
    struct policy policy;
    struct buf out = {0};

    if (change->policy) {
        fuzz_must(policy_parse(&policy, change->policy, strlen(change->policy), NULL) == RC_OK,
                  "a checked policy can be read");
        policy_done(&policy);
    }
    change_json_put_scene(&out, &view, NULL);
    must_be_json(&out);
}

static void copy(char *to, size_t size, const char *text)
{
    fuzz_must(!text || strlen(text) < size, "a checked value fits into its column");
    snprintf(to, size, "%s", text ? text : "");
}

static void check_group(const struct retry_change *change)
{
    static struct retry_group group;
    const struct retry_group_values *values = &change->values;
    enum client_route route;
    struct err err = {0};
    struct buf out = {0};
    enum group_decision decision;

    group = (struct retry_group){.name = "default", .owner = OWNER_CLIENT, .enabled = true};
    copy(group.handlers, sizeof(group.handlers), values->handlers);
    copy(group.scenes, sizeof(group.scenes), values->scenes);
    copy(group.topics, sizeof(group.topics), values->topics);
    copy(group.init_scene, sizeof(group.init_scene), values->init_scene);
    copy(group.route, sizeof(group.route), values->route ? values->route : "lru");
    copy(group.shards, sizeof(group.shards), values->shards);
    copy(group.description, sizeof(group.description), values->description);
    fuzz_must(client_route_read(group.route, &route), "a checked route can be read");
    decision = retry_group_decide(&group, "default", OWNER_CLIENT,
                                  &(struct retry_scene_name){"mail", true}, "http", &err);
    fuzz_must(decision != GROUP_CLOSED, "a checked group is open, also with its shards");
    change_json_put_group(&out, &group);
    must_be_json(&out);
}

static void check_whole(struct change_json *json)
{
    struct retry_change *change = &json->change;
    struct buf out = {0};
    struct err err = {0};
    const char *field;
    const char *preset = change->policy ? retry_change_preset(change->policy) : NULL;
    enum rc rc;

    if (preset)
        change->policy = preset;
    rc = retry_change_check(change, &field, &err);
    fuzz_must(rc == RC_OK || rc == RC_REJECT, "a change is good or bad");
    if (rc == RC_REJECT) {
        fuzz_must_be_sentence(err.text);
        fuzz_must(field && json_object_get(json->tree, field), "the bad value was in the body");
        return;
    }
    retry_change_describe(change, &out);
    fuzz_must(!out.failed && utf8_fits(out.data ? out.data : "", out.len),
              "the audit gets a UTF-8 text");
    buf_done(&out);
    if (change->kind == CHANGE_SCENE_SET)
        check_scene(change);
    else if (change->kind == CHANGE_GROUP_SET)
        check_group(change);
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
    static const char kinds[] = "prsged"; /* in the order of enum retry_change_kind */
    struct fuzz_input input = {data, size};
    const char *kind = strchr(kinds, fuzz_byte(&input));
    struct request_fault fault = {.code = REQUEST_FAULT_CODES};
    struct change_json json;
    enum rc rc;

    if (!kind || *kind == '\0')
        return 0;
    rc = change_json_parse(&json, (enum retry_change_kind)(kind - kinds), TOKEN,
                           input.size > 0 ? (const char *)input.data : "", input.size, &fault);
    fuzz_must(rc == RC_OK || rc == RC_REJECT, "a body is good or bad");
    if (rc == RC_OK) {
        check_values(&json);
        check_whole(&json);
    } else {
        check_fault(&fault);
    }
    change_json_done(&json);
    return 0;
}
