/* SPDX-License-Identifier: MIT */
/* The options of an `exec` task:
 *
 *     {"program": PATH, "args": [TEXT, ...], "timeout": "30s"}
 *
 * Only program is required; it must be in retry.exec_programs. Pure; any thread. */
#ifndef OUTBOX_RETRY_HANDLERS_EXEC_OPTIONS_H
#define OUTBOX_RETRY_HANDLERS_EXEC_OPTIONS_H

#include "common/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EXEC_ARGS_MAX 64
#define EXEC_TIMEOUT_MS_STANDARD 30000

struct json_t;

struct exec_options {
    const char *args[EXEC_ARGS_MAX + 2]; /* the program first, NULL at the end */
    int64_t timeout_ms;
    struct json_t *json; /* the texts point into it */
};

/* RC_REJECT: err names the fault in the text. After a failure exec_options_done() is not needed. */
enum rc exec_options_read(struct exec_options *options, const char *text, struct err *err);
void exec_options_done(struct exec_options *options);

/* Is program one of the list, as retry.exec_programs is kept? */
bool exec_is_allowed(const char *list, const char *program);

#endif
