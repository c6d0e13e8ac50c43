/* SPDX-License-Identifier: MIT */
/* The handler `http`: calls a host of retry.http_hosts with the task's params as the body. The
 * body of the answer is the result of the step. The option `ok` decides whether the attempt
 * succeeded: by the status, or by values in the answer, which is JSON then. The class of a failure
 * is decided by policy.c from the status: the rules of the scene, then default_rules. The header
 * Retry-After delays the next attempt, and tallybox-no-retry ends the task. The options of a task
 * are
 *
 *     {"method": "POST", "url": URL or "urls": [URL, ...], "headers": {NAME: VALUE},
 *      "timeout": "10s", "ok": "200-299,409" or {"status": "200-299", "/code": 0}}
 *
 * or have "path": "/..." in place of the URL: the task goes to a live client of its group (see
 * clients/clients.h), whose address precedes the path; to another one in the same attempt only if
 * no byte was sent. Without a live client the task waits, and no attempt is counted. A URL or a
 * path is required, the rest is optional. The names in `ok` that begin with "/" are JSON pointers
 * (RFC 6901). This file also decides which texts may be header values. The functions on options are
 * pure; any thread. */
#ifndef OUTBOX_RETRY_HANDLERS_HTTP_HANDLER_H
#define OUTBOX_RETRY_HANDLERS_HTTP_HANDLER_H

#include "common/buf.h"
#include "common/err.h"
#include "outbox/retry/handler.h"
#include "outbox/retry/http_url.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HTTP_URLS_MAX 16
#define HTTP_HEADERS_MAX 64
#define HTTP_RANGES_MAX 16
#define HTTP_VALUES_MAX 16
#define HTTP_POINTER_BYTES_MAX 255
#define HTTP_TIMEOUT_MS_DEFAULT 10000
#define HTTP_PATH_BYTES_MAX 4000

struct json_t;

struct http_range {
    int from;
    int to;
};

struct http_options {
    const char *method;
    struct http_url urls[HTTP_URLS_MAX];
    size_t url_count;
    const char *path; /* NULL: it has URLs */
    struct {
        const char *name;
        const char *value;
    } headers[HTTP_HEADERS_MAX];
    size_t header_count;
    int64_t timeout_ms;
    struct http_range ok[HTTP_RANGES_MAX];
    size_t ok_count;
    struct {
        const char *pointer;
        const struct json_t *value; /* a text, a number, true, false or null */
    } values[HTTP_VALUES_MAX];
    size_t value_count;
    struct json_t *json; /* the texts point into it */
};

/* RC_REJECT: err names the fault in the text. After a failure http_options_done() is not needed. */
enum rc http_options_read(struct http_options *options, const char *text, struct err *err);
void http_options_done(struct http_options *options);

/* Returns whether the attempt may have succeeded with this status. */
bool http_is_ok(const struct http_options *options, int status);

/* Checks the values that `ok` names against the answer's body, of up to RETRY_RESULT_BYTES_MAX.
 * RC_REJECT: err says which pointer has another value, without the value, or that the body is not
 * JSON. */
enum rc http_check_answer(const struct http_options *options, const struct buf *body,
                          struct err *err);

/* Returns the value of the header that the task's options name, ignoring case; NULL: they have no
 * such header. */
const char *http_own_header(const struct http_options *options, const char *name);

/* Returns whether text can be the value of a header: it has no control character. */
bool http_is_header_value(const char *text);

/* Appends any text; each byte that is not visible ASCII becomes %XX. */
void http_put_value(struct buf *buf, const char *text);

extern const struct retry_handler retry_http_handler;

#endif
