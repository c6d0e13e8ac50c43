/* SPDX-License-Identifier: MIT */
/* What a person does to tasks of the retry queue, on a MySQL or MariaDB connection. Every task is
 * locked by its id before it is looked at, and a key whose head goes is woken in the same
 * transaction, so that any of it may meet an engine at work, and may be done twice. One thread at a
 * time. */
#ifndef OUTBOX_RETRY_STORE_TASK_ADMIN_MYSQL_H
#define OUTBOX_RETRY_STORE_TASK_ADMIN_MYSQL_H

#include "common/db/db.h"
#include "common/err.h"
#include "outbox/retry/retry.h"

#include <stddef.h>
#include <stdint.h>

#define TASK_ADMIN_ROWS_MAX 100 /* in one transaction */

enum task_admin_action {
    TASK_ADMIN_RUN_NOW, /* waiting: due now; blocked: waiting and due, as if nothing had failed */
    TASK_ADMIN_CANCEL,  /* into the history; its key goes on */
    TASK_ADMIN_UNPARK,  /* blocked: as TASK_ADMIN_RUN_NOW; parked: out of its key's way */
    TASK_ADMIN_SKIP,    /* blocked: as TASK_ADMIN_CANCEL; parked: out of its key's way */
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
};

struct task_admin_order {
    enum task_admin_action action;
    unsigned states; /* only tasks in these: bits 1 << task_state; 0: any */
    bool force;      /* of TASK_ADMIN_CANCEL: also what is running */
    const char *by;  /* who ends it */
};

/* *now_ms: the database's clock, in milliseconds since 1970. RC_RETRY, RC_FATAL: as db_number(). */
enum rc task_admin_mysql_now(struct db *db, int64_t *now_ms, struct err *err);

/* All of the tasks, or none; results has room for count. RC_RETRY: nobody knows, and a second time
 * is harmless. */
enum rc task_admin_mysql_act(struct db *db, const struct task_admin_order *order,
                             const int64_t *ids, size_t count, struct task_admin_result *results,
                             struct err *err);

/* What a person puts in the place of what a task holds; NULL: it stays as it is. */
struct task_admin_edit {
    int64_t id;
    const char *options; /* "": none */
    const void *params;
    size_t params_len;
};

/* A task that waits, is queued or is blocked gets other options or parameters, and stays in its
 * state; a running, parked or ended one is left alone, as result says. An attempt whose claim began
 * before finds another epoch. RC_REJECT with DB_DUPLICATE: another active task without an
 * idempotency key does the same. RC_RETRY: the outcome is unknown, and a second time is
 * harmless. */
enum rc task_admin_mysql_edit(struct db *db, const struct task_admin_edit *edit,
                              struct task_admin_result *result, struct err *err);

#endif
