/* SPDX-License-Identifier: MIT */
#include "outbox/client/new_item.h"

#include "common/text.h"
#include "outbox/client/result.h"
#include "outbox/retry/store/new_task.h"

#include <stdlib.h>
#include <string.h>

/* The session of an application may be one in which the server cuts a text that is not UTF-8. */
static enum rc check_utf8(const char *text, const char *name, size_t number, struct err *err)
{
    if (!text || utf8_fits(text, strnlen(text, OUTBOX_TEXT_BYTES_MAX + 1)))
        return RC_OK;
    /* A longer text may be cut inside a character; its length is the fault to name. */
    if (strnlen(text, OUTBOX_TEXT_BYTES_MAX + 1) > OUTBOX_TEXT_BYTES_MAX)
        return RC_OK;
    return err_fail(err, RC_REJECT, 0, "outbox event %zu: %s is not UTF-8", number, name);
}

static enum rc read_event(const struct tallybox_event *event, size_t number,
                          struct outbox_event *out, struct err *err)
{
    enum rc rc = check_utf8(event->aggregate_type, "aggregate_type", number, err);

    if (rc == RC_OK)
        rc = check_utf8(event->aggregate_id, "aggregate_id", number, err);
    if (rc == RC_OK)
        rc = check_utf8(event->type, "type", number, err);
    if (rc != RC_OK)
        return rc;
    if (!event->payload && event->payload_len > 0)
        return err_fail(err, RC_REJECT, 0, "outbox event %zu: payload is NULL, its length is not 0",
                        number);
    if (!event->id)
        id_new(&out->id);
    else if (!id_parse(&out->id, event->id, strnlen(event->id, ID_TEXT_SIZE)))
        return err_fail(err, RC_REJECT, 0, "outbox event %zu: id is not a UUID of 36 characters",
                        number);
    out->aggregate_type = event->aggregate_type;
    out->aggregate_id = event->aggregate_id;
    out->type = event->type;
    out->payload = event->payload;
    out->payload_len = event->payload_len;
    out->headers = event->headers;
    return RC_OK;
}

enum rc new_events_read(const struct tallybox_event *events, size_t count, struct outbox_event *out,
                        struct err *err)
{
    enum rc rc = RC_OK;

    for (size_t i = 0; i < count && rc == RC_OK; i++)
        rc = read_event(&events[i], i, &out[i], err);
    return rc == RC_OK ? outbox_check(out, count, err) : rc;
}

void new_task_read(const struct tallybox_task *task, struct retry_new_task *out)
{
    *out = (struct retry_new_task){
        .group = task->group,
        .scene = task->scene,
        .handler = task->handler,
        .ordering_key = task->ordering_key,
        .idempotency_key = task->idempotency_key,
        .biz_no = task->biz_no,
        .options = task->options,
        .params = task->params,
        .params_len = task->params_len,
        .params_type = task->params_type,
        .traceparent = task->traceparent,
        .delay_ms = task->delay_ms,
    };
}

void tallybox_id_make(char id[TALLYBOX_ID_SIZE])
{
    struct id made;

    id_new(&made);
    id_format(&made, id);
}

enum tallybox_result tallybox_outbox_check(const struct tallybox_event *events, size_t count,
                                           struct tallybox_error *error)
{
    struct err err = {0};
    struct outbox_event *list = calloc(count > 0 ? count : 1, sizeof(*list));
    enum rc rc = list ? new_events_read(events, count, list, &err)
                      : err_fail(&err, RC_FATAL, 0, "no memory for %zu events", count);

    free(list);
    return result_give(rc, &err, error);
}

enum tallybox_result tallybox_task_check(const struct tallybox_task *tasks, size_t count,
                                         struct tallybox_error *error)
{
    struct retry_new_task task;
    struct err err = {0};
    enum rc rc = RC_OK;

    for (size_t i = 0; i < count && rc == RC_OK; i++) {
        new_task_read(&tasks[i], &task);
        rc = new_task_check(&task, i, &err);
        if (rc == RC_OK && !task.params && task.params_len > 0)
            rc = err_fail(&err, RC_REJECT, 0, "task %zu: params is NULL, its length is not 0", i);
    }
    return result_give(rc, &err, error);
}
