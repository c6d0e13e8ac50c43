/* SPDX-License-Identifier: MIT */
#include "outbox/retry/retry.h"

#include "common/nearest.h"
#include "outbox/retry/handler.h"

#include <ctype.h>
#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static const char *const owner_names[RETRY_OWNERS] = {
    [OWNER_CLIENT] = "client",
    [OWNER_RELAY] = "relay",
    [OWNER_CONSUMER] = "consumer",
};

const char *retry_owner_name(enum retry_owner owner)
{
    return (unsigned)owner < RETRY_OWNERS ? owner_names[owner] : "unknown";
}

bool retry_owner_read(const char *name, size_t len, enum retry_owner *owner)
{
    for (unsigned i = 0; i < RETRY_OWNERS; i++) {
        if (strlen(owner_names[i]) == len && memcmp(owner_names[i], name, len) == 0) {
            *owner = (enum retry_owner)i;
            return true;
        }
    }
    return false;
}

const char *task_state_name(enum task_state state)
{
    static const char *const names[TASK_STATES] = {[TASK_WAITING] = "waiting",
                                                   [TASK_RUNNING] = "running",
                                                   [TASK_QUEUED] = "queued",
                                                   [TASK_BLOCKED] = "blocked",
                                                   [TASK_PARKED] = "parked"};

    return (unsigned)state < TASK_STATES ? names[state] : "unknown";
}

static bool word_allows(const char *word, size_t len, const char *name)
{
    if (len > 0 && word[len - 1] == '*')
        return strncmp(word, name, len - 1) == 0;
    return len > 0 && strlen(name) == len && memcmp(word, name, len) == 0;
}

bool retry_list_allows(const char *list, const char *name)
{
    while (*list) {
        size_t len = strcspn(list, ",");

        if (word_allows(list, len, name))
            return true;
        list += len + (list[len] != '\0');
    }
    return false;
}

/* Of the names of groups, scenes and handlers. */
static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.:-";

enum rc retry_list_check(const char *list, size_t size, const char *what, struct err *err)
{
    const char *at = list;

    if (strlen(list) >= size)
        return err_fail(err, RC_REJECT, 0, "%s is longer than %zu bytes", what, size - 1);
    while (*at) {
        size_t len = strspn(at, letters);

        if (at[len] == '*')
            len++;
        if (len == 0 || (at[len] != ',' && at[len] != '\0') || (at[len] == ',' && !at[len + 1]))
            return err_fail(err, RC_REJECT, 0,
                            "%s takes names separated by commas, each of letters, digits and _.:-, "
                            "or a prefix and *",
                            what);
        at += len + (at[len] == ',');
    }
    return RC_OK;
}

/* Reads a number from 0 to RETRY_SHARDS - 1 and moves *text past it. */
static bool read_shard(const char **at, unsigned *shard)
{
    char *end;
    unsigned long value;

    if (!isdigit((unsigned char)**at))
        return false;
    value = strtoul(*at, &end, 10);
    *at = end;
    *shard = (unsigned)value;
    return value < RETRY_SHARDS;
}

static bool read_range(const char **at, unsigned *bits)
{
    unsigned from;
    unsigned to;

    if (!read_shard(at, &from))
        return false;
    to = from;
    if (**at == '-') {
        ++*at;
        if (!read_shard(at, &to))
            return false;
    }
    if (to < from)
        return false;
    for (unsigned shard = from; shard <= to; shard++)
        *bits |= 1U << shard;
    return true;
}

bool retry_shards_read(unsigned *bits, const char *text)
{
    const char *at = text;

    *bits = 0;
    for (;;) {
        while (*at == ' ')
            at++;
        if (!read_range(&at, bits))
            return false;
        while (*at == ' ')
            at++;
        if (!*at)
            return true;
        if (*at++ != ',')
            return false;
    }
}

static enum group_decision decide_own(const struct retry_group *group, enum retry_owner origin,
                                      struct err *err)
{
    if (!group || group->owner != origin || group->enabled)
        return GROUP_OPEN;
    err_set(err, "group %s is disabled", group->name);
    return GROUP_CLOSED;
}

/* Only a plain INSERT can write another name. In the tables a name with blanks at its end equals
 * the name without them, so such a task would have the row of another scene or group. */
static bool is_name(const char *name, const char *what, struct err *err)
{
    size_t len = strlen(name);

    if (len > 0 && len <= RETRY_NAME_BYTES_MAX && strspn(name, letters) == len)
        return true;
    err_set(err,
            "%s \"%.64s\" is not a name of 1 to %d letters, digits and _.:-; insert the task with "
            "another %s",
            what, name, RETRY_NAME_BYTES_MAX, what);
    return false;
}

const char *retry_group_init_policy(const struct retry_group *group)
{
    const char *text = group && group->owner == OWNER_CLIENT ? group->init_scene : "";

    if (!*text || strcmp(text, RETRY_INIT_STANDARD) == 0 || strcmp(text, RETRY_INIT_REFUSE) == 0)
        return NULL;
    return text;
}

bool retry_group_refuses_unknown(const struct retry_group *group)
{
    return group->owner == OWNER_CLIENT && strcmp(group->init_scene, RETRY_INIT_REFUSE) == 0;
}

enum group_decision retry_group_decide(const struct retry_group *group, const char *name,
                                       enum retry_owner origin,
                                       const struct retry_scene_name *scene, const char *handler,
                                       struct err *err)
{
    unsigned shards;

    if (origin != OWNER_CLIENT)
        return decide_own(group, origin, err);
    if (!is_name(name, "group", err) || !is_name(scene->name, "scene", err))
        return GROUP_REFUSES;
    if (!group) {
        err_fail(err, RC_REJECT, RETRY_NOT_CONFIGURED,
                 "no group configuration found: there is no group %.64s, `tallybox retry group set "
                 "%.64s` creates one",
                 name, name);
        return GROUP_CLOSED;
    }
    if (group->owner != OWNER_CLIENT) {
        err_set(err, "group %s belongs to the %s", group->name, retry_owner_name(group->owner));
        return GROUP_REFUSES;
    }
    if (!group->enabled) {
        err_set(err, "group %s is disabled", group->name);
        return GROUP_CLOSED;
    }
    if (group->shards[0] && !retry_shards_read(&shards, group->shards)) {
        err_set(err, "group %s: shards \"%s\" is no list of shards of 0..%d, like 0-3,7",
                group->name, group->shards, RETRY_SHARDS - 1);
        return GROUP_CLOSED;
    }
    if (!retry_list_allows(group->scenes, scene->name)) {
        err_set(err, "group %s does not allow the scene %.64s", group->name, scene->name);
        return GROUP_REFUSES;
    }
    if (!retry_list_allows(group->handlers, handler)) {
        err_set(err, "group %s does not allow the handler %.32s", group->name, handler);
        return GROUP_REFUSES;
    }
    if (!scene->configured && retry_group_refuses_unknown(group)) {
        err_fail(
            err, RC_REJECT, RETRY_NOT_CONFIGURED,
            "no scene configuration found: group %s refuses the unknown scene %.64s, `tallybox "
            "retry scene set %.64s --group %s` creates it",
            group->name, scene->name, scene->name, group->name);
        return GROUP_CLOSED;
    }
    return GROUP_OPEN;
}

static enum rc effect_check(void *ctx, const char *handler, const char *topic, struct err *err)
{
    const struct retry_group *group = ctx;

    if (!retry_list_allows(group->handlers, handler))
        return err_fail(err, RC_REJECT, 0, "group %s does not allow the handler %.32s", group->name,
                        handler);
    if (topic && !retry_list_allows(group->topics, topic))
        return err_fail(err, RC_REJECT, 0, "group %s does not allow the topic %.249s", group->name,
                        topic);
    return RC_OK;
}

enum rc retry_group_check(const struct retry_group *group, const struct retry_handlers *all,
                          const struct retry_handler *handler, const struct retry_job *job,
                          struct err *err)
{
    /* Only read. */
    void *ctx = (void *)(uintptr_t)group;

    if (!handler || !handler->effects)
        return RC_OK;
    return handler->effects(all, job, effect_check, ctx, err);
}

const struct retry_handler *retry_find_handler(const struct retry_handlers *handlers,
                                               const char *name)
{
    for (size_t i = 0; handlers && i < handlers->count; i++)
        if (strcmp(handlers->list[i]->name, name) == 0)
            return handlers->list[i];
    return NULL;
}

bool retry_handler_exists(const struct retry_handlers *handlers, const char *name, struct err *err)
{
    struct nearest nearest = {.typed = name};

    if (!handlers || retry_find_handler(handlers, name))
        return true;
    for (size_t i = 0; i < handlers->count; i++)
        nearest_offer(&nearest, handlers->list[i]->name);
    err_set(err,
            "there is no handler %.32s%s%s; `tallybox retry handlers` lists them. Cancel the task, "
            "and insert it with another handler",
            name, nearest.word ? ", did you mean " : "", nearest.word ? nearest.word : "");
    return false;
}

/* A text that is no JSON object counts as empty: the retry role reports the one of a scene, and the
 * one of the task has been checked. */
static char *merge_options(const char *below, const char *above)
{
    json_t *all = json_loads(below, JSON_ALLOW_NUL, NULL);
    json_t *more = above ? json_loads(above, JSON_ALLOW_NUL, NULL) : NULL;
    char *text;

    if (!json_is_object(all)) {
        json_decref(all);
        all = json_object();
    }
    if (json_is_object(more))
        json_object_update(all, more);
    text = all ? json_dumps(all, RETRY_OPTIONS_JSON) : NULL;
    json_decref(all);
    json_decref(more);
    return text;
}

static enum rc check_by_group(const struct retry_handlers *handlers, const struct retry_job *job,
                              const char *handler_name, const struct retry_check_scene *scene,
                              struct err *err)
{
    const struct retry_scene_name name = {job->scene, scene->configured};
    enum rc rc = RC_REJECT;

    err->code = 0;
    if (retry_group_decide(scene->group, job->group, OWNER_CLIENT, &name, handler_name, err) ==
        GROUP_OPEN)
        rc = retry_group_check(scene->group, handlers, retry_find_handler(handlers, handler_name),
                               job, err);
    if (rc == RC_REJECT && err->code != RETRY_NOT_CONFIGURED)
        err->code = RETRY_NOT_ALLOWED;
    return rc;
}

enum rc retry_check(const struct retry_handlers *handlers, const struct retry_new_task *task,
                    enum retry_owner origin, const struct retry_check_scene *scene, struct err *err)
{
    const struct retry_handler *handler = retry_find_handler(handlers, task->handler);
    struct retry_job job = {
        .handler = handler,
        .group = task->group ? task->group : RETRY_GROUP_DEFAULT,
        .scene = task->scene,
        .of_relay = origin == OWNER_RELAY,
        .ordering_key = task->ordering_key,
        .idempotency_key = task->idempotency_key ? task->idempotency_key : "",
        .biz_no = task->biz_no,
        .params = task->params,
        .params_len = task->params_len,
        .params_type = task->params_type ? task->params_type : "application/json",
        .attempt = 1,
    };
    char *options = merge_options(scene->options, task->options);
    enum rc rc = RC_OK;

    if (!options)
        return err_fail(err, RC_FATAL, 0, "no memory to check a task");
    job.options = options;
    if (origin == OWNER_CLIENT)
        rc = check_by_group(handlers, &job, task->handler, scene, err);
    if (rc == RC_OK && handler && handler->check)
        rc = handler->check(handlers, &job, err);
    free(options);
    return rc;
}
