/* SPDX-License-Identifier: MIT */
#include "outbox/retry/handlers/exec_options.h"

#include "common/list.h"
#include "outbox/retry/handlers/task_options.h"
#include "outbox/retry/policy/span.h"

#include <jansson.h>
#include <string.h>

#define PATH_BYTES_MAX 1023
#define ARG_BYTES_MAX 65535

static enum rc take_program(void *ctx, const json_t *value, struct err *err)
{
    struct exec_options *options = ctx;
    enum rc rc = task_option_text(value, PATH_BYTES_MAX, &options->args[0], err);

    if (rc == RC_OK && options->args[0][0] != '/')
        return err_fail(err, RC_REJECT, 0, "an absolute path is expected");
    return rc;
}

static enum rc take_args(void *ctx, const json_t *value, struct err *err)
{
    struct exec_options *options = ctx;
    size_t i;
    json_t *arg;

    if (!json_is_array(value) || json_array_size(value) > EXEC_ARGS_MAX)
        return err_fail(err, RC_REJECT, 0, "a list of %d texts at most is expected", EXEC_ARGS_MAX);
    json_array_foreach(value, i, arg) {
        options->args[1 + i] = json_string_value(arg);
        if (!json_is_string(arg) || strlen(options->args[1 + i]) != json_string_length(arg) ||
            json_string_length(arg) > ARG_BYTES_MAX)
            return err_fail(err, RC_REJECT, 0, "number %zu is not a text without zero bytes",
                            i + 1);
    }
    return RC_OK;
}

static enum rc take_timeout(void *ctx, const json_t *value, struct err *err)
{
    struct exec_options *options = ctx;

    return task_option_span(value, SPAN_MS_MAX, &options->timeout_ms, err);
}

static const struct task_option fields[] = {
    {"program", take_program},
    {"args", take_args},
    {"timeout", take_timeout},
};

enum rc exec_options_read(struct exec_options *options, const char *text, struct err *err)
{
    enum rc rc;

    *options = (struct exec_options){.timeout_ms = EXEC_TIMEOUT_MS_STANDARD};
    rc = task_options_read(&options->json, text, fields, sizeof(fields) / sizeof(fields[0]),
                           options, err);
    if (rc == RC_OK && !options->args[0])
        rc = err_fail(err, RC_REJECT, 0, "options: \"program\" is missing");
    if (rc != RC_OK)
        exec_options_done(options);
    return rc;
}

void exec_options_done(struct exec_options *options)
{
    task_options_done(options->json);
    *options = (struct exec_options){0};
}

bool exec_is_allowed(const char *list, const char *program)
{
    return list_has(list, program);
}
