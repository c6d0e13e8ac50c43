/* SPDX-License-Identifier: MIT */
/* Operator actions on tasks of the retry queue. An action locks every task by its id before it
 * reads it, and wakes a key whose head it removes in the same transaction; so actions may run
 * beside the engine and may be repeated. One thread at a time. */
#ifndef OUTBOX_RETRY_STORE_TASK_ADMIN_MYSQL_H
#define OUTBOX_RETRY_STORE_TASK_ADMIN_MYSQL_H

#include "common/db/db.h"
#include "common/err.h"
#include "outbox/retry/retry.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TASK_ADMIN_ROWS_MAX 100 /* in one transaction */

struct task_admin_edit;

enum task_admin_action {
    TASK_ADMIN_RUN_NOW, /* waiting: due now; blocked: waiting and due, as if nothing had failed */
    TASK_ADMIN_CANCEL,  /* moved into the history, with its callback; its key continues */
    TASK_ADMIN_UNPARK,  /* blocked: as TASK_ADMIN_RUN_NOW; parked: unblocks its key */
    TASK_ADMIN_SKIP,    /* blocked: as TASK_ADMIN_CANCEL; parked: unblocks its key */
    TASK_ADMIN_REQUEUE, /* a new task from one in the history */
};

enum task_admin_outcome {
    TASK_ADMIN_DID,
    TASK_ADMIN_WAS_SO,  /* of TASK_ADMIN_REQUEUE: other is the task that was made of it */
    TASK_ADMIN_ACTIVE,  /* of TASK_ADMIN_REQUEUE: other is active with its idempotency key; nothing
                           was done */
    TASK_ADMIN_RUNNING, /* left alone, as the next one */
    TASK_ADMIN_UNFIT,   /* in a state that the action does not change */
    TASK_ADMIN_ENDED,   /* it is in the history */
    TASK_ADMIN_UNKNOWN, /* there is no such task */
};

#define TASK_ADMIN_OUTCOMES (TASK_ADMIN_UNKNOWN + 1)

struct task_admin_result {
    int64_t id;
    enum task_admin_outcome outcome;
    enum task_state state; /* it was in, where there is one */
    int64_t other;
    char ended[RETRY_OUTCOME_SIZE]; /* of TASK_ADMIN_ENDED: how it has ended, as "done" */
};

/* Returns whether the task is not as the action asks for, and was left unchanged. A task that was
 * cancelled, unparked or requeued before is as asked for. Pure; any thread. */
bool task_admin_is_left(enum task_admin_action action, const struct task_admin_result *result);

struct task_admin_order {
    enum task_admin_action action;
    unsigned states; /* only tasks in these: bits 1 << task_state; 0: any */
    bool force;      /* of TASK_ADMIN_CANCEL: also running tasks */
    const char *by;  /* name of the operator */
    const char *why; /* in the operator's words; NULL or "": not given */
    /* Of TASK_ADMIN_REQUEUE: options and params of the new tasks; NULL: as they were. */
    const struct task_admin_edit *content;
    int64_t audit_id; /* of audit_mysql_begin(); 0: the action has no row */
};

/* *now_ms: the database's clock, in milliseconds since 1970. RC_RETRY, RC_FATAL: as db_number(). */
enum rc task_admin_mysql_now(struct db *db, int64_t *now_ms, struct err *err);

/* Acts on all of the tasks, or on none; results has room for count. RC_RETRY: the outcome is
 * unknown, and repeating the call is harmless. */
enum rc task_admin_mysql_act(struct db *db, const struct task_admin_order *order,
                             const int64_t *ids, size_t count, struct task_admin_result *results,
                             struct err *err);

/* New content of a task; NULL: unchanged. */
struct task_admin_edit {
    int64_t id;
    int64_t epoch; /* of the task when the content was made; it has another one since: RC_RETRY */
    const char *options; /* "": none */
    const void *params;
    size_t params_len;
    bool no_params;   /* instead of params: NULL */
    const char *by;   /* name of the operator */
    const char *why;  /* in the operator's words; NULL or "": not given */
    const char *what; /* for the operator's log: "headers, params" */
    int64_t audit_id; /* as in struct task_admin_order */
};

/* Replaces options or parameters of a task that waits, is queued or is blocked, and records that in
 * retry_attempt; its state stays. A task without an idempotency key gets the hash that it was sent
 * with before. Running, parked and ended tasks are left unchanged, as result
 * reports. An attempt that was claimed before finds another epoch. RC_REJECT with DB_DUPLICATE:
 * another active task without an idempotency key does the same, or did before it was edited.
 * RC_RETRY: the outcome is unknown, or the task was changed meanwhile; make the edit again from
 * what the task is now. */
enum rc task_admin_mysql_edit(struct db *db, const struct task_admin_edit *edit,
                              struct task_admin_result *result, struct err *err);

#endif
