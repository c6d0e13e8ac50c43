/* SPDX-License-Identifier: MIT */
/* The handler `exec`: runs a program of retry.exec_programs with the params on its stdin. The
 * options of a task are
 *
 *     {"program": PATH, "args": [TEXT, ...], "timeout": "30s"}
 *
 * Only program is required; it must be in retry.exec_programs. The program's environment is
 * TALLYBOX_TASK, _GROUP, _SCENE, _ATTEMPT, _STEP, _IDEMPOTENCY_KEY, _PARAMS_TYPE, _NO_RETRY, and
 * _ORDERING_KEY and _BIZ_NO if the task has them. Its stdout is the result of the step, the last
 * line of its stderr the reason of a failure. Exit codes: 0 done, EXEC_SNOOZE, EXEC_REJECT; any
 * other code is tried again unless the rules in policy.c say otherwise (64, 65, 77, 78, 126, 127).
 * The functions on options are pure; any thread. */
#ifndef OUTBOX_RETRY_HANDLERS_EXEC_HANDLER_H
#define OUTBOX_RETRY_HANDLERS_EXEC_HANDLER_H

#include "common/err.h"
#include "outbox/retry/handler.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EXEC_SNOOZE 99  /* another time, a minute later; no attempt is counted */
#define EXEC_REJECT 100 /* never again */
#define EXEC_SNOOZE_MS 60000

#define EXEC_ARGS_MAX 64
#define EXEC_TIMEOUT_MS_DEFAULT 30000

struct json_t;

struct exec_options {
    const char *args[EXEC_ARGS_MAX + 2]; /* the program first, NULL at the end */
    int64_t timeout_ms;
    struct json_t *json; /* the texts point into it */
};

/* RC_REJECT: err names the fault in the text. After a failure exec_options_done() is not needed. */
enum rc exec_options_read(struct exec_options *options, const char *text, struct err *err);
void exec_options_done(struct exec_options *options);

/* True if program is in list, which has the format of retry.exec_programs. */
bool exec_is_allowed(const char *list, const char *program);

extern const struct retry_handler retry_exec_handler;

#endif
