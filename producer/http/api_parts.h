/* SPDX-License-Identifier: MIT */
/* What the files of the API share: answers, arguments and the handlers. */
#ifndef PRODUCER_HTTP_API_PARTS_H
#define PRODUCER_HTTP_API_PARTS_H

#include "common/buf.h"
#include "common/http/http.h"
#include "producer/http/api.h"
#include "producer/http/fault.h"
#include "producer/queue.h"

#include <stdbool.h>
#include <stdint.h>

struct api {
    struct api_config config;
    struct http_server *server;
};

/* Handlers of one path and method; the path has been looked at. */
void api_post_votes(struct api *api, struct http_request *request);
void api_get_votes(struct api *api, struct http_request *request);
void api_get_content(struct api *api, struct http_request *request, const char *content_id);
void api_post_tasks(struct api *api, struct http_request *request);
void api_get_tasks(struct api *api, struct http_request *request);
void api_get_task(struct api *api, struct http_request *request, const char *id);

/* Is the body called application/json, and are there no query arguments? A fault was answered
 * already when it returns false. */
bool api_body_is_json(struct http_request *request);

/* Answer with JSON, or with a fault and its status. A failed body becomes a 503. */
void api_answer(struct http_request *request, int status, struct buf *body);
void api_answer_fault(struct http_request *request, const struct fault *fault, int64_t wait_ms);

/* A queue turned the request away, or ended it otherwise than QUEUE_DONE. `what` may have happened:
 * "the votes may have been counted", or NULL where nothing can. */
void api_answer_verdict(struct http_request *request, enum queue_verdict verdict, int64_t wait_ms);
void api_answer_end(struct http_request *request, enum queue_end end, const char *what);
void api_answer_no_memory(struct http_request *request);

/* The query arguments that may be there; NULL: not given. A fault was answered already when it
 * returns false. */
struct api_arguments {
    const char *voter_id;
    const char *content_ids;
    const char *biz_no;
    const char *scene;
    const char *group;
    const char *state;
    const char *limit;
    const char *after;
};

enum { API_VOTER_ID = 1, API_CONTENT_IDS = 2, API_OF_TASKS = 4 };

bool api_arguments_read(struct http_request *request, unsigned allowed,
                        struct api_arguments *arguments);

#endif
