/* SPDX-License-Identifier: MIT */
#include "producer/task/task_check.h"

#include "outbox/retry/handler.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static const struct retry_handler *find_handler(const struct retry_handlers *handlers,
                                                const char *name)
{
    for (size_t i = 0; handlers && i < handlers->count; i++)
        if (strcmp(handlers->list[i]->name, name) == 0)
            return handlers->list[i];
    return NULL;
}

bool task_check_known(const struct retry_handlers *handlers, const char *name)
{
    return !handlers || find_handler(handlers, name) != NULL;
}

size_t task_check_names(const struct retry_handlers *handlers, const char *names[TASK_HANDLERS_MAX])
{
    size_t count = 0;

    for (size_t i = 0; handlers && i < handlers->count && count < TASK_HANDLERS_MAX; i++)
        names[count++] = handlers->list[i]->name;
    return count;
}

/* A text that is no JSON object counts as empty: the retry role reports the one of a scene, and the
 * one of the task has been checked. */
static char *merge_options(const char *below, const char *above)
{
    json_t *all = json_loads(below, 0, NULL);
    json_t *more = above ? json_loads(above, 0, NULL) : NULL;
    char *text;

    if (!json_is_object(all)) {
        json_decref(all);
        all = json_object();
    }
    if (json_is_object(more))
        json_object_update(all, more);
    text = all ? json_dumps(all, JSON_COMPACT) : NULL;
    json_decref(all);
    json_decref(more);
    return text;
}

static enum rc check_group(const struct retry_handlers *handlers, const struct retry_job *job,
                           const struct retry_handler *handler, const char *handler_name,
                           const struct retry_group *group, struct err *err)
{
    enum rc rc = RC_REJECT;

    if (retry_group_decide(group, job->group, OWNER_CLIENT, job->scene, handler_name, err) ==
        GROUP_OPEN)
        rc = retry_group_check(group, handlers, handler, job, err);
    if (rc == RC_REJECT)
        err->code = TASK_NOT_ALLOWED;
    return rc;
}

enum rc task_check(const struct retry_handlers *handlers, const struct retry_new_task *task,
                   const struct retry_group *group, const char *scene_options, struct err *err)
{
    const struct retry_handler *handler = find_handler(handlers, task->handler);
    struct retry_job job = {
        .group = task->group ? task->group : RETRY_GROUP_STANDARD,
        .scene = task->scene,
        .ordering_key = task->ordering_key,
        .idempotency_key = task->idempotency_key ? task->idempotency_key : "",
        .biz_no = task->biz_no,
        .params = task->params,
        .params_len = task->params_len,
        .params_type = task->params_type ? task->params_type : "application/json",
        .attempt = 1,
    };
    char *options;
    enum rc rc;

    options = merge_options(scene_options, task->options);
    if (!options)
        return err_fail(err, RC_FATAL, 0, "no memory to check a task");
    job.options = options;
    rc = check_group(handlers, &job, handler, task->handler, group, err);
    if (rc == RC_OK && handler && handler->check)
        rc = handler->check(handlers, &job, err);
    free(options);
    return rc;
}
