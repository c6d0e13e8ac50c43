/* SPDX-License-Identifier: MIT */
/* One complete request, as its handler sees it, and its answer. A handler owns the request from the
 * call of the handler to http_answer(), on any thread. */
#ifndef COMMON_HTTP_REQUEST_H
#define COMMON_HTTP_REQUEST_H

#include "common/http/tokens.h"

#include <stddef.h>

struct http_request;

/* The results of these functions are borrowed until the answer. The path is decoded and has no
 * query. */
const char *http_method(const struct http_request *request);
const char *http_path(const struct http_request *request);
const void *http_body(const struct http_request *request, size_t *len);

/* Returns the first query parameter of that name, decoded, "" if it has no value; NULL: the request
 * has no such parameter. */
const char *http_argument(struct http_request *request, const char *name);

/* Returns the value of a header; the case of the name does not matter. NULL: there is no such
 * header. */
const char *http_header(struct http_request *request, const char *name);

/* Returns the scopes of the request's token, or open_scopes if the server has no tokens
 * (guard.h). */
const struct http_scopes *http_scopes(const struct http_request *request);

/* Calls on_argument for every query parameter, so that unknown ones can be refused. */
void http_each_argument(struct http_request *request,
                        void (*on_argument)(void *ctx, const char *name, const char *value),
                        void *ctx);

/* Adds one header to the answer, before http_answer(); the texts are copied. */
void http_answer_header(struct http_request *request, const char *name, const char *value);

/* Answers the request, once; the request must not be used afterwards. body is copied. */
void http_answer(struct http_request *request, int status, const char *content_type,
                 const void *body, size_t len);

#endif
