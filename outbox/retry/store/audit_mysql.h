/* SPDX-License-Identifier: MIT */
/* The audit of the retry queue: one row of retry_audit for each action of an operator, from the
 * shell or over HTTP. The row is written before the action, so that no action is without one; the
 * number of changes is added in the transaction of each change. A row without a number belongs to
 * an action that was cut off before it changed anything, or whose outcome is unknown. One thread at
 * a time per db. */
#ifndef OUTBOX_RETRY_STORE_AUDIT_MYSQL_H
#define OUTBOX_RETRY_STORE_AUDIT_MYSQL_H

#include "common/db/db.h"
#include "common/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define AUDIT_TEXT_CHARS_MAX 512
#define AUDIT_ROWS_MAX 1000 /* that one page reads */

struct audit_entry {
    int64_t id;      /* of a row that was read, as the next one */
    int64_t at_ms;   /* since 1970 */
    const char *by;  /* who; longer texts are cut, in all fields */
    const char *via; /* "shell" or "http" */
    const char *action;
    const char *group; /* "" or NULL: of any, as the next one */
    const char *scene;
    const char *what; /* which tasks, or what was set */
    const char *why;  /* in the operator's words; "" or NULL: not given */
    int64_t changed;  /* tasks, scenes or groups; -1: unknown */
};

/* Writes the row of an action that is about to begin; *id is its number. On any other result than
 * RC_OK the action must not begin. */
enum rc audit_mysql_begin(struct db *db, const struct audit_entry *entry, int64_t *id,
                          struct err *err);

/* Adds to the number of changes, in the transaction of the changes if there is one. id 0: nothing
 * is written. */
enum rc audit_mysql_add(struct db *db, int64_t id, uint64_t changed, struct err *err);

/* Which rows are meant; NULL: any. */
struct audit_filter {
    const char *by;
    const char *action;
    const char *group;
    const char *scene;
    int64_t since_ms; /* since 1970 */
    int64_t until_ms; /* before it; INT64_MAX: any */
    int64_t after;    /* ids greater than this one */
};

struct audit_page {
    bool more;     /* rows may follow, also after an empty page */
    int64_t after; /* where they begin */
};

/* Reads one page by id, up to rows_max rows that match; it looks at AUDIT_ROWS_MAX rows at most. */
enum rc audit_mysql_list(struct db *db, const struct audit_filter *filter, size_t rows_max,
                         enum rc (*on_entry)(void *ctx, const struct audit_entry *entry,
                                             struct err *err),
                         void *ctx, struct audit_page *page, struct err *err);

#endif
