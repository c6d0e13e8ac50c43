/* SPDX-License-Identifier: MIT */
/* The body of an operator's action on one task, a JSON object in which all fields are optional:
 *
 *     {"reason": "the customer left", "by": "ann", "force": true, "skip": true,
 *      "options": {...}, "headers": {...}, "params": ..., "paramsBase64": "...", "noParams": true}
 *
 * Decides which fields an action takes. Pure; any thread. */
#ifndef PRODUCER_TASK_OPERATION_JSON_H
#define PRODUCER_TASK_OPERATION_JSON_H

#include "common/buf.h"
#include "common/err.h"
#include "outbox/retry/operate.h"
#include "producer/http/request_json.h"

#include <stdbool.h>
#include <stddef.h>

struct json_t;

#define OPERATION_BY_CHARS_MAX 64
#define OPERATION_REASON_CHARS_MAX 512
#define OPERATION_BY_SIZE (4 * OPERATION_BY_CHARS_MAX + 32)

struct operation_json {
    struct retry_operation operation; /* points into the next ones */
    struct json_t *tree;
    struct buf options;
    struct buf headers;
    struct buf params;
    char by[OPERATION_BY_SIZE]; /* "ann (token:1a2b3c4d)" */
};

/* The fields that all actions have. False: the value is refused for the reason in *fault. *why
 * points into the value. by: "token:..." before and "NAME (token:...)" afterwards: any client can
 * say who it is. */
bool operation_json_take_reason(const struct json_t *value, const char **why,
                                struct request_fault *fault);
bool operation_json_take_by(const struct json_t *value, char by[OPERATION_BY_SIZE],
                            struct request_fault *fault);

/* Sets up `json`, which the caller frees with operation_json_done() after any result. token: the
 * name of the request's token. RC_REJECT: the body is refused for the reason in *fault. RC_FATAL:
 * no memory. */
enum rc operation_json_parse(struct operation_json *json, enum retry_operation_kind kind,
                             const char *token, const char *body, size_t len,
                             struct request_fault *fault);
void operation_json_done(struct operation_json *json);

#endif
