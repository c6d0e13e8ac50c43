/* SPDX-License-Identifier: MIT */
/* The HTTP API for votes, for lists of remarks, and for tasks of the retry queue. api_routes.c has
 * its paths, docs/openapi.yaml describes them for clients.
 *
 * HEAD works as GET; OPTIONS names the methods of a path. An array is answered with 200 even if all
 * its items are bad: an error stands in the place of each bad item. Every error is JSON
 * (producer/http/request_json.h). 429 and 503 carry Retry-After, and the same request may be sent
 * again: voting is idempotent. A 503 with the code "unavailable" means that nothing was done; with
 * "timeout" the message says whether the votes may have been counted.
 *
 * Handlers run on the server's thread and only put requests into queues; the answers come from the
 * threads of the workers. */
#ifndef PRODUCER_HTTP_API_H
#define PRODUCER_HTTP_API_H

#include "common/config/settings.h"
#include "common/err.h"
#include "producer/http/api_routes.h"

struct api;

/* Checks the settings of the API, its address and its files, without taking the port. Fails as
 * api_open() does. */
enum rc api_check(const struct settings *settings, struct err *err);

/* Listens and serves at once. RC_FATAL: err names the address and the reason, or there is no
 * memory. RC_REJECT: err names the setting that is wrong. */
enum rc api_open(struct api **api, const struct api_config *config, struct err *err);

/* Accepts no new connections; answers ask the clients of open ones to close them. */
void api_quiesce(struct api *api);

/* Stops the server. Every queued request must have been answered before. */
void api_close(struct api *api);

/* The port it listens on, and "http" or "https". */
int api_port(const struct api *api);
const char *api_scheme(const struct api *api);

#endif
