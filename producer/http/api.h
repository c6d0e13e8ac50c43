/* SPDX-License-Identifier: MIT */
/* The HTTP API for votes, and for tasks of the retry queue.
 *
 *     POST /v1/votes                                one vote or an array: producer/vote/vote_json.h
 *     GET  /v1/contents/{id}/votes[?voterId=V]      {"contentId","votes"[,"voterId","voting"]}
 *     GET  /v1/votes?voterId=V&contentIds=1,2,...   an array of the same, 1 to 200 of them, in the
 *                                                   order asked for
 *
 *     POST /v1/tasks                                one task or an array: producer/task/task_json.h
 *     GET  /v1/tasks?bizNo=B&scene=S&group=G&state=T&limit=N&after=ID
 *                                                   {"tasks":[...],"more":true,"after":17}
 *     GET  /v1/tasks/{id}                           the task with its attempts
 *
 * HEAD works as GET; OPTIONS names the methods. An array is answered 200 even if all its items are
 * bad: each says so itself. A body must be application/json and say so. Every error is JSON
 * (producer/http/fault.h); 401 says that a bearer token is missing or wrong, 403 which scope it
 * lacks (common/http/tokens.h); 429 and 503 carry Retry-After, and a vote they refuse may be sent
 * again as it is: voting is idempotent. A 503 with code "unavailable" means that nothing was done;
 * with "timeout" the sentence says whether the vote may have been counted.
 *
 * Handlers run on the server's thread and only queue; answers come from workers' threads. */
#ifndef PRODUCER_HTTP_API_H
#define PRODUCER_HTTP_API_H

#include "common/config/settings.h"
#include "common/err.h"
#include "producer/queue.h"

#include <stddef.h>

struct api;
struct retry_handlers;

struct api_config {
    const struct settings *settings;       /* [api]; borrowed until the close */
    struct queue *votes;                   /* commit_request; borrowed, as reads */
    struct queue *reads;                   /* lookup_request */
    struct queue *tasks;                   /* task_intake_request */
    const struct retry_handlers *handlers; /* that tasks may name; NULL: any */
    size_t shards;                         /* of each queue */
};

/* Listens and serves at once. RC_FATAL: err says which address and why, or no memory. RC_REJECT:
 * which setting is wrong. */
enum rc api_open(struct api **api, const struct api_config *config, struct err *err);

/* Takes no new connections; those there are asked to close with their next answer. */
void api_quiesce(struct api *api);

/* Every queued request must have been answered. */
void api_close(struct api *api);

/* The port it listens on, and "http" or "https". */
int api_port(const struct api *api);
const char *api_scheme(const struct api *api);

#endif
