/* SPDX-License-Identifier: MIT */
/* The handlers of an own build (tallybox/retry_handler.h) as handlers of the retry queue. The main
 * thread, before any other was started. */
#ifndef OUTBOX_CLIENT_OWN_HANDLERS_H
#define OUTBOX_CLIENT_OWN_HANDLERS_H

#include "common/err.h"
#include "outbox/retry/handler.h"

#include <stddef.h>
#include <tallybox/retry_handler.h>

/* Appends the handlers to list, which has *count entries and room for RETRY_HANDLERS_MAX. Borrows
 * them for the life of the process; a second call forgets those of the first one. RC_REJECT: err
 * names the handler and its fault; list is unchanged. */
enum rc own_handlers_add(const struct retry_handler **list, size_t *count,
                         const struct tallybox_handler *const *own, size_t own_count,
                         struct err *err);

#endif
