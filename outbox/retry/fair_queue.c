/* SPDX-License-Identifier: MIT */
#include "outbox/retry/fair_queue.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static void init_list(struct fair_link *head)
{
    head->next = head->prev = head;
}

static bool list_is_empty(const struct fair_link *head)
{
    return head->next == head;
}

static void append_to_list(struct fair_link *head, struct fair_link *link)
{
    link->prev = head->prev;
    link->next = head;
    head->prev->next = link;
    head->prev = link;
}

static void remove_from_list(struct fair_link *link)
{
    link->prev->next = link->next;
    link->next->prev = link->prev;
}

/* The link is the first member of each struct, so a cast converts a link to its struct. */

static struct fair_scene *get_scene(struct fair_link *link)
{
    return (struct fair_scene *)(void *)link;
}

static struct fair_flow *get_flow(struct fair_link *link)
{
    return (struct fair_flow *)(void *)link;
}

static struct fair_task *get_task(struct fair_link *link)
{
    return (struct fair_task *)(void *)link;
}

enum rc fair_queue_init(struct fair_queue *queue, size_t tasks_max, size_t threads, struct err *err)
{
    assert(threads > 0);
    memset(queue, 0, sizeof(*queue));
    init_list(&queue->scenes);
    queue->threads = threads;
    queue->flows = calloc(tasks_max, sizeof(*queue->flows));
    if (!queue->flows)
        return err_fail(err, RC_FATAL, 0, "out of memory for %zu tasks", tasks_max);
    for (size_t i = 0; i < tasks_max; i++) {
        queue->flows[i].next = queue->free;
        queue->free = &queue->flows[i];
    }
    return RC_OK;
}

void fair_queue_done(struct fair_queue *queue)
{
    free(queue->flows);
    memset(queue, 0, sizeof(*queue));
}

void fair_scene_init(struct fair_scene *scene)
{
    memset(scene, 0, sizeof(*scene));
    init_list(&scene->flows);
}

static struct fair_flow *use_flow(struct fair_queue *queue, struct fair_scene *scene,
                                  const void *destination)
{
    struct fair_flow *flow = scene->used;

    while (flow && flow->destination != destination)
        flow = flow->next;
    if (!flow) {
        flow = queue->free;
        assert(flow);
        queue->free = flow->next;
        *flow = (struct fair_flow){.scene = scene, .destination = destination, .next = scene->used};
        init_list(&flow->tasks);
        scene->used = flow;
    }
    flow->count++;
    return flow;
}

static void leave_flow(struct fair_queue *queue, struct fair_flow *flow)
{
    struct fair_flow **at = &flow->scene->used;

    if (--flow->count > 0)
        return;
    while (*at != flow)
        at = &(*at)->next;
    *at = flow->next;
    flow->next = queue->free;
    queue->free = flow;
}

void fair_queue_put(struct fair_queue *queue, struct fair_scene *scene, const void *destination,
                    struct fair_task *task)
{
    struct fair_flow *flow = use_flow(queue, scene, destination);

    if (scene->waiting++ == 0)
        append_to_list(&queue->scenes, &scene->link);
    if (list_is_empty(&flow->tasks))
        append_to_list(&scene->flows, &flow->link);
    append_to_list(&flow->tasks, &task->link);
    task->flow = flow;
    task->waits = true;
    queue->waiting++;
}

static void stop_waiting(struct fair_queue *queue, struct fair_task *task)
{
    struct fair_flow *flow = task->flow;
    struct fair_scene *scene = flow->scene;

    assert(task->waits);
    remove_from_list(&task->link);
    task->waits = false;
    queue->waiting--;
    if (list_is_empty(&flow->tasks))
        remove_from_list(&flow->link);
    if (--scene->waiting == 0)
        remove_from_list(&scene->link);
}

static bool may_take(const struct fair_queue *queue, const struct fair_scene *scene)
{
    size_t threads_max = atomic_load(&scene->threads_max);

    if (threads_max > 0 && scene->threads >= threads_max)
        return false;
    return scene->threads == 0 || queue->threads < 2 || queue->threads - queue->busy > 1;
}

/* The list begins with the scene that was served least recently. */
static struct fair_scene *choose_scene(const struct fair_queue *queue)
{
    struct fair_scene *chosen = NULL;

    for (struct fair_link *at = queue->scenes.next; at != &queue->scenes; at = at->next) {
        struct fair_scene *scene = get_scene(at);

        if (!may_take(queue, scene) || (chosen && scene->threads >= chosen->threads))
            continue;
        chosen = scene;
        if (scene->threads == 0)
            break;
    }
    return chosen;
}

static struct fair_flow *choose_flow(const struct fair_scene *scene)
{
    struct fair_flow *chosen = NULL;

    for (struct fair_link *at = scene->flows.next; at != &scene->flows; at = at->next) {
        struct fair_flow *flow = get_flow(at);

        if (chosen && flow->threads >= chosen->threads)
            continue;
        chosen = flow;
        if (flow->threads == 0)
            break;
    }
    return chosen;
}

struct fair_task *fair_queue_take(struct fair_queue *queue)
{
    struct fair_scene *scene = choose_scene(queue);
    struct fair_flow *flow = scene ? choose_flow(scene) : NULL;
    struct fair_task *task;

    assert(queue->busy < queue->threads);
    if (!flow)
        return NULL;
    task = get_task(flow->tasks.next);
    stop_waiting(queue, task);
    queue->busy++;
    scene->threads++;
    flow->threads++;
    /* Both had their turn. */
    if (!list_is_empty(&flow->tasks)) {
        remove_from_list(&flow->link);
        append_to_list(&scene->flows, &flow->link);
    }
    if (scene->waiting > 0) {
        remove_from_list(&scene->link);
        append_to_list(&queue->scenes, &scene->link);
    }
    return task;
}

void fair_queue_end(struct fair_queue *queue, struct fair_task *task)
{
    struct fair_flow *flow = task->flow;

    assert(!task->waits && queue->busy > 0);
    queue->busy--;
    flow->scene->threads--;
    flow->threads--;
    leave_flow(queue, flow);
    task->flow = NULL;
}

struct fair_task *fair_queue_first(const struct fair_queue *queue)
{
    if (list_is_empty(&queue->scenes))
        return NULL;
    return get_task(get_flow(get_scene(queue->scenes.next)->flows.next)->tasks.next);
}

void fair_queue_remove(struct fair_queue *queue, struct fair_task *task)
{
    stop_waiting(queue, task);
    leave_flow(queue, task->flow);
    task->flow = NULL;
}
