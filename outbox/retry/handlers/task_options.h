/* SPDX-License-Identifier: MIT */
/* Parses the options of all handlers: a JSON object whose fields are in a table; every field is
 * optional here. An unknown field is an error, because a misspelt one would silently have no
 * effect. Pure; any thread. */
#ifndef OUTBOX_RETRY_HANDLERS_TASK_OPTIONS_H
#define OUTBOX_RETRY_HANDLERS_TASK_OPTIONS_H

#include "common/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct json_t;

/* Parses the value of a field into the handler's own struct, which may keep pointers into the
 * value. */
typedef enum rc (*task_option_take)(void *options, const struct json_t *value, struct err *err);

struct task_option {
    const char *name;
    task_option_take take;
};

/* *json: the parsed object, which task_options_done() frees after options were used; NULL after a
 * failure. RC_REJECT: err names the field and its fault. RC_FATAL: no memory. */
enum rc task_options_read(struct json_t **json, const char *text, const struct task_option *fields,
                          size_t count, void *options, struct err *err);
void task_options_done(struct json_t *json);

/* RC_REJECT unless value is a text without zero bytes, of 1..bytes_max. */
enum rc task_option_text(const struct json_t *value, size_t bytes_max, const char **text,
                         struct err *err);

/* RC_REJECT unless it is a span of time like "5s", of 1 ms..ms_max. */
enum rc task_option_span(const struct json_t *value, int64_t ms_max, int64_t *ms, struct err *err);

#endif
