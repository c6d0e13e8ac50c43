/* SPDX-License-Identifier: MIT */
/* Sets the attempt result of a handler whose attempt was not successful, and names the headers
 * that mark a retry. Pure; any thread. */
#ifndef OUTBOX_RETRY_HANDLERS_ATTEMPT_H
#define OUTBOX_RETRY_HANDLERS_ATTEMPT_H

#include "outbox/retry/handler.h"

/* Headers for downstream servers: the number of the attempt, and that the queue retries, so that
 * the receiver need not. An answer with the second header ends the task. */
#define HEADER_ATTEMPT "tallybox-attempt"
#define HEADER_NO_RETRY "tallybox-no-retry"

/* The attempt failed; format makes the sentence for the operator. */
void attempt_fail(struct attempt_result *attempt, enum fault_source source, int code,
                  enum fault_class fault, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* The task cannot be run as it is; err gives the reason. */
void attempt_refuse(struct attempt_result *attempt, const struct err *err);

/* The attempt was cut because the process stops. */
void attempt_cut(struct attempt_result *attempt);

/* The attempt was cut because the lease ends or is lost. */
void attempt_lose_lease(struct attempt_result *attempt);

#endif
