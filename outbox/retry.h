/* SPDX-License-Identifier: MIT */
/* The public way to hand a task to the retry lane, inside the caller's own transaction: when it
 * commits, the lane runs the task, now or at its time, and again by the rules of its scene; when it
 * does not, there never was a task. Applications in other languages do one INSERT into retry_task.
 *
 * Tasks of one group and ordering key run one at a time and in the order of their ids. One task is
 * active per group, scene and idempotency key. One thread at a time per db. */
#ifndef OUTBOX_RETRY_H
#define OUTBOX_RETRY_H

#include "common/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RETRY_NAME_BYTES_MAX 64 /* group and scene: 1..64 of [A-Za-z0-9_.:-] */
#define RETRY_HANDLER_BYTES_MAX 32
#define RETRY_ORDERING_KEY_CHARS_MAX 512
#define RETRY_IDEMPOTENCY_KEY_CHARS_MAX 255
#define RETRY_BIZ_NO_CHARS_MAX 64
#define RETRY_OPTIONS_BYTES_MAX 65535
#define RETRY_PARAMS_BYTES_MAX ((size_t)16 << 20)
#define RETRY_GROUP_STANDARD "default"

struct db;

struct retry_new_task {
    const char *group; /* NULL: RETRY_GROUP_STANDARD */
    const char *scene;
    const char *handler;
    const char *ordering_key;    /* NULL: no order */
    const char *idempotency_key; /* NULL: the SHA-256 of what the task does */
    const char *biz_no;          /* NULL: none */
    const char *options;         /* a JSON object for the handler, or NULL */
    const void *params;          /* NULL: none */
    size_t params_len;
    const char *params_type; /* NULL: application/json */
    int64_t delay_ms;        /* not before so long from now; 0: at once */
    int64_t parent_id;       /* 0: none */
};

/* Which task stands for it now. */
struct retry_ticket {
    int64_t id;
    bool existed; /* one with this group, scene and idempotency key was active before */
};

/* Appends the tasks in their order; tickets (count of them, or NULL) tell their ids. Borrows
 * everything for the call. RC_REJECT: err names the task and its fault; nothing was written when the
 * fault is in the tasks, a part may have been when the server refused one: roll back. RC_RETRY,
 * RC_FATAL: as db_exec(); the transaction is over. */
enum rc retry_append(struct db *db, const struct retry_new_task *tasks, size_t count,
                     struct retry_ticket *tickets, struct err *err);

#endif
