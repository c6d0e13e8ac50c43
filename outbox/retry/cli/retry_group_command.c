/* SPDX-License-Identifier: MIT */
#include "outbox/retry/cli/retry_group_command.h"

#include "common/options.h"
#include "outbox/retry/change.h"
#include "outbox/retry/cli/retry_scene_command.h"
#include "outbox/retry/cli/task_text.h"
#include "outbox/retry/clients/client.h"
#include "outbox/retry/store/scene_mysql.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

struct group_list {
    struct buf out;
    bool json;
    size_t count;
};

/* What a scene without a row has; of a role's group nothing is set. */
static const char *format_init(const struct retry_group *group)
{
    return group->init_scene[0] ? group->init_scene : RETRY_INIT_STANDARD;
}

static void put_group_json(struct buf *out, const struct retry_group *group)
{
    task_text_put_object(
        out,
        json_pack("{s:s, s:s, s:b, s:I, s:s, s:s, s:s, s:s, s:s, s:s, s:s}", "group", group->name,
                  "owner", retry_owner_name(group->owner), "enabled", group->enabled, "version",
                  (json_int_t)group->version, "handlers", group->handlers, "scenes", group->scenes,
                  "topics", group->topics, "init_scene", format_init(group), "route", group->route,
                  "shards", group->shards, "description", group->description));
}

static void print_json_list(struct group_list *group_list, const struct retry_group *group)
{
    buf_text_put(&group_list->out, group_list->count == 0 ? "\n  " : ",\n  ");
    put_group_json(&group_list->out, group);
}

static const char *format_list(const char *list)
{
    return list[0] ? list : "(none)";
}

static enum rc list_on_group(void *ctx, const struct retry_group *group, struct err *err)
{
    struct group_list *group_list = ctx;

    (void)err;
    if (group_list->json) {
        print_json_list(group_list, group);
    } else {
        if (group_list->count == 0)
            buf_print(&group_list->out, "%-24s  %-8s  %-8s  %-24s  %-24s  %-24s  %-15s  %s\n",
                      "group", "owner", "state", "handlers", "scenes", "topics", "route",
                      "unknown scenes");
        buf_print(&group_list->out, "%-24s  %-8s  %-8s  %-24s  %-24s  %-24s  %-15s  ", group->name,
                  retry_owner_name(group->owner), group->enabled ? "enabled" : "disabled",
                  format_list(group->handlers), format_list(group->scenes),
                  format_list(group->topics), group->route);
        task_text_line(&group_list->out, format_init(group));
        if (group->shards[0])
            buf_print(&group_list->out, "\n    shards: %s", group->shards);
        if (group->description[0]) {
            buf_text_put(&group_list->out, "\n    ");
            task_text_line(&group_list->out, group->description);
        }
        buf_char(&group_list->out, '\n');
    }
    group_list->count++;
    return RC_OK;
}

static int list_groups(struct db *db, const struct retry_request *request)
{
    struct group_list group_list = {.json = request->words.json};
    struct err err = {0};
    enum rc rc;

    if (group_list.json)
        buf_text_put(&group_list.out, "{\"groups\": [");
    rc = retry_group_each(db, NULL, list_on_group, &group_list, &err);
    if (rc != RC_OK) {
        buf_done(&group_list.out);
        return options_fail(rc, &err);
    }
    if (group_list.json)
        buf_text_put(&group_list.out, group_list.count > 0 ? "\n]}\n" : "]}\n");
    else if (group_list.count == 0)
        buf_text_put(&group_list.out, "there is no group: tasks of applications do not run\n");
    return options_print(&group_list.out);
}

static void put_group_line(struct buf *out, const char *name, const char *value)
{
    buf_print(out, "%-16s", name);
    task_text_line(out, value);
    buf_char(out, '\n');
}

static enum rc show_on_group(void *ctx, const struct retry_group *group, struct err *err)
{
    struct group_list *shown = ctx;
    struct buf *out = &shown->out;

    (void)err;
    shown->count++;
    if (shown->json) {
        put_group_json(out, group);
        buf_char(out, '\n');
        return RC_OK;
    }
    put_group_line(out, "group", group->name);
    put_group_line(out, "owner", retry_owner_name(group->owner));
    buf_print(out, "%-16s%" PRId64 "%s\n", "version", group->version,
              group->enabled ? "" : ", disabled: its tasks wait");
    put_group_line(out, "handlers", format_list(group->handlers));
    put_group_line(out, "scenes", format_list(group->scenes));
    put_group_line(out, "topics", format_list(group->topics));
    put_group_line(out, "unknown scenes", format_init(group));
    put_group_line(out, "route", group->route);
    put_group_line(out, "shards", group->shards[0] ? group->shards : "(all)");
    put_group_line(out, "description", format_list(group->description));
    return RC_OK;
}

static int show_group(struct db *db, const struct retry_request *request)
{
    struct group_list shown = {.json = request->words.json};
    struct err err = {0};
    enum rc rc = retry_group_each(db, request->group, show_on_group, &shown, &err);

    if (rc == RC_OK && shown.count == 0)
        rc = err_fail(&err, RC_FATAL, 0,
                      "there is no group %s: tallybox retry group list has all, and group set "
                      "creates one",
                      request->group);
    if (rc == RC_OK)
        return options_print(&shown.out);
    buf_done(&shown.out);
    return options_fail(rc, &err);
}

/* Reads --init-scene into text: one of the two words, or a policy. */
static enum rc take_init_scene(struct buf *text, const char *word, struct err *err)
{
    enum rc rc;

    if (strcmp(word, RETRY_INIT_STANDARD) == 0 || strcmp(word, RETRY_INIT_REFUSE) == 0) {
        buf_text_put(text, word);
        return RC_OK;
    }
    if (!*word)
        return err_fail(err, RC_REJECT, 0,
                        "--init-scene takes standard, refuse, preset:NAME, JSON or @FILE");
    rc = retry_scene_take_policy(text, word, err);
    if (rc == RC_OK && strlen(buf_text(text)) != text->len)
        rc = err_fail(err, RC_REJECT, 0, "--init-scene takes a policy of up to %d ASCII characters",
                      RETRY_GROUP_INIT_SIZE - 1);
    return rc;
}

static void print_change(const struct retry_request *request, enum retry_change_kind kind,
                         bool changed)
{
    printf("group %s ", request->group);
    if (kind == CHANGE_GROUP_SET)
        puts(changed ? "is set" : "was so before");
    else if (kind == CHANGE_GROUP_ENABLE)
        puts(changed ? "is enabled: its tasks run" : "was enabled before");
    else
        puts(changed ? "is disabled: running attempts end, no task begins" : "was disabled before");
}

/* Checks and makes a change of the group, and ends the command. */
static int make_change(struct db *db, const struct retry_request *request,
                       struct retry_change *change)
{
    struct retry_changed result = {.changed = false};
    struct buf init_scene = {0};
    const char *field;
    struct err err = {0};
    enum rc rc = RC_OK;

    change->group = request->group;
    change->via = "shell";
    change->audit_id = request->audit_id;
    if (change->values.init_scene) {
        rc = take_init_scene(&init_scene, change->values.init_scene, &err);
        change->values.init_scene = buf_text(&init_scene);
    }
    if (rc == RC_OK)
        rc = retry_change_check(change, &field, &err);
    if (rc == RC_OK)
        rc = retry_change_make(db, change, &result, &err);
    buf_done(&init_scene);
    if (rc == RC_REJECT) {
        fprintf(stderr, "tallybox retry: %s; nothing was changed\n", err.text);
        return EXIT_USAGE;
    }
    if (rc != RC_OK)
        return options_fail(rc, &err);
    print_change(request, change->kind, result.changed);
    return EXIT_DONE;
}

static int set_group(struct db *db, const struct retry_request *request)
{
    const struct retry_words *words = &request->words;
    struct retry_change change = {.kind = CHANGE_GROUP_SET,
                                  .values = {
                                      .handlers = words->handlers,
                                      .scenes = words->scenes,
                                      .topics = words->topics,
                                      .init_scene = words->init_scene,
                                      .route = words->route,
                                      .shards = words->shards,
                                      .description = words->description,
                                  }};

    return make_change(db, request, &change);
}

static int enable_group(struct db *db, const struct retry_request *request)
{
    struct retry_change change = {
        .kind = request->action == RETRY_GROUP_ENABLE ? CHANGE_GROUP_ENABLE : CHANGE_GROUP_DISABLE};

    return make_change(db, request, &change);
}

int retry_group(struct db *db, const struct retry_request *request)
{
    if (request->action == RETRY_GROUP_LIST)
        return list_groups(db, request);
    if (request->action == RETRY_GROUP_SHOW)
        return show_group(db, request);
    if (request->action == RETRY_GROUP_SET)
        return set_group(db, request);
    return enable_group(db, request);
}

struct group_check {
    struct retry_group group;
    bool found;
};

static enum rc note_on_group(void *ctx, const struct retry_group *group, struct err *err)
{
    struct group_check *group_check = ctx;

    (void)err;
    group_check->group = *group;
    group_check->found = true;
    return RC_OK;
}

static enum rc note_on_scene(void *ctx, const struct scene_row *row, struct err *err)
{
    bool *configured = ctx;

    (void)row;
    (void)err;
    *configured = true;
    return RC_OK;
}

/* A name with a blank at its end is not that of a row, but the server takes it so. */
static enum rc find_scene(struct db *db, const struct retry_view *view, bool *configured,
                          struct err *err)
{
    *configured = false;
    return scene_mysql_each(db, view->group, view->scene, note_on_scene, configured, err);
}

enum rc retry_group_note(struct db *db, const struct retry_view *view, struct buf *out,
                         struct err *err)
{
    struct group_check group_check = {.found = false};
    struct retry_scene_name scene = {.name = view->scene};
    const struct retry_group *group;
    struct err reason = {0};
    enum retry_owner origin;
    enum group_decision decision;
    bool missing = false;
    enum rc rc = retry_group_each(db, view->group, note_on_group, &group_check, err);

    if (rc != RC_OK)
        return rc;
    group = group_check.found ? &group_check.group : NULL;
    if (!retry_owner_read(view->origin, strlen(view->origin), &origin)) {
        buf_print(out, "tasks of the origin %s do not run: the origin is unknown\n", view->origin);
        return RC_OK;
    }
    rc = find_scene(db, view, &scene.configured, err);
    if (rc != RC_OK)
        return rc;
    decision = retry_group_decide(group, view->group, origin, &scene, view->handler, &reason);
    if (decision != GROUP_OPEN)
        buf_print(out, "tasks of group %s, scene %s and handler %s %s: %s\n", view->group,
                  view->scene, view->handler, decision == GROUP_CLOSED ? "wait" : "are refused",
                  reason.text);
    rc = retry_client_missing(db, view->group, view->scene, &missing, err);
    if (rc != RC_OK)
        return rc;
    if (missing)
        buf_print(out, "tasks of scene %s/%s wait: their group has no live client\n", view->group,
                  view->scene);
    if (decision != GROUP_OPEN || scene.configured || !retry_group_init_policy(group))
        return RC_OK;
    retry_scene_find_fault(retry_group_init_policy(group), NULL, &reason);
    if (reason.text[0])
        buf_print(out, "no task of scene %s/%s runs: init_scene of the group: %s\n", view->group,
                  view->scene, reason.text);
    return RC_OK;
}
