/* SPDX-License-Identifier: MIT */
/* Posts JSON to /v1/tasks of a server with libcurl: certificates checked, no redirects, no proxies,
 * the answer bounded. Any thread; the requests of one client take turns. */
#ifndef OUTBOX_CLIENT_CLIENT_HTTP_H
#define OUTBOX_CLIENT_CLIENT_HTTP_H

#include "common/buf.h"
#include "common/err.h"

#include <stdatomic.h>
#include <stdint.h>
#include <tallybox/task.h>

struct client_reply {
    int64_t retry_after_ms; /* 0: the server names no time */
    struct buf body;        /* the caller ends it by buf_done() */
};

/* Posts body. until_ms (os_now_ms(); NULL: none) may be moved by another thread meanwhile, and ends
 * the request within about a second. reply is zeroed by the caller. RC_OK: status 200, and the
 * body is whole. RC_REJECT: a status that means the tasks. RC_RETRY: any other status, no answer,
 * or the time is over: the tasks may have been taken. RC_FATAL: no memory, no token. err->code is
 * the status or 0. */
enum rc client_post(struct tallybox_client *client, const struct buf *body,
                    const atomic_llong *until_ms, struct client_reply *reply, struct err *err);

#endif
