/* SPDX-License-Identifier: MIT */
/* Inserts tasks into the retry queue, finds them again and registers clients: a worker of the task
 * queue. Decides which tasks are refused because their scene is full or their handler or group does
 * not accept them. A request belongs to the thread that makes it until it is queued. */
#ifndef PRODUCER_TASK_TASK_INTAKE_H
#define PRODUCER_TASK_TASK_INTAKE_H

#include "common/buf.h"
#include "common/err.h"
#include "common/loop.h"
#include "outbox/retry/clients/client.h"
#include "producer/producer_ops.h"
#include "producer/queue.h"
#include "producer/task/task_json.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct first_try_result;
struct retry_handlers;

enum task_intake_kind {
    TASK_INTAKE_SUBMIT,
    TASK_INTAKE_LIST,
    TASK_INTAKE_SHOW,
    TASK_INTAKE_OPERATE,
    TASK_INTAKE_AUDIT,
    TASK_INTAKE_BEAT,
    TASK_INTAKE_CONFIG,
    TASK_INTAKE_CLIENTS,
    TASK_INTAKE_CHANGE,
    TASK_INTAKE_SCENES,
    TASK_INTAKE_GROUPS,
};

/* entry.weight is the number of submitted tasks, or 1. After QUEUE_DONE either failed is set and
 * fault has the reason why nothing was done, or items or body hold the answer. */
struct task_intake_request {
    struct queue_entry entry; /* first */
    enum task_intake_kind kind;
    struct task_item *items; /* of TASK_INTAKE_SUBMIT: each good one gets a ticket or becomes bad */
    size_t count;
    struct first_try_result *first_try; /* of a single task that is to be tried first: what became
                                           of it, or why it was not tried; else NULL */
    bool sent;  /* of TASK_INTAKE_SUBMIT: an INSERT of its tasks may have been committed, without an
                   answer; what was good then stays good */
    bool ended; /* of TASK_INTAKE_LIST: tasks of the history */
    size_t rows_max;
    struct retry_filter filter; /* of TASK_INTAKE_SHOW: one id */
    int64_t id;
    struct retry_operation *operation;  /* of TASK_INTAKE_OPERATE */
    struct retry_action_filter actions; /* of TASK_INTAKE_AUDIT */
    const struct retry_beat *beat;      /* of TASK_INTAKE_BEAT */
    const char *group;                  /* of TASK_INTAKE_CONFIG, as the next ones */
    const char *known;                  /* the header If-None-Match, or "" */
    const char *after_address;          /* of TASK_INTAKE_CLIENTS, which uses group; NULL: none */
    bool is_known; /* the answer: the client has this version, and body is empty */
    char config_version[RETRY_CONFIG_VERSION_SIZE];
    struct retry_change *change;      /* of TASK_INTAKE_CHANGE, checked */
    struct retry_scene_filter scenes; /* of TASK_INTAKE_SCENES; of TASK_INTAKE_GROUPS, which uses
                                         group and after_group */
    struct buf body;                  /* the answer as JSON, but for TASK_INTAKE_SUBMIT */
    bool failed;
    struct request_fault fault;
};

struct task_intake_config {
    struct queue *queue;
    size_t shard;
    const struct task_store *store;
    const struct retry_handlers *handlers; /* borrowed; NULL: any handler is accepted */
    int64_t (*clock_ms)(void);             /* os_now_ms() */
    uint64_t (*rng)(void);                 /* os_random_u64() */
    struct stop *stop;                     /* of the process */
};

/* The request is answered with the reason: RC_FATAL, the retry queue cannot be used; RC_REJECT, the
 * database refuses a task. */
void task_intake_fail(struct task_intake_request *request, enum rc rc, const struct err *err);

/* Whether there is a handler of this name. handlers NULL: any name is accepted. Any thread. */
bool task_intake_knows_handler(const struct retry_handlers *handlers, const char *name);

struct task_intake;

/* RC_FATAL: no memory. */
enum rc task_intake_open(struct task_intake **intake, const struct task_intake_config *config,
                         struct err *err);
void task_intake_close(struct task_intake *intake);

/* A loop_step. */
int64_t task_intake_step(void *intake, int64_t now_ms);

#endif
