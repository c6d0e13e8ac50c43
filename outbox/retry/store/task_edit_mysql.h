/* SPDX-License-Identifier: MIT */
/* Corrects the content of a task: headers, parameters or options of one that has not ended, such as
 * an outbox row that Kafka refused; or makes a new, corrected task of one that has ended. Decides
 * which headers an event of the relay keeps, and has the handler check the result before it is
 * stored. One thread at a time per db. */
#ifndef OUTBOX_RETRY_STORE_TASK_EDIT_MYSQL_H
#define OUTBOX_RETRY_STORE_TASK_EDIT_MYSQL_H

#include "common/buf.h"
#include "common/db/db.h"
#include "outbox/retry/store/task_admin_mysql.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct retry_handlers;

/* What is new in a task; NULL: not given, the content stays. At least one of them is given. */
struct task_edit {
    int64_t id;
    bool redrive;        /* of a task in the history: make a new task of it, with the new content */
    const char *options; /* a JSON object; "": none */
    const char *headers; /* a JSON object, or a list of [name, value] */
    const void *params;
    size_t params_len;
    bool no_params;     /* instead of params: none; an event is a tombstone then */
    const char *by;     /* name of the operator */
    const char *why;    /* in the operator's words, or NULL */
    int64_t audit_id;   /* as in struct task_admin_order */
    unsigned tries_max; /* a transaction that fails is tried again so often, after a wait */
};

/* Appends the options of a task after an edit to out. before: those it has, or NULL. options: "" is
 * none; headers: a JSON object or a list of [name, value]; NULL: not given.
 *
 * A task of a client gets the options as they are given, and headers as their member. An event of
 * the relay keeps each member that options does not name, and each header that the relay has made:
 * headers that are given replace those of the application. Its ce_type, ce_source, ce_time and
 * original_timestamp are replaced if they are given. RC_REJECT: err names the fault. */
enum rc task_edit_options(struct buf *out, const char *before, bool relays, const char *options,
                          const char *headers, struct err *err);

/* handlers: they check what the task would be. Results are those of task_admin_mysql_edit(), or of
 * TASK_ADMIN_REQUEUE. RC_REJECT: err names what is wrong with the content; nothing was changed. */
enum rc task_edit_mysql(struct db *db, const struct retry_handlers *handlers,
                        const struct task_edit *given, struct task_admin_result *result,
                        struct err *err);

#endif
