/* SPDX-License-Identifier: MIT */
#include "producer/task/task_check.h"

#include "outbox/retry/handler.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SCENES_MAX 64
#define HANDLERS_MAX 32

/* What the database holds of a scene and its group, and until when it is used. */
struct cached_scene {
    char group[RETRY_NAME_BYTES_MAX + 1];
    char scene[RETRY_NAME_BYTES_MAX + 1];
    int64_t until_ms; /* 0: nothing has been read */
    uint64_t request; /* in which it was read */
    struct retry_room room;
    struct retry_group group_row;
    bool has_group;
    struct buf options;
};

struct task_check {
    const struct task_store *store;
    const struct retry_handlers *handlers;
    int64_t (*clock_ms)(void);
    struct cached_scene scenes[SCENES_MAX];
    size_t scene_next; /* the next one to be replaced */
    uint64_t requests; /* number of the request */
    const char *names[HANDLERS_MAX];
    size_t name_count;
};

static const char *find_group(const struct task_item *item)
{
    return item->task.group ? item->task.group : RETRY_GROUP_DEFAULT;
}

static struct cached_scene *find_cached_scene(struct task_check *check,
                                              const struct task_item *item)
{
    for (size_t i = 0; i < SCENES_MAX; i++) {
        struct cached_scene *scene = &check->scenes[i];

        if (scene->until_ms != 0 && strcmp(scene->scene, item->task.scene) == 0 &&
            strcmp(scene->group, find_group(item)) == 0)
            return scene;
    }
    return NULL;
}

static enum rc read_scene(struct task_check *check, const struct task_item *item,
                          struct cached_scene **out, struct err *err)
{
    const struct task_store *store = check->store;
    struct cached_scene *scene = find_cached_scene(check, item);
    int64_t now_ms = check->clock_ms();
    enum rc rc;

    if (!scene) {
        scene = &check->scenes[check->scene_next];
        check->scene_next = (check->scene_next + 1) % SCENES_MAX;
        snprintf(scene->group, sizeof(scene->group), "%s", find_group(item));
        snprintf(scene->scene, sizeof(scene->scene), "%s", item->task.scene);
        scene->until_ms = 0;
    }
    *out = scene;
    if (scene->until_ms > now_ms)
        return RC_OK;
    scene->request = check->requests;
    buf_reset(&scene->options);
    rc = store->room(store->ctx, scene->group, scene->scene, check->names, check->name_count,
                     &scene->room, &scene->options, err);
    if (rc == RC_OK)
        rc = store->group(store->ctx, scene->group, &scene->group_row, &scene->has_group, err);
    scene->until_ms = rc == RC_OK ? now_ms + TASK_CHECK_ROOM_MS : 0;
    return rc;
}

static size_t list_handler_names(const struct retry_handlers *handlers,
                                 const char *names[HANDLERS_MAX])
{
    size_t count = 0;

    for (size_t i = 0; handlers && i < handlers->count && count < HANDLERS_MAX; i++)
        names[count++] = handlers->list[i]->name;
    return count;
}

static void refuse_item(struct task_item *items, size_t index, size_t count,
                        enum request_fault_code code, const char *words)
{
    struct task_item *item = &items[index];
    char at[24];

    item->bad = true;
    request_fault_set(&item->fault, code, "%s", words);
    snprintf(at, sizeof(at), "/%zu", index);
    if (count > 1)
        request_fault_at(&item->fault, at);
}

static enum rc check_by_scene(struct task_check *check, const struct task_item *item,
                              struct cached_scene *scene, struct err *fault)
{
    const struct retry_check_scene found = {
        .group = scene->has_group ? &scene->group_row : NULL,
        .options = buf_text(&scene->options),
        .configured = scene->room.configured,
    };

    return retry_check(check->handlers, &item->task, OWNER_CLIENT, &found, fault);
}

/* Reads a scene again before its time has passed. Its count still has the tasks of this request
 * that were accepted and are not in the table yet. */
static enum rc read_scene_again(struct task_check *check, const struct task_item *item,
                                struct cached_scene **scene, struct err *err)
{
    int64_t pending = (*scene)->room.pending;
    enum rc rc;

    (*scene)->until_ms = check->clock_ms();
    rc = read_scene(check, item, scene, err);
    if (rc == RC_OK && (*scene)->room.pending < pending)
        (*scene)->room.pending = pending;
    return rc;
}

enum rc task_check_open(struct task_check **out, const struct task_store *store,
                        const struct retry_handlers *handlers, int64_t (*clock_ms)(void),
                        struct err *err)
{
    struct task_check *check = calloc(1, sizeof(*check));

    *out = check;
    if (!check)
        return err_fail(err, RC_FATAL, 0, "no memory to check tasks");
    check->store = store;
    check->handlers = handlers;
    check->clock_ms = clock_ms;
    check->name_count = list_handler_names(handlers, check->names);
    return RC_OK;
}

void task_check_close(struct task_check *check)
{
    for (size_t i = 0; check && i < SCENES_MAX; i++)
        buf_done(&check->scenes[i].options);
    free(check);
}

void task_check_begin(struct task_check *check)
{
    check->requests++;
}

/* A scene or group that was read for an earlier request refuses nothing: it may have been changed
 * since. */
enum rc task_check_item(struct task_check *check, struct task_item *items, size_t index,
                        size_t count, struct err *err)
{
    struct task_item *item = &items[index];
    struct cached_scene *scene;
    struct err fault = {0};
    char words[200];
    enum rc rc = read_scene(check, item, &scene, err);

    if (rc != RC_OK)
        return rc;
    rc = check_by_scene(check, item, scene, &fault);
    if (rc == RC_REJECT && scene->request != check->requests) {
        rc = read_scene_again(check, item, &scene, err);
        if (rc != RC_OK)
            return rc;
        rc = check_by_scene(check, item, scene, &fault);
    }
    if (rc == RC_REJECT) {
        refuse_item(items, index, count,
                    fault.code == RETRY_NOT_ALLOWED ? REQUEST_FAULT_NO_SCOPE
                                                    : REQUEST_FAULT_REFUSED,
                    fault.text);
    } else if (rc != RC_OK) {
        *err = fault;
        return rc;
    } else if (scene->room.limit > 0 && scene->room.pending >= scene->room.limit) {
        snprintf(words, sizeof(words),
                 "scene %.64s is full: %" PRId64 " of its tasks wait; send this task again later",
                 item->task.scene, scene->room.pending);
        refuse_item(items, index, count, REQUEST_FAULT_FULL, words);
    } else {
        scene->room.pending++;
    }
    return RC_OK;
}

void task_check_gone(struct task_check *check, const struct task_item *item)
{
    struct cached_scene *scene = find_cached_scene(check, item);

    if (scene && scene->room.pending > 0)
        scene->room.pending--;
}
