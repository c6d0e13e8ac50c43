/* SPDX-License-Identifier: MIT */
/* A remark in the body of a request: POST /v1/remarks and PATCH /v1/remarks/{id}. Pure; any
 * thread. */
#ifndef PRODUCER_REMARK_REMARK_JSON_H
#define PRODUCER_REMARK_REMARK_JSON_H

#include "common/err.h"
#include "producer/http/request_json.h"
#include "producer/remark/remark_ops.h"

#include <stddef.h>
#include <stdint.h>

/* A client may choose an id up to this one. Higher ones are left to AUTO_INCREMENT, which ends at
 * 2^63-1. */
#define REMARK_ID_MAX (INT64_MAX - (INT64_C(1) << 32))

struct remark_json {
    struct remark_values values; /* texts point into the tree */
    int64_t id;                  /* 0: not given */
    void *tree;                  /* a json_t */
};

enum remark_json_kind { REMARK_JSON_NEW, REMARK_JSON_CHANGE };

/* Sets up `remark`, which the caller frees with remark_json_done() after any result. RC_REJECT: the
 * body is refused for the reason in *fault. RC_FATAL: no memory. */
enum rc remark_json_parse(struct remark_json *remark, enum remark_json_kind kind, const char *body,
                          size_t len, struct request_fault *fault);
void remark_json_done(struct remark_json *remark);

#endif
