/* SPDX-License-Identifier: MIT */
/* Changes of scenes and groups as JSON, requests and answers. A body is an object:
 *
 *     {"version": 3, "policy": {"attempts": 5}, "options": null, "reason": "...", "by": "ann"}
 *     {"version": 0, "handlers": "http", "scenes": "*", "topics": "", "initScene": "refuse",
 *      "route": "lru", "shards": "0-3", "description": "..."}
 *
 * version, that of the row which the change is based on, is required where values are set. null
 * removes a policy or options. Pure; any thread. */
#ifndef PRODUCER_TASK_CHANGE_JSON_H
#define PRODUCER_TASK_CHANGE_JSON_H

#include "common/buf.h"
#include "common/err.h"
#include "outbox/retry/change.h"
#include "producer/http/request_json.h"
#include "producer/task/operation_json.h"

#include <stddef.h>

struct json_t;

struct change_json {
    struct retry_change change; /* points into the next ones; policy may be "preset:NAME" */
    struct json_t *tree;
    struct buf policy;
    struct buf options;
    struct buf init_scene;
    char by[OPERATION_BY_SIZE];
};

/* Sets up `json`, which the caller frees with change_json_done() after any result. token: the name
 * of the request's token. RC_REJECT: the body is refused for the reason in *fault. RC_FATAL: no
 * memory. */
enum rc change_json_parse(struct change_json *json, enum retry_change_kind kind, const char *token,
                          const char *body, size_t len, struct request_fault *fault);
void change_json_done(struct change_json *json);

/* Append a scene or a group as a JSON object; counts NULL: without them. */
void change_json_put_scene(struct buf *out, const struct retry_scene_view *view,
                           const struct retry_scene_counts *counts);
void change_json_put_group(struct buf *out, const struct retry_group *group);

#endif
