/* SPDX-License-Identifier: MIT */
#include "outbox/retry/cli/retry_group_command.h"

#include "common/options.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct listing {
    struct buf out;
    bool json;
    size_t count;
};

static void list_json(struct listing *listing, const struct retry_group *group)
{
    json_t *object =
        json_pack("{s:s, s:s, s:b, s:s, s:s, s:s}", "group", group->name, "owner",
                  retry_owner_name(group->owner), "enabled", group->enabled, "handlers",
                  group->handlers, "scenes", group->scenes, "topics", group->topics);
    char *text = object ? json_dumps(object, 0) : NULL;

    buf_text_put(&listing->out, listing->count == 0 ? "\n  " : ",\n  ");
    if (text)
        buf_text_put(&listing->out, text);
    else
        listing->out.failed = true;
    free(text);
    json_decref(object);
}

static const char *list_text(const char *list)
{
    return list[0] ? list : "(none)";
}

static enum rc list_on_group(void *ctx, const struct retry_group *group, struct err *err)
{
    struct listing *listing = ctx;

    (void)err;
    if (listing->json) {
        list_json(listing, group);
    } else {
        if (listing->count == 0)
            buf_print(&listing->out, "%-24s  %-8s  %-8s  %-24s  %-24s  %s\n", "group", "owner", "",
                      "handlers", "scenes", "topics");
        buf_print(&listing->out, "%-24s  %-8s  %-8s  %-24s  %-24s  %s\n", group->name,
                  retry_owner_name(group->owner), group->enabled ? "enabled" : "disabled",
                  list_text(group->handlers), list_text(group->scenes), list_text(group->topics));
    }
    listing->count++;
    return RC_OK;
}

static int list(struct db *db, const struct retry_request *request)
{
    struct listing listing = {.json = request->words.json};
    struct err err = {0};
    enum rc rc;

    if (listing.json)
        buf_text_put(&listing.out, "{\"groups\": [");
    rc = retry_group_each(db, NULL, list_on_group, &listing, &err);
    if (rc != RC_OK) {
        buf_done(&listing.out);
        return options_fail(rc, &err);
    }
    if (listing.json)
        buf_text_put(&listing.out, listing.count > 0 ? "\n]}\n" : "]}\n");
    else if (listing.count == 0)
        buf_text_put(&listing.out, "there is no group: no task of an application runs\n");
    return options_print(&listing.out);
}

static int refuse(const struct err *err)
{
    fprintf(stderr, "tallybox retry: %s; nothing was changed\n", err->text);
    return EXIT_USAGE;
}

static enum rc lists_check(const struct retry_words *words, struct err *err)
{
    enum rc rc = RC_OK;

    if (words->handlers)
        rc = retry_list_check(words->handlers, RETRY_GROUP_HANDLERS_SIZE, "--handlers", err);
    if (rc == RC_OK && words->scenes)
        rc = retry_list_check(words->scenes, RETRY_GROUP_LIST_SIZE, "--scenes", err);
    if (rc == RC_OK && words->topics)
        rc = retry_list_check(words->topics, RETRY_GROUP_LIST_SIZE, "--topics", err);
    return rc;
}

static int set(struct db *db, const struct retry_request *request)
{
    const struct retry_words *words = &request->words;
    struct err err = {0};
    bool changed = false;
    enum rc rc = lists_check(words, &err);

    if (rc == RC_OK)
        rc = retry_group_set(db, request->group, words->handlers, words->scenes, words->topics,
                             &changed, &err);
    if (rc == RC_REJECT)
        return refuse(&err);
    if (rc != RC_OK)
        return options_fail(rc, &err);
    printf("group %s %s\n", request->group, changed ? "is set" : "was so before");
    return EXIT_DONE;
}

static int enable_or_disable(struct db *db, const struct retry_request *request)
{
    bool enable = request->action == RETRY_GROUP_ENABLE;
    struct err err = {0};
    bool changed = false;
    enum rc rc = retry_group_enable(db, request->group, enable, &changed, &err);

    if (rc == RC_REJECT)
        return refuse(&err);
    if (rc != RC_OK)
        return options_fail(rc, &err);
    printf("group %s %s%s\n", request->group, changed ? "is " : "was ",
           enable ? (changed ? "enabled: its tasks run" : "enabled before")
                  : (changed ? "disabled: what runs ends, nothing begins" : "disabled before"));
    return EXIT_DONE;
}

int retry_group(struct db *db, const struct retry_request *request)
{
    if (request->action == RETRY_GROUP_LIST)
        return list(db, request);
    if (request->action == RETRY_GROUP_SET)
        return set(db, request);
    return enable_or_disable(db, request);
}

struct noting {
    struct retry_group group;
    bool found;
};

static enum rc note_on_group(void *ctx, const struct retry_group *group, struct err *err)
{
    struct noting *noting = ctx;

    (void)err;
    noting->group = *group;
    noting->found = true;
    return RC_OK;
}

enum rc retry_group_note(struct db *db, const struct retry_view *view, struct buf *out,
                         struct err *err)
{
    struct noting noting = {.found = false};
    struct err reason = {0};
    enum retry_owner origin;
    enum group_decision decision;
    enum rc rc = retry_group_each(db, view->group, note_on_group, &noting, err);

    if (rc != RC_OK)
        return rc;
    if (!retry_owner_read(view->origin, strlen(view->origin), &origin)) {
        buf_print(out, "tasks of the origin %s do not run: it is none of ours\n", view->origin);
        return RC_OK;
    }
    decision = retry_group_decide(noting.found ? &noting.group : NULL, view->group, origin,
                                  view->scene, view->handler, &reason);
    if (decision != GROUP_OPEN)
        buf_print(out, "tasks of group %s, scene %s and handler %s %s: %s\n", view->group,
                  view->scene, view->handler, decision == GROUP_CLOSED ? "wait" : "are refused",
                  reason.text);
    return RC_OK;
}
