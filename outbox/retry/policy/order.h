/* SPDX-License-Identifier: MIT */
/* Decides which candidates of a claim run, are queued or are left. Invariant Q1: tasks of one
 * ordering key run one at a time, in the order of their ids. Pure; any thread.
 *
 * The claiming transaction has locked the candidates. It reads the tasks ahead of them without
 * waiting for locks, and then locks them where that is possible.
 *
 * Invariant Q2: a task becomes queued only while a task ahead of it is locked. The transaction that
 * ends the task ahead therefore comes later, sees the queued task and wakes it. If the task ahead
 * cannot be locked, another transaction is changing it: the candidate is left for the next
 * claim. */
#ifndef OUTBOX_RETRY_POLICY_ORDER_H
#define OUTBOX_RETRY_POLICY_ORDER_H

#include "outbox/retry/retry_ops.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ORDER_NO_KEY SIZE_MAX

/* A group and ordering key: HEX(retry_task.order_hash). */
struct order_key {
    char hash[65];
};

/* A task that may be ahead of others of its key. */
struct order_task {
    int64_t id; /* 0: there is none */
    enum task_state state;
    bool held; /* locked, and still in this state */
};

/* All that can be ahead in a key. */
struct order_ahead {
    struct order_task busy;    /* it runs, is blocked or parked: ahead of all */
    struct order_task waiting; /* the one with the smallest id */
    struct order_task queued;  /* the one with the smallest id */
};

enum order_decision { ORDER_RUN, ORDER_QUEUE, ORDER_LEAVE };

struct order_candidate {
    int64_t id;
    size_t key; /* its place among the keys, or ORDER_NO_KEY */
    enum order_decision decision;
};

/* Decides about each candidate; at most run_max candidates, the first ones, run. ahead: one for
 * each key. */
void order_decide(struct order_candidate *candidates, size_t count, const struct order_ahead *ahead,
                  size_t run_max);

/* Returns the task of a key that runs next when no task is busy: the waiting or queued task with
 * the smallest id; its id is 0 if there is none. */
struct order_task order_head(const struct order_ahead *ahead);

#endif
