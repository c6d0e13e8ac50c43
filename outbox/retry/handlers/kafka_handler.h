/* SPDX-License-Identifier: MIT */
/* The handler `kafka`: publishes the task's params to a topic and waits for the broker's
 * acknowledgement. The options (kafka_options.h) describe the record; the headers of attempt.h
 * follow the task's own. */
#ifndef OUTBOX_RETRY_HANDLERS_KAFKA_HANDLER_H
#define OUTBOX_RETRY_HANDLERS_KAFKA_HANDLER_H

#include "outbox/retry/handler.h"

extern const struct retry_handler retry_kafka_handler;

#endif
