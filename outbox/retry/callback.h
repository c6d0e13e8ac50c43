/* SPDX-License-Identifier: MIT */
/* Callbacks: a task that is made when another one ends, in the same transaction. The policy of the
 * ended task's scene names the scene and handler of its callbacks; they run by the policy and the
 * limits of their own scene. Decides what a callback carries. Pure; any thread. */
#ifndef OUTBOX_RETRY_CALLBACK_H
#define OUTBOX_RETRY_CALLBACK_H

#include "common/buf.h"
#include "common/err.h"

#include <stddef.h>
#include <stdint.h>

struct json_t;

#define CALLBACK_NAME_SIZE 65

/* Parameters, and a result, of more bytes are left out of a callback: only their size is told. */
#define CALLBACK_BYTES_MAX ((size_t)1 << 20)

/* A task that is made when another task ends. */
struct callback_target {
    char scene[CALLBACK_NAME_SIZE]; /* "": none */
    char handler[CALLBACK_NAME_SIZE];
};

/* Reads {"scene": NAME, "handler": NAME}, or null for none. RC_REJECT: it is neither. */
enum rc callback_target_read(const struct json_t *value, struct callback_target *target,
                             struct err *err);

/* Reads this field of a policy; NULL, a policy that is not valid, or a missing field: none. */
void callback_target_find(const char *policy, const char *field, struct callback_target *target);

/* The task that has ended; texts are NULL where a comment allows it. */
struct callback_task {
    int64_t id;
    const char *group;
    const char *scene;
    const char *ordering_key;    /* NULL: none, as the next ones */
    const char *idempotency_key; /* the task's own, or the hash of what it does */
    const char *biz_no;
    const char *outcome; /* done, exhausted or cancelled */
    int64_t attempts;    /* that failed */
    const char *reason_class;
    const char *reason;
    const char *by;     /* the operator who cancelled it; NULL: none */
    const void *params; /* NULL: none */
    size_t params_len;
    const char *params_type;
    const void *result; /* of its last attempt; NULL: none */
    size_t result_len;
};

/* Appends the parameters of the callback: a JSON object. The task's params, if their type is JSON,
 * and its result stand in it unchanged if they are JSON, otherwise as paramsBase64 and
 * resultBase64. If they are too long, both are null, and paramsBytes or resultBytes has the size.
 */
void callback_put(struct buf *out, const struct callback_task *task);

#endif
