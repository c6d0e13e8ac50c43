/* SPDX-License-Identifier: MIT */
/* The handlers that a process runs: those of the program's table that retry.handlers names, opened.
 * The main thread. */
#ifndef OUTBOX_RETRY_HANDLERS_HANDLER_LIST_H
#define OUTBOX_RETRY_HANDLERS_HANDLER_LIST_H

#include "common/err.h"
#include "outbox/retry/handler.h"

struct handler_list {
    struct retry_handlers handlers; /* opened[i] is NULL if this process does not run it */
};

/* Opens the handlers that retry.handlers names. env->all and env->self are not read: the open() of
 * each handler gets the handlers of this list and itself. RC_REJECT: retry.handlers names an
 * unknown handler, or lists a handler that needs all (`steps`) without the others. RC_FATAL: no
 * memory. Otherwise the result of a handler's open(). handler_list_close() may follow a failure. */
enum rc handler_list_open(struct handler_list *list, const struct retry_handlers *table,
                          const struct retry_handler_env *env, struct err *err);
void handler_list_close(struct handler_list *list);

#endif
