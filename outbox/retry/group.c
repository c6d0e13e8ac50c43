/* SPDX-License-Identifier: MIT */
#include "outbox/retry/group.h"

#include "outbox/retry/handler.h"

#include <stdint.h>
#include <string.h>

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

enum rc retry_list_check(const char *list, size_t size, const char *what, struct err *err)
{
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.:-";
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

static enum group_decision decide_own(const struct retry_group *group, enum retry_owner origin,
                                      struct err *err)
{
    if (!group || group->owner != origin || group->enabled)
        return GROUP_OPEN;
    err_set(err, "group %s is disabled", group->name);
    return GROUP_CLOSED;
}

enum group_decision retry_group_decide(const struct retry_group *group, const char *name,
                                       enum retry_owner origin, const char *scene,
                                       const char *handler, struct err *err)
{
    if (origin != OWNER_CLIENT)
        return decide_own(group, origin, err);
    if (!group) {
        err_set(err, "there is no group %.64s: `tallybox retry group set` creates one", name);
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
    if (!retry_list_allows(group->scenes, scene)) {
        err_set(err, "group %s does not allow the scene %.64s", group->name, scene);
        return GROUP_REFUSES;
    }
    if (!retry_list_allows(group->handlers, handler)) {
        err_set(err, "group %s does not allow the handler %.32s", group->name, handler);
        return GROUP_REFUSES;
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
