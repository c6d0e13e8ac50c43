/* SPDX-License-Identifier: MIT */
#include "common/id.h"
#include "producer/http/api_answer.h"
#include "producer/http/api_routes.h"
#include "producer/task/change_json.h"
#include "producer/task/task_json.h"

#include <stdio.h>
#include <string.h>

#define LIST_ROWS 50
#define LIST_ROWS_MAX 200
#define FULL_WAIT_MS 5000

struct scenes_call {
    struct api_pending pending; /* first */
    struct change_json json;
    /* What the request points to. */
    char group[RETRY_NAME_BYTES_MAX + 1];
    char scene[RETRY_NAME_BYTES_MAX + 1];
    char after_group[RETRY_NAME_BYTES_MAX + 1];
    char after_scene[RETRY_NAME_BYTES_MAX + 1];
};

static void answer_call(struct api_pending *pending)
{
    struct task_intake_request *request = &pending->request.tasks;

    if (request->failed)
        api_answer_fault(pending->http, &request->fault, FULL_WAIT_MS);
    else
        api_answer(pending->http, 200, &request->body);
}

static void free_call(struct api_pending *pending)
{
    change_json_done(&((struct scenes_call *)pending)->json);
    buf_done(&pending->request.tasks.body);
}

static const struct api_pending_kind change_kind = {
    .answer = answer_call,
    .done = free_call,
    .unknown = "the change may have been made, and sending it again is harmless",
};

static const struct api_pending_kind find_kind = {.answer = answer_call, .done = free_call};

static bool keep_name(char *place, const char *text, const char **out)
{
    if (!text)
        return true;
    if (!task_json_is_name(text, RETRY_NAME_BYTES_MAX))
        return false;
    snprintf(place, RETRY_NAME_BYTES_MAX + 1, "%s", text);
    *out = place;
    return true;
}

static void put_call(const struct api_config *config, struct scenes_call *call)
{
    call->pending.request.tasks.entry.weight = 1;
    api_pending_put(&call->pending, config->tasks, queue_shard_least(config->tasks));
}

/* Takes group and scene out of the path. NULL: they are no names, or there was no memory, which
 * has been answered. */
static struct scenes_call *make_call(const struct api_call *api_call,
                                     const struct api_pending_kind *kind,
                                     enum task_intake_kind intake, bool has_scene)
{
    struct scenes_call *call = api_pending_make(api_call->http, kind, sizeof(*call));
    struct retry_scene_filter *scenes;

    if (!call)
        return NULL;
    call->pending.request.tasks.kind = intake;
    scenes = &call->pending.request.tasks.scenes;
    if (keep_name(call->group, api_call->id, &scenes->group) &&
        (!has_scene || keep_name(call->scene, api_call->second, &scenes->scene)))
        return call;
    api_answer_bad(api_call->http, REQUEST_FAULT_OUT_OF_RANGE, NULL,
                   "groups and scenes in the path have names of 1 to 64 characters A-Z, a-z, 0-9, "
                   "_, ., : and -");
    api_pending_free(&call->pending);
    return NULL;
}

/* False: the word of a preset names none. */
static bool resolve_preset(const char **text, const char *field, struct request_fault *fault)
{
    const char *json;

    if (!*text || strncmp(*text, "preset:", strlen("preset:")) != 0)
        return true;
    json = retry_change_preset(*text);
    if (json)
        *text = json;
    else
        request_fault_set(fault, REQUEST_FAULT_OUT_OF_RANGE, "there is no policy %.60s", *text);
    if (!json)
        request_fault_place(fault, false, 0, field);
    return json != NULL;
}

static enum rc check_change(struct retry_change *change, struct request_fault *fault)
{
    const char *field;
    struct err err = {0};
    enum rc rc;

    if (!resolve_preset(&change->policy, "policy", fault) ||
        !resolve_preset(&change->values.init_scene, "initScene", fault))
        return RC_REJECT;
    rc = retry_change_check(change, &field, &err);
    if (rc != RC_REJECT)
        return rc;
    request_fault_set(fault, REQUEST_FAULT_OUT_OF_RANGE, "%s", err.text);
    if (field)
        request_fault_place(fault, false, 0, field);
    return rc;
}

static void change(const struct api_config *config, const struct api_call *api_call,
                   enum retry_change_kind kind, bool has_scene)
{
    struct http_request *http = api_call->http;
    struct scenes_call *call = make_call(api_call, &change_kind, TASK_INTAKE_CHANGE, has_scene);
    struct request_fault fault;
    const char *body;
    size_t len;
    enum rc rc;

    if (!call)
        return;
    body = http_body(http, &len);
    rc = change_json_parse(&call->json, kind, http_scopes(http)->token, body, len, &fault);
    if (rc == RC_OK)
        rc = check_change(&call->json.change, &fault);
    if (rc == RC_OK) {
        call->json.change.group = call->group;
        call->json.change.scene = has_scene ? call->scene : NULL;
        call->pending.request.tasks.change = &call->json.change;
        put_call(config, call);
        return;
    }
    if (rc == RC_REJECT)
        api_answer_fault(http, &fault, 0);
    else
        api_answer_no_memory(http);
    api_pending_free(&call->pending);
}

/* "GROUP/SCENE", where a page ended. */
static bool keep_place(struct scenes_call *call, const char *text)
{
    struct retry_scene_filter *scenes = &call->pending.request.tasks.scenes;
    char group[RETRY_NAME_BYTES_MAX + 1] = "";
    size_t len;

    if (!text)
        return true;
    len = strcspn(text, "/");
    if (text[len] == '\0' || len >= sizeof(group))
        return false;
    memcpy(group, text, len);
    return keep_name(call->after_group, group, &scenes->after_group) &&
           keep_name(call->after_scene, text + len + 1, &scenes->after_scene);
}

static bool keep_limit(struct scenes_call *call, const char *text)
{
    int64_t limit = LIST_ROWS;

    if (text && (!id_parse_number(text, strlen(text), &limit) || limit > LIST_ROWS_MAX))
        return false;
    call->pending.request.tasks.rows_max = (size_t)limit;
    return true;
}

static const char *read_scenes_query(struct scenes_call *call, const char *const *parameters)
{
    struct retry_scene_filter *scenes = &call->pending.request.tasks.scenes;

    if (!keep_name(call->group, parameters[API_GROUP], &scenes->group))
        return "group";
    if (!keep_limit(call, parameters[API_LIMIT]))
        return "limit";
    return keep_place(call, parameters[API_AFTER_SCENE]) ? NULL : "after";
}

static const char *read_groups_query(struct scenes_call *call, const char *const *parameters)
{
    struct retry_scene_filter *scenes = &call->pending.request.tasks.scenes;

    if (!keep_limit(call, parameters[API_LIMIT]))
        return "limit";
    return keep_name(call->after_group, parameters[API_AFTER_GROUP], &scenes->after_group)
               ? NULL
               : "after";
}

static void list(const struct api_config *config, const struct api_call *api_call,
                 enum task_intake_kind intake)
{
    struct scenes_call *call = api_pending_make(api_call->http, &find_kind, sizeof(*call));
    const char *bad;

    if (!call)
        return;
    call->pending.request.tasks.kind = intake;
    bad = intake == TASK_INTAKE_SCENES ? read_scenes_query(call, api_call->parameters)
                                       : read_groups_query(call, api_call->parameters);
    if (!bad) {
        put_call(config, call);
        return;
    }
    api_answer_bad(api_call->http, REQUEST_FAULT_OUT_OF_RANGE, bad,
                   "group is a name, limit is 1 to 200, after is that of the page before");
    api_pending_free(&call->pending);
}

static void show(const struct api_config *config, const struct api_call *api_call,
                 enum task_intake_kind intake, bool has_scene)
{
    struct scenes_call *call = make_call(api_call, &find_kind, intake, has_scene);

    if (!call)
        return;
    call->pending.request.tasks.rows_max = 1;
    put_call(config, call);
}

void api_get_scenes(const struct api_config *config, const struct api_call *call)
{
    list(config, call, TASK_INTAKE_SCENES);
}

void api_get_scene(const struct api_config *config, const struct api_call *call)
{
    show(config, call, TASK_INTAKE_SCENES, true);
}

void api_patch_scene(const struct api_config *config, const struct api_call *call)
{
    change(config, call, CHANGE_SCENE_SET, true);
}

void api_pause_scene(const struct api_config *config, const struct api_call *call)
{
    change(config, call, CHANGE_SCENE_PAUSE, true);
}

void api_resume_scene(const struct api_config *config, const struct api_call *call)
{
    change(config, call, CHANGE_SCENE_RESUME, true);
}

void api_get_groups(const struct api_config *config, const struct api_call *call)
{
    list(config, call, TASK_INTAKE_GROUPS);
}

void api_get_group(const struct api_config *config, const struct api_call *call)
{
    show(config, call, TASK_INTAKE_GROUPS, false);
}

void api_patch_group(const struct api_config *config, const struct api_call *call)
{
    change(config, call, CHANGE_GROUP_SET, false);
}

void api_enable_group(const struct api_config *config, const struct api_call *call)
{
    change(config, call, CHANGE_GROUP_ENABLE, false);
}

void api_disable_group(const struct api_config *config, const struct api_call *call)
{
    change(config, call, CHANGE_GROUP_DISABLE, false);
}
