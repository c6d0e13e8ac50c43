/* SPDX-License-Identifier: MIT */
/* The handlers that a process runs: those of the program's table that retry.handlers names, opened.
 * The main thread. */
#ifndef OUTBOX_RETRY_HANDLERS_HANDLER_LIST_H
#define OUTBOX_RETRY_HANDLERS_HANDLER_LIST_H

#include "common/err.h"
#include "outbox/retry/handler.h"

struct handler_list {
    struct retry_handlers all;
};

/* Opens the handlers that retry.handlers names. env->all is ignored: each handler gets this list.
 * RC_FATAL: retry.handlers names an unknown handler, or a handler cannot be opened; err gives the
 * reason. handler_list_close() may follow a failure. */
enum rc handler_list_open(struct handler_list *list, const struct retry_handlers *table,
                          const struct retry_handler_env *env, struct err *err);
void handler_list_close(struct handler_list *list);

#endif
