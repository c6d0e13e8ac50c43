/* SPDX-License-Identifier: MIT */
/* Dead records as JSON, and the bodies of the requests that replay or drop them. The body for one
 * record is an object in which all fields are optional:
 *
 *     {"reason": "...", "by": "ann", "value": {...}, "valueBase64": "...", "ignoreKey": true}
 *
 * Only a replay takes the last three. That for many records names the action, and selects records:
 *
 *     {"action": "replay", "ids": [17, 18], "topic": "...", "partition": 0, "reasonClass":
 * "decode", "key": "42", "since": 0, "until": 1795600000000, "all": false, "limit": 100, "dryRun":
 * true, "ignoreKey": true, "reason": "...", "by": "ann"}
 *
 * Pure; any thread. */
#ifndef PRODUCER_DEAD_DEAD_JSON_H
#define PRODUCER_DEAD_DEAD_JSON_H

#include "common/buf.h"
#include "common/err.h"
#include "consumer/dead/dead_admin.h"
#include "producer/http/request_json.h"
#include "producer/task/operation_json.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct json_t;

#define DEAD_JSON_IDS_MAX 200
#define DEAD_JSON_ROWS 100      /* of an action on many records, by default */
#define DEAD_JSON_ROWS_MAX 1000 /* at most */
#define DEAD_TOPIC_BYTES_MAX 249
#define DEAD_CLASS_BYTES_MAX 32
#define DEAD_KEY_CHARS_MAX 255
#define DEAD_VALUE_BYTES_MAX 65536 /* as long as a vote may be */

enum dead_json_kind {
    DEAD_JSON_REPLAY, /* of one record, as the next one */
    DEAD_JSON_DROP,
    DEAD_JSON_MANY,
};

struct dead_json {
    struct dead_operation operation; /* points into the next ones */
    bool dry_run;
    struct json_t *tree;
    struct buf value;
    int64_t ids[DEAD_JSON_IDS_MAX];
    char by[OPERATION_BY_SIZE]; /* "ann (token:1a2b3c4d)" */
};

/* Whether the text can be the name of a topic, a class of reasons, or a key of the filter. */
bool dead_json_is_topic(const char *text);
bool dead_json_is_class(const char *text);
bool dead_json_is_key(const char *text);

/* Sets up `json`, which the caller frees with dead_json_done() after any result, and which must not
 * be moved: operation points into it. token: the name of the request's token. RC_REJECT: the body
 * is refused for the reason in *fault. RC_FATAL: no memory. */
enum rc dead_json_parse(struct dead_json *json, enum dead_json_kind kind, const char *token,
                        const char *body, size_t len, struct request_fault *fault);
void dead_json_done(struct dead_json *json);

/* Appends a record as a JSON object; whole: with payload and headers. Bytes that are no UTF-8 are
 * base64 in a member of another name. */
void dead_json_put(struct buf *out, const struct dead_view *view, bool whole);

/* Appends a record that stays dead. */
void dead_json_put_result(struct buf *out, const struct dead_result *result);

/* How a record ended, as dead_history has it; static. NULL: it stays dead. */
const char *dead_json_outcome(enum dead_outcome outcome);

#endif
