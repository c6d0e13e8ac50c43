/* SPDX-License-Identifier: MIT */
#include "producer/task/change_json.h"

#include "common/text.h"

#include <inttypes.h>
#include <jansson.h>
#include <string.h>

#define BIT(kind) (1U << (kind))
#define SCENE BIT(CHANGE_SCENE_SET)
#define GROUP BIT(CHANGE_GROUP_SET)
#define ANY (~0U)

#define PRESET "preset:"

/* The body that is being read. */
struct body_check {
    struct change_json *json;
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
    return operation_json_take_reason(value, &check->json->change.why, check->fault);
}

static bool take_by(const struct body_check *check, const json_t *value)
{
    return operation_json_take_by(value, check->json->by, check->fault);
}

static bool take_version(const struct body_check *check, const json_t *value)
{
    struct retry_change *change = &check->json->change;

    if (!json_is_integer(value))
        return fail(check, REQUEST_FAULT_WRONG_TYPE, "must be an integer");
    if (json_integer_value(value) < 0)
        return fail(check, REQUEST_FAULT_OUT_OF_RANGE, "must not be below 0");
    change->has_version = true;
    change->version = json_integer_value(value);
    return true;
}

static const char *copy_object(const struct body_check *check, const json_t *value, struct buf *out)
{
    request_json_copy_member(check->text, check->len, check->field, value, out);
    return buf_text(out);
}

static bool is_preset(const json_t *value)
{
    const char *text = json_string_value(value);

    return text && strncmp(text, PRESET, strlen(PRESET)) == 0;
}

static bool take_policy(const struct body_check *check, const json_t *value)
{
    struct change_json *json = check->json;

    if (json_is_null(value))
        json->change.policy = "";
    else if (is_preset(value))
        json->change.policy = json_string_value(value);
    else if (json_is_object(value))
        json->change.policy = copy_object(check, value, &json->policy);
    else
        return fail(check, REQUEST_FAULT_WRONG_TYPE, "must be an object, null or preset:NAME");
    return true;
}

static bool take_options(const struct body_check *check, const json_t *value)
{
    struct change_json *json = check->json;

    if (json_is_null(value))
        json->change.options = "";
    else if (json_is_object(value))
        json->change.options = copy_object(check, value, &json->options);
    else
        return fail(check, REQUEST_FAULT_WRONG_TYPE, "must be an object or null");
    return true;
}

static bool take_init_scene(const struct body_check *check, const json_t *value)
{
    struct change_json *json = check->json;

    if (json_is_string(value))
        json->change.values.init_scene = json_string_value(value);
    else if (json_is_object(value))
        json->change.values.init_scene = copy_object(check, value, &json->init_scene);
    else
        return fail(check, REQUEST_FAULT_WRONG_TYPE,
                    "must be standard, refuse, preset:NAME or a policy");
    return true;
}

static bool take_text(const struct body_check *check, const json_t *value, const char **text)
{
    *text = json_string_value(value);
    return *text || fail(check, REQUEST_FAULT_WRONG_TYPE, "must be a text");
}

static bool take_handlers(const struct body_check *check, const json_t *value)
{
    return take_text(check, value, &check->json->change.values.handlers);
}

static bool take_scenes(const struct body_check *check, const json_t *value)
{
    return take_text(check, value, &check->json->change.values.scenes);
}

static bool take_topics(const struct body_check *check, const json_t *value)
{
    return take_text(check, value, &check->json->change.values.topics);
}

static bool take_route(const struct body_check *check, const json_t *value)
{
    return take_text(check, value, &check->json->change.values.route);
}

static bool take_shards(const struct body_check *check, const json_t *value)
{
    return take_text(check, value, &check->json->change.values.shards);
}

static bool take_description(const struct body_check *check, const json_t *value)
{
    return take_text(check, value, &check->json->change.values.description);
}

static const struct {
    const char *name;
    bool (*take)(const struct body_check *check, const json_t *value);
    unsigned kinds; /* that take the field */
    bool is_value;  /* of the scene or group */
} fields[] = {
    {"reason", take_reason, ANY, false},
    {"by", take_by, ANY, false},
    {"version", take_version, SCENE | GROUP, false},
    {"policy", take_policy, SCENE, true},
    {"options", take_options, SCENE, true},
    {"handlers", take_handlers, GROUP, true},
    {"scenes", take_scenes, GROUP, true},
    {"topics", take_topics, GROUP, true},
    {"initScene", take_init_scene, GROUP, true},
    {"route", take_route, GROUP, true},
    {"shards", take_shards, GROUP, true},
    {"description", take_description, GROUP, true},
};

#define FIELDS (sizeof(fields) / sizeof(fields[0]))

static bool check_names(const struct body_check *check)
{
    enum retry_change_kind kind = check->json->change.kind;
    const char *name;
    json_t *value;

    json_object_foreach(check->json->tree, name, value) {
        bool known = false;

        for (size_t i = 0; i < FIELDS; i++)
            known |= strcmp(name, fields[i].name) == 0 && (fields[i].kinds & BIT(kind)) != 0;
        if (known)
            continue;
        request_fault_set(check->fault, REQUEST_FAULT_UNKNOWN, "%s has no such field",
                          retry_change_name(kind));
        request_fault_place(check->fault, false, 0, name);
        return false;
    }
    return true;
}

static bool check_whole(struct body_check *check, bool has_value)
{
    const struct retry_change *change = &check->json->change;

    if ((BIT(change->kind) & (SCENE | GROUP)) == 0)
        return true;
    check->field = "version";
    if (!change->has_version)
        return fail(check, REQUEST_FAULT_MISSING,
                    "is missing: that of the row which the change is based on, 0 for a new one");
    if (has_value)
        return true;
    request_fault_set(check->fault, REQUEST_FAULT_MISSING, "nothing to set: %s is missing",
                      change->kind == CHANGE_SCENE_SET
                          ? "policy or options"
                          : "handlers, scenes, topics, initScene, route, shards or description");
    return false;
}

static bool take_fields(struct body_check *check)
{
    bool has_value = false;

    if (!check_names(check))
        return false;
    for (size_t i = 0; i < FIELDS; i++) {
        const json_t *value = json_object_get(check->json->tree, fields[i].name);

        check->field = fields[i].name;
        if (value && !fields[i].take(check, value))
            return false;
        has_value |= value && fields[i].is_value;
    }
    return check_whole(check, has_value);
}

enum rc change_json_parse(struct change_json *json, enum retry_change_kind kind, const char *token,
                          const char *body, size_t len, struct request_fault *fault)
{
    struct body_check check = {.json = json, .text = body, .len = len, .fault = fault};
    enum rc rc;

    memset(json, 0, sizeof(*json));
    snprintf(json->by, sizeof(json->by), "token:%s", token);
    json->change = (struct retry_change){.kind = kind, .by = json->by, .via = "http"};
    rc = request_json_load_object(body, len, &json->tree, fault);
    if (rc != RC_OK)
        return rc;
    if (!take_fields(&check))
        return RC_REJECT;
    return json->policy.failed || json->options.failed || json->init_scene.failed ? RC_FATAL
                                                                                  : RC_OK;
}

void change_json_done(struct change_json *json)
{
    json_decref(json->tree);
    buf_done(&json->policy);
    buf_done(&json->options);
    buf_done(&json->init_scene);
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

/* A text that SQL wrote may be no JSON. */
static void put_object(struct buf *out, const char *name, const char *text)
{
    json_t *value = text ? json_loads(text, JSON_REJECT_DUPLICATES, NULL) : NULL;

    if (json_is_object(value)) {
        buf_print(out, ",\"%s\":", name);
        buf_text_put(out, text);
    } else {
        put_text(out, name, text);
    }
    json_decref(value);
}

static void put_flag(struct buf *out, const char *name, bool flag)
{
    buf_print(out, ",\"%s\":%s", name, flag ? "true" : "false");
}

void change_json_put_scene(struct buf *out, const struct retry_scene_view *view,
                           const struct retry_scene_counts *counts)
{
    buf_text_put(out, "{\"group\":");
    json_text_put(out, view->group);
    put_text(out, "scene", view->scene);
    buf_print(out, ",\"version\":%" PRId64, view->version);
    put_flag(out, "paused", view->paused);
    put_object(out, "policy", view->policy);
    put_object(out, "options", view->options);
    put_text(out, "fault", view->fault[0] ? view->fault : NULL);
    if (counts)
        buf_print(out,
                  ",\"tasks\":{\"active\":%" PRId64 ",\"queued\":%" PRId64 ",\"blocked\":%" PRId64
                  ",\"parked\":%" PRId64 "}",
                  counts->active, counts->queued, counts->blocked, counts->parked);
    buf_char(out, '}');
}

void change_json_put_group(struct buf *out, const struct retry_group *group)
{
    buf_text_put(out, "{\"group\":");
    json_text_put(out, group->name);
    put_text(out, "owner", retry_owner_name(group->owner));
    put_flag(out, "enabled", group->enabled);
    buf_print(out, ",\"version\":%" PRId64, group->version);
    put_text(out, "handlers", group->handlers);
    put_text(out, "scenes", group->scenes);
    put_text(out, "topics", group->topics);
    put_object(out, "initScene", group->init_scene[0] ? group->init_scene : RETRY_INIT_STANDARD);
    put_text(out, "route", group->route);
    put_text(out, "shards", group->shards);
    put_text(out, "description", group->description);
    buf_char(out, '}');
}
