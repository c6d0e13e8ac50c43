/* SPDX-License-Identifier: MIT */
/* The part of a role that makes first tries: opens the handlers that can be tried first, the
 * threads that run them, the lease renewer and two connections. The thread of the caller calls
 * make() and step() of the ops; the others only open, start, join and close. */
#ifndef OUTBOX_RETRY_FIRST_TRIES_ROLE_H
#define OUTBOX_RETRY_FIRST_TRIES_ROLE_H

#include "common/config/settings.h"
#include "common/err.h"
#include "common/loop.h"
#include "outbox/retry/first_try.h"
#include "outbox/retry/handler.h"

#include <stddef.h>
#include <stdint.h>

struct first_tries_role_config {
    const struct settings *settings;       /* api.try_max > 0; borrowed, as all here */
    const struct retry_handlers *handlers; /* the table of the program */
    struct stop *stop;                     /* of the threads and attempts of this part */
    const char *instance;                  /* the owner of claimed tasks */
    first_try_on_end on_end;
    void *ctx;
    void (*wake)(void *ctx); /* any thread: step() has work */
};

struct first_tries_role;

/* RC_FATAL: no memory. Otherwise the result of a handler's open(). */
enum rc first_tries_role_open(struct first_tries_role **role,
                              const struct first_tries_role_config *config, struct err *err);
/* NULL is allowed. */
void first_tries_role_close(struct first_tries_role *role);

/* Valid until the close. */
const struct first_try_ops *first_tries_role_ops(struct first_tries_role *role);

/* RC_FATAL: a thread cannot be started; the started ones end after the stop. */
enum rc first_tries_role_start(struct first_tries_role *role, struct err *err);

/* After the stop was requested, when no thread calls the ops any more: writes the results of tries
 * that end before until_ms (os_now_ms()), returns tasks that have not begun, and joins the threads.
 * Calls on_end for these. The tasks of tries that are left are rescued when their leases have
 * ended. NULL is allowed. */
void first_tries_role_join(struct first_tries_role *role, int64_t until_ms);

/* Ends the statement of make() or step() that another thread waits for. */
void first_tries_role_interrupt(struct first_tries_role *role);

#endif
