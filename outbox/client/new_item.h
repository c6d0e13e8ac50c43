/* SPDX-License-Identifier: MIT */
/* Checks the events and tasks of an application and converts them to those of outbox/outbox.h and
 * outbox/retry/retry.h. Pure; any thread. */
#ifndef OUTBOX_CLIENT_NEW_ITEM_H
#define OUTBOX_CLIENT_NEW_ITEM_H

#include "common/err.h"
#include "outbox/outbox.h"
#include "outbox/retry/retry.h"

#include <stddef.h>
#include <tallybox/outbox.h>
#include <tallybox/task.h>

/* Converts events, which stay borrowed; an event without an id gets a new one. RC_REJECT: err names
 * the first event with a fault. */
enum rc new_events_read(const struct tallybox_event *events, size_t count, struct outbox_event *out,
                        struct err *err);

/* Converts a task, which stays borrowed. */
void new_task_read(const struct tallybox_task *task, struct retry_new_task *out);

#endif
