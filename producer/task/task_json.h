/* SPDX-License-Identifier: MIT */
/* Tasks as JSON, requests and answers. A body is one task or an array of 1..1000:
 *
 *     {"scene":"mail","handler":"http","params":{"to":"a@example.org"},"bizNo":"4711"}
 *
 * scene and handler are required; group, orderingKey, idempotencyKey, bizNo, options (an object),
 * params (any JSON value, kept as its text) or paramsBase64, paramsType and delayMs are optional.
 * The answer is {"id":17,"existed":false}, an array for an array, in the same order. In an array a
 * bad item fails alone, and an error (producer/http/request_json.h) stands in its place. Pure; any
 * thread. */
#ifndef PRODUCER_TASK_TASK_JSON_H
#define PRODUCER_TASK_TASK_JSON_H

#include "common/buf.h"
#include "common/err.h"
#include "outbox/retry/first_try.h"
#include "outbox/retry/operate.h"
#include "outbox/retry/retry.h"
#include "producer/http/request_json.h"

#include <stdbool.h>
#include <stddef.h>

struct json_t;

/* Tasks in one request. */
#define TASK_ITEMS_MAX 1000

/* A longer answer to a first try is left out. */
#define TASK_JSON_ANSWER_BYTES_MAX ((size_t)65536)

/* A task between its request, the database and the answer. */
struct task_item {
    struct retry_new_task task; /* points into the next ones */
    struct json_t *tree;
    char *options;
    struct buf params;
    bool bad; /* it is refused for the reason in fault */
    struct request_fault fault;
    struct retry_ticket ticket; /* of an accepted task */
};

struct task_json {
    bool array;
    size_t count;
    struct task_item *items;
};

/* Sets up `tasks`, which the caller frees with task_json_done() after any result. RC_REJECT: the
 * whole body is refused for the reason in *fault. RC_FATAL: no memory. */
enum rc task_json_parse(struct task_json *tasks, const char *body, size_t len,
                        struct request_fault *fault);
void task_json_done(struct task_json *tasks);

/* Whether text is a name of a group, scene or handler; whether it is UTF-8 of 1 to characters_max
 * characters. */
bool task_json_is_name(const char *text, size_t bytes_max);
bool task_json_is_text(const char *text, size_t characters_max);

/* The number of good tasks. */
size_t task_json_good(const struct task_json *tasks);

/* Appends the answer when every good task has its ticket. False: the body was one task, which is
 * refused for the reason in *fault; nothing was appended. */
bool task_json_answer(const struct task_json *tasks, struct buf *out, struct request_fault *fault);

/* Appends what became of a task that was to be tried first; its answer as result if it is JSON,
 * otherwise as resultBase64. */
/* Do options that a client has given say what is called, and not only with which parameters? Then
 * it does not get the answer of the call, so that a token for tasks does not read what a host of
 * retry.http_hosts has, perhaps with the headers of the scene. NULL: there are none. */
bool task_json_names_call(const char *options);

void task_json_put_try(struct buf *out, const struct first_try_result *result);

/* Appends a task without its closing '}'. whole: with options and parameters, as params if they are
 * JSON, otherwise as paramsBase64. */
void task_json_put(struct buf *out, const struct retry_view *view, bool whole);
/* Appends the end of a page: "more", and "after", by which the next one is asked for; null if there
 * is no next one. */
void task_json_put_page_end(struct buf *out, bool more, int64_t after);
/* Appends one action of an operator. */
void task_json_put_action(struct buf *out, const struct retry_action_view *view);
/* Appends one attempt of a task. */
void task_json_put_attempt(struct buf *out, const struct retry_attempt_view *attempt);

#endif
