/* SPDX-License-Identifier: MIT */
/* The handler `http`: calls a host of retry.http_hosts with the task's params as the body. The
 * body of the answer is the result of the step. The status decides whether the attempt succeeded,
 * the header Retry-After delays the next attempt, and tallybox-no-retry ends the task. */
#ifndef OUTBOX_RETRY_HANDLERS_HTTP_HANDLER_H
#define OUTBOX_RETRY_HANDLERS_HTTP_HANDLER_H

#include "outbox/retry/handler.h"

extern const struct retry_handler retry_http_handler;

#endif
