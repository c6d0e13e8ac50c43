/* SPDX-License-Identifier: MIT */
/* The handler `steps`: runs one step of a task per attempt with the step's handler, and repeats
 * only the failed step after a failure. A step's idempotency key is the task's, "/" and its
 * number. The options of a task are
 *
 *     {"steps": [{"handler": NAME, "options": {...}, "params": "task" or "result",
 *                 "type": CONTENT TYPE}, ...]}
 *
 * Only handler is required in a step. A step with "params": "result" gets the result of the
 * previous step instead of the task's parameters. The functions on options are pure; any
 * thread. */
#ifndef OUTBOX_RETRY_HANDLERS_STEPS_HANDLER_H
#define OUTBOX_RETRY_HANDLERS_STEPS_HANDLER_H

#include "common/err.h"
#include "outbox/retry/handler.h"

#include <stdbool.h>
#include <stddef.h>

#define STEPS_MAX 100

struct json_t;

struct step {
    const char *handler;
    char *options;    /* a JSON object */
    bool of_result;   /* its params are the previous step's result */
    const char *type; /* of its params; NULL: the task's */
};

struct steps_options {
    struct step steps[STEPS_MAX];
    size_t count;
    struct json_t *json; /* the texts point into it */
};

/* RC_REJECT: err names the fault in the text. After a failure steps_options_done() is not
 * needed. */
enum rc steps_options_read(struct steps_options *options, const char *text, struct err *err);
void steps_options_done(struct steps_options *options);

extern const struct retry_handler retry_steps_handler;

#endif
