/* SPDX-License-Identifier: MIT */
/* What the handlers of this folder say when they are not done, and what marks all they send as a
 * retry. Pure; any thread. */
#ifndef OUTBOX_RETRY_HANDLERS_ATTEMPT_H
#define OUTBOX_RETRY_HANDLERS_ATTEMPT_H

#include "outbox/retry/handler.h"

/* What a downstream sees of the queue: which attempt it is, and that whoever fails at it need not
 * try again by himself. An answer with the second one ends the task. */
#define HEADER_ATTEMPT "tallybox-attempt"
#define HEADER_NO_RETRY "tallybox-no-retry"

/* The attempt failed, with the sentence for people. */
void attempt_fail(struct attempt_result *attempt, enum fault_source source, int code,
                  enum fault_class fault, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* The task as it stands cannot be run: err says why. */
void attempt_refuse(struct attempt_result *attempt, const struct err *err);

/* The process stops. */
void attempt_cut(struct attempt_result *attempt);

/* The lease runs out, or is lost. */
void attempt_lose_lease(struct attempt_result *attempt);

#endif
