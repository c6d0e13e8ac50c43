/* SPDX-License-Identifier: MIT */
/* One GET or PATCH with libcurl, for a command that asks a server and ends: no redirects, no
 * proxies, the answer and its time bounded. Main thread of a command. */
#ifndef COMMON_HTTP_HTTP_GET_H
#define COMMON_HTTP_HTTP_GET_H

#include "common/buf.h"
#include "common/err.h"

#include <stdbool.h>
#include <stdint.h>

struct http_get {
    const char *url;     /* http:// or https:// */
    const char *host;    /* of the header Host; "": that of the URL */
    const char *bearer;  /* the header with a token, "Authorization: Bearer ..."; "": none */
    const char *ca_file; /* trusted certificates; "": those of the system */
    bool check_cert;     /* the server must have a trusted certificate */
    bool check_name;     /* and one for the host of the URL; only with check_cert */
    int64_t timeout_ms;  /* for all of it */
    const char *patch;   /* JSON that a PATCH sends; NULL: a GET */
};

/* Appends the body of the answer, of any status, to body, whose ceiling is its size_max. RC_RETRY:
 * there was no whole answer; err names the URL and the reason, and *status is 0. RC_FATAL: no
 * memory, or no libcurl. err has nothing of the token. */
enum rc http_get(const struct http_get *get, int *status, struct buf *body, struct err *err);

#endif
