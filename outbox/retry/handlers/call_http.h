/* SPDX-License-Identifier: MIT */
/* Makes HTTP calls with libcurl: certificates checked, no redirects, no proxies, no cookies, the
 * answer bounded. The caller has checked that the host may be called. Each worker has connections
 * of its own, which it uses again, and makes one call at a time. */
#ifndef OUTBOX_RETRY_HANDLERS_CALL_HTTP_H
#define OUTBOX_RETRY_HANDLERS_CALL_HTTP_H

#include "common/buf.h"
#include "common/config/settings.h"
#include "common/err.h"
#include "common/loop.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct caller;

struct call {
    const char *method;
    const char *url;
    const char *origin;         /* for error texts: the rest may hold secrets */
    const char *const *headers; /* each "Name: value" */
    size_t header_count;
    const void *body; /* NULL: none */
    size_t body_len;
    int64_t until_ms;                   /* os_now_ms() */
    int64_t connect_ms_max;             /* for the connection; 0: as long as the call */
    const atomic_llong *lease_until_ms; /* as in struct retry_job */
};

enum call_end {
    CALL_ANSWERED,
    CALL_FAILED, /* err: why; its code is libcurl's, negative */
    CALL_CUT,    /* the process stops */
    CALL_LOST,   /* the lease ran out first */
};

struct call_answer {
    int status;
    bool unsent;            /* of CALL_FAILED: certainly no byte of the request was sent */
    bool no_retry;          /* it has the header tallybox-no-retry */
    int64_t retry_after_ms; /* 0: it names no time */
};

/* Makes no connection. RC_FATAL: the CA's file cannot be read, or libcurl cannot be used. Borrows
 * settings and stop. */
enum rc caller_open(struct caller **caller, const struct settings *settings, struct stop *stop,
                    size_t workers, struct err *err);
void caller_close(struct caller *caller);

/* Appends the body of the answer to body. If it is longer than the limit of body, body becomes
 * failed and the rest is not read. If the result is not CALL_ANSWERED, the server may have executed
 * the call nevertheless. */
enum call_end caller_call(struct caller *caller, size_t worker, const struct call *call,
                          struct call_answer *answer, struct buf *body, struct err *err);

/* Returns whether the code in err is a local fault that an operator must fix: a certificate, a
 * file. */
bool caller_is_ours(int code);

#endif
