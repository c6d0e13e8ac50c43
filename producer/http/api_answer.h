/* SPDX-License-Identifier: MIT */
/* Answers of the API, and the requests that wait in a queue for theirs. Any thread. */
#ifndef PRODUCER_HTTP_API_ANSWER_H
#define PRODUCER_HTTP_API_ANSWER_H

#include "common/buf.h"
#include "common/http/http.h"
#include "common/metrics.h"
#include "producer/dead/dead_worker.h"
#include "producer/http/request_json.h"
#include "producer/queue.h"
#include "producer/remark/remark_worker.h"
#include "producer/remark/remover.h"
#include "producer/remark/totals_reader.h"
#include "producer/task/task_intake.h"
#include "producer/vote/committer.h"

#include <stdint.h>

/* Answers with JSON. A body that ran out of memory becomes a 503. */
void api_answer(struct http_request *http, int status, struct buf *body);

/* Answers with a fault and its status. wait_ms becomes Retry-After, at least 1 s, for 429 and
 * 503. */
void api_answer_fault(struct http_request *http, const struct request_fault *fault,
                      int64_t wait_ms);

/* The same with a message that needs no format. at: the place, or NULL. */
void api_answer_bad(struct http_request *http, enum request_fault_code code, const char *at,
                    const char *message);

void api_answer_no_memory(struct http_request *http);

/* The database cannot be reached, and nothing was done. */
void api_answer_unavailable(struct http_request *http);

/* Why a request was not done. */
struct api_failure {
    enum queue_verdict verdict; /* QUEUE_TAKEN: it was queued, and ended as `end` says */
    int64_t wait_ms;            /* otherwise: see queue_put() */
    enum queue_end end;
    const struct err *err; /* QUEUE_DONE: the database answers, but not this; NULL: no memory */
};

/* Answers with the status and the words of the failure. unknown: see struct api_pending_kind. */
void api_answer_failure(struct http_request *http, const struct api_failure *failure,
                        const char *unknown);

struct api_pending;

/* What the kinds of requests differ in. */
struct api_pending_kind {
    /* Answers a request that its worker has finished. */
    void (*answer)(struct api_pending *pending);
    /* Frees what the handler added to the request; NULL: nothing. */
    void (*done)(struct api_pending *pending);
    /* Answers a request that was not done, or not taken, with something else than an error; false:
     * it has not answered. It must not read what the worker writes. NULL: never. */
    bool (*stand_in)(struct api_pending *pending, const struct api_failure *failure);
    struct metric *failed; /* adds the weight of a request that was not done; NULL: none */
    /* What a request whose outcome is unknown may have done, and whether it may be sent again;
     * NULL: it changes nothing. */
    const char *unknown;
};

/* A request between the HTTP server's thread and its answer. First member of what a handler
 * allocates. */
struct api_pending {
    union {
        struct queue_entry entry;
        struct committer_request votes;
        struct totals_request totals;
        struct remark_request remarks;
        struct removal_request removal;
        struct task_intake_request tasks;
        struct dead_worker_request dead;
    } request; /* first */
    struct http_request *http;
    const struct api_pending_kind *kind;
};

/* Allocates size zeroed bytes that begin with a struct api_pending. NULL: there was no memory,
 * which has been answered. */
void *api_pending_make(struct http_request *http, const struct api_pending_kind *kind, size_t size);

/* Frees a request that was answered without a queue. */
void api_pending_free(struct api_pending *pending);

/* Puts the request, whose weight is set, into a shard of the queue. From here on it belongs to the
 * queue, or it has been answered and freed. */
void api_pending_put(struct api_pending *pending, struct queue *queue, size_t shard);

#endif
