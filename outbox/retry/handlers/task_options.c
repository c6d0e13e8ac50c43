/* SPDX-License-Identifier: MIT */
#include "outbox/retry/handlers/task_options.h"

#include "outbox/retry/policy/wait.h"

#include <jansson.h>
#include <string.h>

static const struct task_option *find_field(const struct task_option *fields, size_t count,
                                            const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(fields[i].name, name) == 0)
            return &fields[i];
    return NULL;
}

static enum rc take_fields(json_t *json, const struct task_option *fields, size_t count,
                           void *options, struct err *err)
{
    const char *name;
    json_t *value;

    json_object_foreach(json, name, value) {
        const struct task_option *field = find_field(fields, count, name);
        enum rc rc;

        if (!field)
            return err_fail(err, RC_REJECT, 0, "options: this handler has no field \"%.40s\"",
                            name);
        rc = field->take(options, value, err);
        if (rc != RC_OK) {
            err_wrap(err, "options: \"%s\"", field->name);
            return rc;
        }
    }
    return RC_OK;
}

enum rc task_options_read(json_t **json, const char *text, const struct task_option *fields,
                          size_t count, void *options, struct err *err)
{
    json_error_t fault;
    enum rc rc;

    /* The JSON parser's message may quote the text, which may contain a secret. */
    *json = json_loads(text, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &fault);
    if (!*json && json_error_code(&fault) == json_error_out_of_memory)
        return err_fail(err, RC_FATAL, 0, "no memory for the options of a task");
    if (!*json)
        return err_fail(err, RC_REJECT, 0,
                        "options: not a JSON object: error at line %d, column %d", fault.line,
                        fault.column);
    rc = json_is_object(*json) ? take_fields(*json, fields, count, options, err)
                               : err_fail(err, RC_REJECT, 0, "options: not a JSON object");
    if (rc != RC_OK) {
        json_decref(*json);
        *json = NULL;
    }
    return rc;
}

void task_options_done(json_t *json)
{
    json_decref(json);
}

enum rc task_option_text(const json_t *value, size_t bytes_max, const char **text, struct err *err)
{
    size_t len = json_string_length(value);

    *text = json_string_value(value);
    if (*text && len > 0 && len <= bytes_max && strlen(*text) == len)
        return RC_OK;
    return err_fail(err, RC_REJECT, 0, "a text of 1..%zu bytes is expected", bytes_max);
}

enum rc task_option_span(const json_t *value, int64_t ms_max, int64_t *ms, struct err *err)
{
    const char *text = json_string_value(value);
    char most[SPAN_TEXT_SIZE];

    if (text && span_parse(text, strlen(text), ms) && *ms > 0 && *ms <= ms_max)
        return RC_OK;
    span_text(ms_max, most);
    return err_fail(err, RC_REJECT, 0, "a time like \"500ms\" or \"5s\" is expected, %s at most",
                    most);
}
