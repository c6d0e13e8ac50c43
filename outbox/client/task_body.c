/* SPDX-License-Identifier: MIT */
#include "outbox/client/task_body.h"

#include "common/text.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static void put_text(struct buf *out, const char *name, const char *text)
{
    if (!text)
        return;
    buf_print(out, ",\"%s\":", name);
    json_text_put(out, text);
}

void task_body_put(struct buf *out, const struct tallybox_task *task, const char *key)
{
    buf_text_put(out, "{\"scene\":");
    json_text_put(out, task->scene);
    put_text(out, "handler", task->handler);
    put_text(out, "group", task->group);
    put_text(out, "orderingKey", task->ordering_key);
    put_text(out, "idempotencyKey", key);
    put_text(out, "bizNo", task->biz_no);
    if (task->options) {
        buf_text_put(out, ",\"options\":");
        buf_text_put(out, task->options);
    }
    if (task->params) {
        buf_text_put(out, ",\"paramsBase64\":\"");
        base64_put(out, task->params, task->params_len);
        buf_text_put(out, "\",\"paramsType\":");
        json_text_put(out, task->params_type ? task->params_type : "application/json");
    }
    if (task->delay_ms > 0)
        buf_print(out, ",\"delayMs\":%lld", (long long)task->delay_ms);
    buf_char(out, '}');
}

/* Codes of the server's own condition: the task may be taken later. */
static bool code_passes(const char *code)
{
    static const char *const codes[] = {"too_many_requests", "unavailable", "timeout"};

    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++)
        if (strcmp(code, codes[i]) == 0)
            return true;
    return false;
}

static bool read_answer(const json_t *item, struct tallybox_answer *answer)
{
    const json_t *error = json_object_get(item, "error");
    const char *code = json_string_value(json_object_get(error, "code"));
    const char *message = json_string_value(json_object_get(error, "message"));
    const json_t *id = json_object_get(item, "id");

    memset(answer, 0, sizeof(*answer));
    if (code) {
        answer->result = code_passes(code) ? TALLYBOX_RETRY : TALLYBOX_REJECT;
        snprintf(answer->code, sizeof(answer->code), "%s", code);
        snprintf(answer->message, sizeof(answer->message), "%s", message ? message : "");
        utf8_clean(answer->message);
        return true;
    }
    if (!json_is_integer(id))
        return false;
    answer->ticket.id = json_integer_value(id);
    answer->ticket.existed = json_is_true(json_object_get(item, "existed"));
    return true;
}

enum rc task_answers_read(const char *body, size_t len, size_t count,
                          struct tallybox_answer *answers, struct err *err)
{
    json_t *list = json_loadb(body, len, 0, NULL);
    bool is_answer = json_is_array(list) && json_array_size(list) == count;

    for (size_t i = 0; i < count && is_answer; i++)
        is_answer = read_answer(json_array_get(list, i), &answers[i]);
    json_decref(list);
    if (is_answer)
        return RC_OK;
    return err_fail(err, RC_RETRY, 0, "the server's answer has not one result for each task");
}
