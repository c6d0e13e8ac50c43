/* SPDX-License-Identifier: MIT */
#include "outbox/retry/groups.h"

#include "common/log.h"

#include <stdlib.h>
#include <string.h>

#define ROOM_MIN 16

void groups_done(struct groups *groups)
{
    free(groups->list);
    free(groups->coming);
    memset(groups, 0, sizeof(*groups));
}

void groups_begin(struct groups *groups)
{
    groups->coming_count = 0;
}

enum rc groups_take(struct groups *groups, const struct retry_group *group, struct err *err)
{
    if (groups->coming_count == groups->coming_room) {
        size_t room = groups->coming_room > 0 ? 2 * groups->coming_room : ROOM_MIN;
        struct retry_group *coming = realloc(groups->coming, room * sizeof(*coming));

        if (!coming)
            return err_fail(err, RC_FATAL, 0, "no memory for %zu groups of tasks", room);
        groups->coming = coming;
        groups->coming_room = room;
    }
    groups->coming[groups->coming_count++] = *group;
    return RC_OK;
}

static int compare_names(const void *one, const void *other)
{
    const struct retry_group *a = one;
    const struct retry_group *b = other;

    return strcmp(a->name, b->name);
}

static bool group_is_same(const struct retry_group *one, const struct retry_group *other)
{
    return strcmp(one->name, other->name) == 0 && one->owner == other->owner &&
           one->enabled == other->enabled && strcmp(one->handlers, other->handlers) == 0 &&
           strcmp(one->scenes, other->scenes) == 0 && strcmp(one->topics, other->topics) == 0;
}

bool groups_end(struct groups *groups)
{
    struct retry_group *list = groups->list;
    size_t count = groups->count;
    size_t room = groups->room;

    groups->list = groups->coming;
    groups->count = groups->coming_count;
    groups->room = groups->coming_room;
    groups->coming = list;
    groups->coming_room = room;
    groups->coming_count = 0;
    if (groups->count > 0)
        qsort(groups->list, groups->count, sizeof(*groups->list), compare_names);
    for (size_t i = 0; i < count && i < groups->count; i++)
        if (!group_is_same(&list[i], &groups->list[i]))
            return true;
    return count != groups->count;
}

const struct retry_group *groups_find(const struct groups *groups, const char *name)
{
    size_t from = 0;

    for (size_t to = groups->count; from < to;) {
        size_t middle = from + (to - from) / 2;
        int order = strcmp(groups->list[middle].name, name);

        if (order == 0)
            return &groups->list[middle];
        if (order < 0)
            from = middle + 1;
        else
            to = middle;
    }
    return NULL;
}

static enum group_decision decide_kind(const struct groups *groups, const struct kind *kind,
                                       struct err *err)
{
    const char *name = kind->scene->group;

    return retry_group_decide(groups_find(groups, name), name, kind->origin, kind->scene->name,
                              kind->handler_name, err);
}

void groups_update_kind(const struct groups *groups, struct kind *kind)
{
    struct err err = {0};
    enum group_decision decision = decide_kind(groups, kind, &err);

    if (decision == kind->group_decision)
        return;
    kind->group_decision = decision;
    if (decision == GROUP_OPEN)
        log_event(LOG_INFO, "group_opened", "group=%s scene=%s handler=%s", kind->scene->group,
                  kind->scene->name, kind->handler_name);
    else
        log_error(LOG_WARN, decision == GROUP_CLOSED ? "group_closed" : "group_refuses", &err,
                  "group=%s scene=%s handler=%s tasks=%s", kind->scene->group, kind->scene->name,
                  kind->handler_name, decision == GROUP_CLOSED ? "wait" : "refused");
}

bool groups_are_closed(const struct groups *groups, const struct task_class *class)
{
    struct err err;

    return retry_group_decide(groups_find(groups, class->group), class->group, class->origin,
                              class->scene, class->handler, &err) == GROUP_CLOSED;
}

enum rc groups_check(const struct groups *groups, const struct kind *kind,
                     const struct retry_handlers *all, const struct retry_job *job, struct err *err)
{
    enum group_decision decision = decide_kind(groups, kind, err);

    if (decision != GROUP_OPEN)
        return decision == GROUP_CLOSED ? RC_RETRY : RC_REJECT;
    if (kind->origin != OWNER_CLIENT)
        return RC_OK;
    return retry_group_check(groups_find(groups, kind->scene->group), all, kind->handler, job, err);
}
