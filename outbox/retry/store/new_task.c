/* SPDX-License-Identifier: MIT */
#include "outbox/retry/store/new_task.h"

#include "common/buf.h"
#include "common/text.h"
#include "common/trace.h"

#include <jansson.h>
#include <openssl/sha.h>
#include <stdbool.h>
#include <string.h>

_Static_assert(NEW_TASK_HASH_BYTES == SHA256_DIGEST_LENGTH, "SHA-256");

/* Groups, scenes and handlers are named in settings, metrics and options, too. */
static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.:-";

static enum rc check_name(const char *name, const char *what, size_t bytes_max, size_t number,
                          struct err *err)
{
    size_t len = name ? strnlen(name, bytes_max + 1) : 0;

    if (len == 0)
        return err_fail(err, RC_REJECT, 0, "task %zu: %s is missing", number, what);
    if (len > bytes_max)
        return err_fail(err, RC_REJECT, 0, "task %zu: %s is longer than %zu bytes", number, what,
                        bytes_max);
    if (strspn(name, letters) < len)
        return err_fail(err, RC_REJECT, 0,
                        "task %zu: %s has a character other than letters, digits and _.:-", number,
                        what);
    return RC_OK;
}

static enum rc check_text(const char *text, const char *what, size_t chars_max, size_t number,
                          struct err *err)
{
    size_t chars = 0;

    if (!text)
        return RC_OK;
    if (text[0] == '\0')
        return err_fail(err, RC_REJECT, 0, "task %zu: %s is empty: leave it out", number, what);
    for (size_t len; *text != '\0'; text += len) {
        len = utf8_len(text);
        if (len == 0)
            return err_fail(err, RC_REJECT, 0, "task %zu: %s is not UTF-8", number, what);
        if (++chars > chars_max)
            return err_fail(err, RC_REJECT, 0, "task %zu: %s is longer than %zu characters", number,
                            what, chars_max);
    }
    return RC_OK;
}

static enum rc check_options(const char *options, size_t number, struct err *err)
{
    json_error_t fault;
    json_t *object;
    enum rc rc = RC_OK;

    if (!options)
        return RC_OK;
    if (strnlen(options, RETRY_OPTIONS_BYTES_MAX + 1) > RETRY_OPTIONS_BYTES_MAX)
        return err_fail(err, RC_REJECT, 0, "task %zu: options are longer than %d bytes", number,
                        RETRY_OPTIONS_BYTES_MAX);
    object = json_loads(options, JSON_REJECT_DUPLICATES, &fault);
    if (!json_is_object(object))
        rc = err_fail(err, RC_REJECT, 0, "task %zu: options are not a JSON object%s%s", number,
                      object ? "" : ": ", object ? "" : fault.text);
    json_decref(object);
    return rc;
}

static enum rc check_params(const struct retry_new_task *task, size_t number, struct err *err)
{
    const char *type = task->params_type;

    if (task->params && task->params_len > RETRY_PARAMS_BYTES_MAX)
        return err_fail(err, RC_REJECT, 0, "task %zu: params are longer than %zu bytes", number,
                        RETRY_PARAMS_BYTES_MAX);
    if (!type)
        return RC_OK;
    if (type[0] == '\0' || strlen(type) > NEW_TASK_PARAMS_TYPE_BYTES_MAX)
        return err_fail(err, RC_REJECT, 0, "task %zu: params_type has not 1 to %d bytes", number,
                        NEW_TASK_PARAMS_TYPE_BYTES_MAX);
    for (; *type != '\0'; type++) {
        if (*type < ' ' || *type > '~')
            return err_fail(err, RC_REJECT, 0,
                            "task %zu: params_type has a character that is not printable ASCII",
                            number);
    }
    return RC_OK;
}

static enum rc check_trace(const struct retry_new_task *task, size_t number, struct err *err)
{
    char parent[TRACE_SIZE];

    if (!task->traceparent || trace_read(task->traceparent, parent))
        return RC_OK;
    return err_fail(err, RC_REJECT, 0,
                    "task %zu: traceparent is not one of W3C Trace Context: leave it out", number);
}

static enum rc check_numbers(const struct retry_new_task *task, size_t number, struct err *err)
{
    if (task->delay_ms < 0 || task->delay_ms > NEW_TASK_DELAY_MS_MAX)
        return err_fail(err, RC_REJECT, 0, "task %zu: delay_ms is not between 0 and 100 years",
                        number);
    if (task->parent_id < 0)
        return err_fail(err, RC_REJECT, 0, "task %zu: parent_id is negative", number);
    return RC_OK;
}

const char *new_task_group(const struct retry_new_task *task)
{
    return task->group ? task->group : RETRY_GROUP_DEFAULT;
}

enum rc new_task_check(const struct retry_new_task *task, size_t number, struct err *err)
{
    enum rc rc = check_name(new_task_group(task), "group", RETRY_NAME_BYTES_MAX, number, err);

    if (rc == RC_OK)
        rc = check_name(task->scene, "scene", RETRY_NAME_BYTES_MAX, number, err);
    if (rc == RC_OK)
        rc = check_name(task->handler, "handler", RETRY_HANDLER_BYTES_MAX, number, err);
    if (rc == RC_OK)
        rc = check_text(task->ordering_key, "ordering_key", RETRY_ORDERING_KEY_CHARS_MAX, number,
                        err);
    if (rc == RC_OK)
        rc = check_text(task->idempotency_key, "idempotency_key", RETRY_IDEMPOTENCY_KEY_CHARS_MAX,
                        number, err);
    if (rc == RC_OK)
        rc = check_text(task->biz_no, "biz_no", RETRY_BIZ_NO_CHARS_MAX, number, err);
    if (rc == RC_OK)
        rc = check_options(task->options, number, err);
    if (rc == RC_OK)
        rc = check_params(task, number, err);
    if (rc == RC_OK)
        rc = check_trace(task, number, err);
    return rc == RC_OK ? check_numbers(task, number, err) : rc;
}

static void put_part(struct buf *buf, const char *part)
{
    buf_char(buf, '\0');
    if (part)
        buf_text_put(buf, part);
    else
        buf_char(buf, '\0');
}

static void put_params(struct buf *buf, const struct retry_new_task *task)
{
    unsigned char digest[SHA256_DIGEST_LENGTH];
    const void *params = task->params_len > 0 ? task->params : "";

    buf_char(buf, '\0');
    if (!task->params) {
        buf_char(buf, '\0');
        return;
    }
    SHA256(params, task->params_len, digest);
    buf_hex(buf, digest, sizeof(digest));
}

/* Byte for byte the expression in schema/migrate/0006_retry.sql. */
enum rc new_task_hash(const struct retry_new_task *task, enum retry_owner origin,
                      struct new_task_hash *hash, struct err *err)
{
    struct buf buf = {0};
    enum rc rc = RC_OK;

    buf_text_put(&buf, retry_owner_name(origin));
    put_part(&buf, new_task_group(task));
    put_part(&buf, task->scene);
    if (task->idempotency_key) {
        put_part(&buf, "\1");
        buf_text_put(&buf, task->idempotency_key);
    } else {
        put_part(&buf, task->handler);
        put_part(&buf, task->ordering_key);
        put_part(&buf, task->biz_no);
        put_part(&buf, task->options);
        put_params(&buf, task);
    }
    if (buf.failed)
        rc = err_fail(err, RC_FATAL, 0, "no memory for the hash of a task");
    else
        SHA256((const unsigned char *)buf.data, buf.len, hash->bytes);
    buf_done(&buf);
    return rc;
}
