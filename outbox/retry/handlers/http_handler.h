/* SPDX-License-Identifier: MIT */
/* The handler `http`: calls a host of retry.http_hosts with the task's params as the body. The body
 * of the answer is the result of its step; its status says whether it is done, its header
 * Retry-After when to come again, and tallybox-no-retry that it is no use. */
#ifndef OUTBOX_RETRY_HANDLERS_HTTP_HANDLER_H
#define OUTBOX_RETRY_HANDLERS_HTTP_HANDLER_H

#include "outbox/retry/handler.h"

extern const struct retry_handler retry_http_handler;

#endif
