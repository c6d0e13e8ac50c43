/* SPDX-License-Identifier: MIT */
/* What a person does to tasks of the retry queue, on a MySQL or MariaDB connection. Every task is
 * locked by its id before it is looked at, and a key whose head goes is woken in the same
 * transaction, so that any of it may meet an engine at work, and may be done twice. One thread at a
 * time. */
#ifndef OUTBOX_RETRY_STORE_DESK_MYSQL_H
#define OUTBOX_RETRY_STORE_DESK_MYSQL_H

#include "common/db/db.h"
#include "common/err.h"
#include "outbox/retry/retry.h"

#include <stddef.h>
#include <stdint.h>

#define DESK_ROWS_MAX 100 /* in one transaction */

enum desk_action {
    DESK_RUN_NOW, /* waiting: due now; blocked: waiting and due, as if nothing had failed */
    DESK_CANCEL,  /* into the history; its key goes on */
    DESK_UNPARK,  /* blocked: as DESK_RUN_NOW; parked: out of its key's way */
    DESK_SKIP,    /* blocked: as DESK_CANCEL; parked: out of its key's way */
    DESK_REQUEUE, /* a new task from one in the history */
};

enum desk_outcome {
    DESK_DID,
    DESK_WAS_SO,  /* of DESK_REQUEUE: other is the task that was made of it */
    DESK_ACTIVE,  /* of DESK_REQUEUE: other is active with its idempotency key; nothing was done */
    DESK_RUNNING, /* left alone, as the next one */
    DESK_UNFIT,   /* in a state that the action does not change */
    DESK_ENDED,   /* it is in the history */
    DESK_UNKNOWN, /* there is no such task */
};

#define DESK_OUTCOMES (DESK_UNKNOWN + 1)

struct desk_result {
    int64_t id;
    enum desk_outcome outcome;
    enum task_state state; /* it was in, where there is one */
    int64_t other;
};

struct desk_order {
    enum desk_action action;
    unsigned states; /* only tasks in these: bits 1 << task_state; 0: any */
    bool force;      /* of DESK_CANCEL: also what is running */
    const char *by;  /* who ends it */
};

/* All of the tasks, or none; results has room for count. RC_RETRY: nobody knows, and a second time
 * is harmless. */
enum rc desk_mysql_act(struct db *db, const struct desk_order *order, const int64_t *ids,
                       size_t count, struct desk_result *results, struct err *err);

/* What a person puts in the place of what a task holds; NULL: it stays as it is. */
struct desk_edit {
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
enum rc desk_mysql_edit(struct db *db, const struct desk_edit *edit, struct desk_result *result,
                        struct err *err);

#endif
