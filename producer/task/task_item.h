/* SPDX-License-Identifier: MIT */
/* A task between its request, the database and the answer. Pure data; any thread. */
#ifndef PRODUCER_TASK_TASK_ITEM_H
#define PRODUCER_TASK_TASK_ITEM_H

#include "common/buf.h"
#include "outbox/retry/retry.h"
#include "producer/http/request_fault.h"

#include <stdbool.h>
#include <stddef.h>

struct json_t;

/* Tasks in one request. */
#define TASK_ITEMS_MAX 1000

struct task_item {
    struct retry_new_task task; /* points into the next ones */
    struct json_t *tree;
    char *options;
    struct buf params;
    bool bad; /* it is refused for the reason in fault */
    struct request_fault fault;
    struct retry_ticket ticket; /* of an accepted task */
};

#endif
