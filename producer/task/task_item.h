/* SPDX-License-Identifier: MIT */
/* Tasks for the retry queue on their way from a request to the database and back. Pure data; any
 * thread. */
#ifndef PRODUCER_TASK_TASK_ITEM_H
#define PRODUCER_TASK_TASK_ITEM_H

#include "common/buf.h"
#include "outbox/retry/retry.h"
#include "producer/http/request_fault.h"

#include <stdbool.h>
#include <stddef.h>

struct json_t;

/* In one request. */
#define TASK_ITEMS_MAX 1000

struct task_item {
    struct retry_new_task task; /* points into the next ones */
    struct json_t *tree;
    char *options;
    struct buf params;
    bool bad; /* it will not be taken, for the reason in fault */
    struct request_fault fault;
    struct retry_ticket ticket; /* of one that was taken */
};

#endif
