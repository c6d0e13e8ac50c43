/* SPDX-License-Identifier: MIT */
/* The actions of operators on one task, for other components: the API does what `tallybox retry
 * ACTION` does, by the same code, and each action has its row in the audit. One thread at a time
 * per db. */
#ifndef OUTBOX_RETRY_OPERATE_H
#define OUTBOX_RETRY_OPERATE_H

#include "common/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct db;
struct retry_handlers;

enum retry_operation_kind {
    OPERATION_RUN_NOW, /* waiting: due now; blocked: tried again as if nothing had failed */
    OPERATION_CANCEL,  /* into the history, with its callback; its key continues */
    OPERATION_UNPARK,  /* its key continues; with skip without the task */
    OPERATION_REQUEUE, /* a new task from one in the history, corrected or not */
    OPERATION_EDIT,    /* replaces options, headers or params of a task that has not ended */
};

struct retry_operation {
    enum retry_operation_kind kind;
    int64_t id;
    const char *by;      /* who */
    const char *via;     /* "http" */
    const char *why;     /* NULL: not given */
    bool force;          /* of OPERATION_CANCEL: also a running task */
    bool skip;           /* of OPERATION_UNPARK */
    const char *options; /* a JSON object, "": none; NULL: not given, as the next two */
    const char *headers; /* a JSON object, or a list of [name, value] */
    const void *params;
    size_t params_len;
    bool no_params;   /* instead of params: none */
    int64_t audit_id; /* 0 before the first call; a repeated call uses the same row */
};

enum retry_operated {
    OPERATED_DONE,
    OPERATED_WAS_SO,  /* it was in the requested state before */
    OPERATED_LEFT,    /* its state does not allow the action: nothing was changed */
    OPERATED_UNKNOWN, /* there is no such task, or it is not in the history */
};

/* What became of the task. */
struct retry_operated_task {
    enum retry_operated end;
    int64_t other;   /* the task that was made of it, or that is active in its place; 0: none */
    char reason[96]; /* of OPERATED_LEFT */
};

/* RC_REJECT: the handler or the group refuses the content; nothing was changed. RC_RETRY: the
 * outcome is unknown, and calling again is harmless. RC_FATAL: as db_exec(), or the audit cannot be
 * written. */
enum rc retry_operate(struct db *db, const struct retry_handlers *handlers,
                      struct retry_operation *operation, struct retry_operated_task *result,
                      struct err *err);

/* One action, a row of retry_audit. Texts are borrowed for the call, and "" where there is none. */
struct retry_action_view {
    int64_t id;
    int64_t at_ms; /* since 1970 */
    const char *by;
    const char *via;
    const char *action;
    const char *group;
    const char *scene;
    const char *what;
    const char *why;
    int64_t changed; /* -1: unknown */
};

/* Which actions are meant; NULL: any. */
struct retry_action_filter {
    const char *by;
    const char *group;
    const char *scene;
    int64_t since_ms;
    int64_t until_ms; /* before it */
    int64_t after;    /* ids greater than this one */
};

/* Reads one page of the audit by id; *more: further rows may follow, after *after. RC_RETRY,
 * RC_FATAL: as db_query(). */
enum rc retry_actions_find(struct db *db, const struct retry_action_filter *filter, size_t rows_max,
                           enum rc (*on_action)(void *ctx, const struct retry_action_view *view,
                                                struct err *err),
                           void *ctx, bool *more, int64_t *after, struct err *err);

/* Writes the row of an action of another component, which is about to begin, without id, time and
 * number; NULL: an empty text. On any other result than RC_OK the action must not begin. */
enum rc retry_audit_write(struct db *db, const struct retry_action_view *action, int64_t *id,
                          struct err *err);

/* Adds to the number of its changes. RC_RETRY: unknown; calling again may add it twice. */
enum rc retry_audit_count(struct db *db, int64_t id, uint64_t changed, struct err *err);

/* The action on the command line and in the audit; static. */
const char *retry_operation_name(enum retry_operation_kind kind);

#endif
