/* SPDX-License-Identifier: MIT */
#include "outbox/retry/callback.h"

#include "common/text.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define JSON_FLAGS (JSON_REJECT_DUPLICATES | JSON_DECODE_ANY)

static bool is_name(const char *text)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                  "0123456789_.-";

    return text && *text && strlen(text) < CALLBACK_NAME_SIZE &&
           strspn(text, letters) == strlen(text);
}

enum rc callback_target_read(const json_t *value, struct callback_target *target, struct err *err)
{
    const char *scene = json_string_value(json_object_get(value, "scene"));
    const char *handler = json_string_value(json_object_get(value, "handler"));

    memset(target, 0, sizeof(*target));
    if (json_is_null(value))
        return RC_OK;
    if (!is_name(scene) || !is_name(handler) || json_object_size(value) != 2)
        return err_fail(err, RC_REJECT, 0,
                        "{\"scene\": NAME, \"handler\": NAME} is expected, with names of letters, "
                        "digits, '_', '.' and '-' up to %d",
                        CALLBACK_NAME_SIZE - 1);
    snprintf(target->scene, sizeof(target->scene), "%s", scene);
    snprintf(target->handler, sizeof(target->handler), "%s", handler);
    return RC_OK;
}

void callback_target_find(const char *policy, const char *field, struct callback_target *target)
{
    json_t *object = policy ? json_loads(policy, JSON_REJECT_DUPLICATES, NULL) : NULL;
    const json_t *value = json_object_get(object, field);

    memset(target, 0, sizeof(*target));
    if (value && callback_target_read(value, target, NULL) != RC_OK)
        memset(target, 0, sizeof(*target));
    json_decref(object);
}

static void put_text(struct buf *out, const char *name, const char *text)
{
    buf_print(out, ",\"%s\":", name);
    if (text)
        json_text_put(out, text);
    else
        buf_text_put(out, "null");
}

static bool is_json(const void *bytes, size_t len)
{
    /* jansson skips a zero byte behind a number, which is not JSON. */
    json_t *value =
        len > 0 && !memchr(bytes, '\0', len) ? json_loadb(bytes, len, JSON_FLAGS, NULL) : NULL;
    bool is = value != NULL;

    json_decref(value);
    return is;
}

static void put_bytes(struct buf *out, const char *name, const void *bytes, size_t len, bool json)
{
    bool too_long = len > CALLBACK_BYTES_MAX;

    if (!bytes || too_long) {
        buf_print(out, ",\"%s\":null", name);
        if (too_long)
            buf_print(out, ",\"%sBytes\":%zu", name, len);
    } else if (json && is_json(bytes, len)) {
        buf_print(out, ",\"%s\":", name);
        buf_put(out, bytes, len);
    } else {
        buf_print(out, ",\"%sBase64\":\"", name);
        base64_put(out, bytes, len);
        buf_char(out, '"');
    }
}

void callback_put(struct buf *out, const struct callback_task *task)
{
    bool json = strncmp(task->params_type, "application/json", 16) == 0;

    buf_text_put(out, "{\"taskId\":");
    buf_i64(out, task->id);
    put_text(out, "group", task->group);
    put_text(out, "scene", task->scene);
    put_text(out, "bizNo", task->biz_no);
    put_text(out, "orderingKey", task->ordering_key);
    put_text(out, "idempotencyKey", task->idempotency_key);
    put_text(out, "outcome", task->outcome);
    buf_text_put(out, ",\"attempts\":");
    buf_i64(out, task->attempts);
    put_text(out, "reasonClass", task->reason_class);
    put_text(out, "reason", task->reason);
    put_text(out, "by", task->by);
    put_text(out, "paramsType", task->params_type);
    put_bytes(out, "params", task->params, task->params_len, json);
    put_bytes(out, "result", task->result_len > 0 ? task->result : NULL, task->result_len, true);
    buf_char(out, '}');
}
