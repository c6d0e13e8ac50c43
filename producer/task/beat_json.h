/* SPDX-License-Identifier: MIT */
/* The body of a client's beat, and the answers about the configuration of a group:
 *
 *     {"group": "default", "address": "http://10.0.0.7:8080/jobs", "version": "1.4.2",
 *      "failedReports": 0}
 *
 * Only the address is required. Pure; any thread. */
#ifndef PRODUCER_TASK_BEAT_JSON_H
#define PRODUCER_TASK_BEAT_JSON_H

#include "common/buf.h"
#include "common/err.h"
#include "outbox/retry/clients/client.h"
#include "producer/http/request_json.h"

#include <stddef.h>

struct json_t;

struct beat_json {
    struct retry_beat beat; /* points into the next ones */
    struct json_t *tree;
    char address[RETRY_CLIENT_ADDRESS_SIZE];
};

/* Sets up `json`, which the caller frees with beat_json_done() after any result. hosts: the setting
 * retry.http_hosts. RC_REJECT: the body is refused for the reason in *fault. RC_FATAL: no memory.
 */
enum rc beat_json_parse(struct beat_json *json, const char *hosts, const char *body, size_t len,
                        struct request_fault *fault);
void beat_json_done(struct beat_json *json);

/* Appends the answer to a beat. */
void beat_json_put_answer(struct buf *out, const char *config_version);

/* Appends a client as a JSON object. */
void beat_json_put_client(struct buf *out, const struct retry_client_view *view);

/* Append the configuration of a group: its head, each scene (first: it is the first one), and the
 * end. policy: JSON or NULL. */
void beat_json_put_group(struct buf *out, const struct retry_group *group,
                         const char *config_version);
void beat_json_put_scene(struct buf *out, const char *scene, bool paused, const char *policy,
                         bool first);
void beat_json_put_end(struct buf *out);

#endif
