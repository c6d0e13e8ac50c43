/* SPDX-License-Identifier: MIT */
#include "outbox/retry/handlers/steps_options.h"

#include "outbox/retry/handlers/task_options.h"
#include "outbox/retry/retry.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define TYPE_BYTES_MAX 128

static enum rc read_options(struct step *step, const json_t *value, struct err *err)
{
    if (value && !json_is_object(value))
        return err_fail(err, RC_REJECT, 0, "\"options\": a JSON object is expected");
    step->options = value ? json_dumps(value, JSON_COMPACT) : strdup("{}");
    return step->options ? RC_OK : err_fail(err, RC_FATAL, 0, "no memory for a step");
}

static enum rc read_params(struct step *step, const json_t *value, size_t index, struct err *err)
{
    const char *text = json_string_value(value);

    if (!value || (text && strcmp(text, "task") == 0))
        return RC_OK;
    if (!text || strcmp(text, "result") != 0)
        return err_fail(err, RC_REJECT, 0, "\"params\": \"task\" or \"result\" is expected");
    if (index == 0)
        return err_fail(err, RC_REJECT, 0, "\"params\": the first step has no previous result");
    step->of_result = true;
    return RC_OK;
}

static enum rc check_names(const json_t *value, struct err *err)
{
    static const char *const names[] = {"handler", "options", "params", "type"};
    const char *name;
    json_t *member;

    /* Iterating takes no const, and changes nothing. */
    json_object_foreach((json_t *)(uintptr_t)value, name, member) {
        size_t i = 0;

        while (i < sizeof(names) / sizeof(names[0]) && strcmp(names[i], name) != 0)
            i++;
        if (i == sizeof(names) / sizeof(names[0]))
            return err_fail(err, RC_REJECT, 0, "a step has no field \"%.40s\"", name);
    }
    return RC_OK;
}

static enum rc take_step(struct steps_options *options, const json_t *value, struct err *err)
{
    struct step *step = &options->steps[options->count];
    const json_t *type = json_object_get(value, "type");
    enum rc rc;

    if (!json_is_object(value))
        return err_fail(err, RC_REJECT, 0, "a JSON object is expected");
    rc = check_names(value, err);
    if (rc == RC_OK) {
        rc = task_option_text(json_object_get(value, "handler"), RETRY_HANDLER_BYTES_MAX,
                              &step->handler, err);
        if (rc != RC_OK)
            err_wrap(err, "\"handler\"");
    }
    if (rc == RC_OK && type) {
        rc = task_option_text(type, TYPE_BYTES_MAX, &step->type, err);
        if (rc != RC_OK)
            err_wrap(err, "\"type\"");
    }
    if (rc == RC_OK)
        rc = read_params(step, json_object_get(value, "params"), options->count, err);
    if (rc == RC_OK)
        rc = read_options(step, json_object_get(value, "options"), err);
    if (rc == RC_OK)
        options->count++;
    return rc;
}

static enum rc take_steps(void *ctx, const json_t *value, struct err *err)
{
    struct steps_options *options = ctx;
    size_t i;
    json_t *one;

    if (!json_is_array(value) || json_array_size(value) == 0 || json_array_size(value) > STEPS_MAX)
        return err_fail(err, RC_REJECT, 0, "a list of 1..%d steps is expected", STEPS_MAX);
    json_array_foreach(value, i, one) {
        enum rc rc = take_step(options, one, err);

        if (rc != RC_OK) {
            err_wrap(err, "step %zu", i);
            return rc;
        }
    }
    return RC_OK;
}

enum rc steps_options_read(struct steps_options *options, const char *text, struct err *err)
{
    static const struct task_option fields[] = {{"steps", take_steps}};
    enum rc rc;

    memset(options, 0, sizeof(*options));
    rc = task_options_read(&options->json, text, fields, 1, options, err);
    if (rc == RC_OK && options->count == 0)
        rc = err_fail(err, RC_REJECT, 0, "options: \"steps\" is missing");
    if (rc != RC_OK)
        steps_options_done(options);
    return rc;
}

void steps_options_done(struct steps_options *options)
{
    task_options_done(options->json);
    for (size_t i = 0; i < STEPS_MAX; i++)
        free(options->steps[i].options);
    memset(options, 0, sizeof(*options));
}
