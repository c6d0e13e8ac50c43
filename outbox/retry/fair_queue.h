/* SPDX-License-Identifier: MIT */
/* The claimed tasks that wait for a thread, and which of them a free thread runs next: a task of
 * the scene that has the fewest threads, and within the scene a task of the destination that has
 * the fewest; equal ones take turns, and tasks of one scene and destination run in the order in
 * which they were queued.
 *
 * Invariant Q8: with two threads or more, the last free thread runs only a task of a scene that has
 * no thread. So one scene never has all threads. While fewer scenes than threads have slow tasks,
 * the first task of another scene finds a free thread; if it is slow too, a thread is free again
 * when the next task ends. With more slow scenes a task waits for the next free thread, behind the
 * other scenes that have none.
 *
 * Pure. The caller's lock guards a queue and everything in it except threads_max. */
#ifndef OUTBOX_RETRY_FAIR_QUEUE_H
#define OUTBOX_RETRY_FAIR_QUEUE_H

#include "common/err.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

/* An entry of a circular list, or its head. */
struct fair_link {
    struct fair_link *next;
    struct fair_link *prev;
};

struct fair_flow;

/* A scene in the queue. */
struct fair_scene {
    struct fair_link link;  /* in the list of scenes whose tasks wait; first */
    struct fair_link flows; /* its flows whose tasks wait */
    struct fair_flow *used; /* its flows that have a task in the queue or on a thread */
    size_t threads;         /* that run its tasks */
    size_t waiting;
    atomic_size_t threads_max; /* 0: no limit; set by any thread */
};

/* The tasks of one scene and one destination. */
struct fair_flow {
    struct fair_link link;  /* in the scene's list of flows whose tasks wait; first */
    struct fair_link tasks; /* that wait, the first one first */
    struct fair_scene *scene;
    const void *destination;
    size_t threads;
    size_t count; /* tasks that wait or are on a thread */
    struct fair_flow *next;
};

/* A claimed task. */
struct fair_task {
    struct fair_link link; /* first */
    struct fair_flow *flow;
    bool waits; /* for a thread */
};

struct fair_queue {
    struct fair_link scenes;
    struct fair_flow *flows;
    struct fair_flow *free;
    size_t threads;
    size_t busy;
    size_t waiting;
};

/* Allocates a queue for at most tasks_max tasks that wait or are on a thread. RC_FATAL: no memory.
 */
enum rc fair_queue_init(struct fair_queue *queue, size_t tasks_max, size_t threads,
                        struct err *err);
/* Frees the memory. A zeroed queue is allowed. */
void fair_queue_done(struct fair_queue *queue);

/* Initialises a scene. It must stay valid while a task of it is in the queue or on a thread. */
void fair_scene_init(struct fair_scene *scene);

/* Adds a waiting task. The pointer destination only identifies the destination. */
void fair_queue_put(struct fair_queue *queue, struct fair_scene *scene, const void *destination,
                    struct fair_task *task);

/* Takes the task that a free thread runs until fair_queue_end(). NULL: no task may run now. */
struct fair_task *fair_queue_take(struct fair_queue *queue);

/* Records that the thread that took the task is free again. */
void fair_queue_end(struct fair_queue *queue, struct fair_task *task);

/* Returns any task that waits; NULL: none does. */
struct fair_task *fair_queue_first(const struct fair_queue *queue);

/* Removes a task that waits. */
void fair_queue_remove(struct fair_queue *queue, struct fair_task *task);

#endif
