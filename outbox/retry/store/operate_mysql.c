/* SPDX-License-Identifier: MIT */
#include "outbox/retry/operate.h"

#include "common/db/db.h"
#include "outbox/retry/store/audit_mysql.h"
#include "outbox/retry/store/task_edit_mysql.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static enum task_admin_action choose_action(const struct retry_operation *operation)
{
    switch (operation->kind) {
    case OPERATION_RUN_NOW:
        return TASK_ADMIN_RUN_NOW;
    case OPERATION_CANCEL:
        return TASK_ADMIN_CANCEL;
    case OPERATION_UNPARK:
        return operation->skip ? TASK_ADMIN_SKIP : TASK_ADMIN_UNPARK;
    case OPERATION_REQUEUE:
    case OPERATION_EDIT:
        break;
    }
    return TASK_ADMIN_REQUEUE;
}

static bool has_content(const struct retry_operation *operation)
{
    return operation->options || operation->headers || operation->params || operation->no_params;
}

/* The content itself is not in the audit. */
static enum rc begin_audit(struct db *db, struct retry_operation *operation, struct err *err)
{
    char what[128];
    const struct audit_entry entry = {
        .by = operation->by,
        .via = operation->via,
        .action = retry_operation_name(operation->kind),
        .what = what,
        .why = operation->why,
    };
    enum rc rc;

    if (operation->audit_id != 0)
        return RC_OK;
    snprintf(what, sizeof(what), "id=%" PRId64 "%s%s%s%s%s", operation->id,
             operation->force ? " force=yes" : "", operation->skip ? " skip=yes" : "",
             operation->options ? " options=given" : "", operation->headers ? " headers=given" : "",
             operation->params      ? " params=given"
             : operation->no_params ? " params=none"
                                    : "");
    rc = audit_mysql_begin(db, &entry, &operation->audit_id, err);
    if (rc != RC_OK)
        err_wrap(err, "the audit cannot be written, nothing was changed");
    return rc;
}

static enum rc act(struct db *db, const struct retry_handlers *handlers,
                   const struct retry_operation *operation, struct task_admin_result *result,
                   struct err *err)
{
    const struct task_admin_order order = {
        .action = choose_action(operation),
        .force = operation->force,
        .by = operation->by,
        .why = operation->why,
        .audit_id = operation->audit_id,
    };
    const struct task_edit edit = {
        .id = operation->id,
        .redrive = operation->kind == OPERATION_REQUEUE,
        .options = operation->options,
        .headers = operation->headers,
        .params = operation->params,
        .params_len = operation->params_len,
        .no_params = operation->no_params,
        .by = operation->by,
        .why = operation->why,
        .audit_id = operation->audit_id,
    };

    return has_content(operation)
               ? task_edit_mysql(db, handlers, &edit, result, err)
               : task_admin_mysql_act(db, &order, &operation->id, 1, result, err);
}

static void leave(struct retry_operated_task *result, const char *reason)
{
    result->end = OPERATED_LEFT;
    snprintf(result->reason, sizeof(result->reason), "%s", reason);
}

static void read_result(const struct retry_operation *operation,
                        const struct task_admin_result *done, struct retry_operated_task *result)
{
    *result = (struct retry_operated_task){.end = OPERATED_WAS_SO, .other = done->other};
    switch (done->outcome) {
    case TASK_ADMIN_DID:
        result->end = OPERATED_DONE;
        return;
    case TASK_ADMIN_WAS_SO:
        return;
    case TASK_ADMIN_ACTIVE:
        leave(result, "another task with its idempotency key is active");
        return;
    case TASK_ADMIN_RUNNING:
        leave(result, "it is running");
        return;
    case TASK_ADMIN_UNFIT:
        result->end = OPERATED_LEFT;
        snprintf(result->reason, sizeof(result->reason), "it is %s", task_state_name(done->state));
        return;
    case TASK_ADMIN_ENDED:
        if (!task_admin_is_left(choose_action(operation), done))
            return;
        result->end = OPERATED_LEFT;
        snprintf(result->reason, sizeof(result->reason),
                 "it has ended as %s: requeue makes a new task of it", done->ended);
        return;
    case TASK_ADMIN_UNKNOWN:
        result->end = OPERATED_UNKNOWN;
        return;
    }
}

enum rc retry_operate(struct db *db, const struct retry_handlers *handlers,
                      struct retry_operation *operation, struct retry_operated_task *result,
                      struct err *err)
{
    struct task_admin_result done = {.id = operation->id};
    enum rc rc = begin_audit(db, operation, err);

    if (rc != RC_OK)
        return rc;
    rc = act(db, handlers, operation, &done, err);
    if (rc == RC_REJECT)
        audit_mysql_add(db, operation->audit_id, 0, NULL);
    if (rc == RC_OK)
        read_result(operation, &done, result);
    return rc;
}

struct action_output {
    enum rc (*on_action)(void *ctx, const struct retry_action_view *view, struct err *err);
    void *ctx;
};

static enum rc show_entry(void *ctx, const struct audit_entry *entry, struct err *err)
{
    const struct action_output *output = ctx;
    const struct retry_action_view view = {
        .id = entry->id,
        .at_ms = entry->at_ms,
        .by = entry->by,
        .via = entry->via,
        .action = entry->action,
        .group = entry->group,
        .scene = entry->scene,
        .what = entry->what,
        .why = entry->why,
        .changed = entry->changed,
    };

    return output->on_action(output->ctx, &view, err);
}

enum rc retry_actions_find(struct db *db, const struct retry_action_filter *filter, size_t rows_max,
                           enum rc (*on_action)(void *ctx, const struct retry_action_view *view,
                                                struct err *err),
                           void *ctx, bool *more, int64_t *after, struct err *err)
{
    const struct audit_filter audit = {
        .by = filter->by,
        .group = filter->group,
        .scene = filter->scene,
        .since_ms = filter->since_ms,
        .until_ms = filter->until_ms,
        .after = filter->after,
    };
    struct action_output output = {on_action, ctx};
    struct audit_page page;
    enum rc rc = audit_mysql_list(db, &audit, rows_max, show_entry, &output, &page, err);

    *more = page.more;
    *after = page.after;
    return rc;
}

enum rc retry_audit_write(struct db *db, const struct retry_action_view *action, int64_t *id,
                          struct err *err)
{
    const struct audit_entry entry = {
        .by = action->by,
        .via = action->via,
        .action = action->action,
        .group = action->group,
        .scene = action->scene,
        .what = action->what,
        .why = action->why,
    };

    return audit_mysql_begin(db, &entry, id, err);
}

enum rc retry_audit_count(struct db *db, int64_t id, uint64_t changed, struct err *err)
{
    return audit_mysql_add(db, id, changed, err);
}
