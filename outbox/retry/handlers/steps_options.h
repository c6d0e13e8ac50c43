/* SPDX-License-Identifier: MIT */
/* What the options of a `steps` task say:
 *
 *     {"steps": [{"handler": NAME, "options": {...}, "params": "task" or "result",
 *                 "type": CONTENT TYPE}, ...]}
 *
 * Only handler has to be there in a step. With "params": "result" it gets what the step before gave
 * instead of the task's own parameters. Pure; any thread. */
#ifndef OUTBOX_RETRY_HANDLERS_STEPS_OPTIONS_H
#define OUTBOX_RETRY_HANDLERS_STEPS_OPTIONS_H

#include "common/err.h"

#include <stdbool.h>
#include <stddef.h>

#define STEPS_MAX 100

struct json_t;

struct step {
    const char *handler;
    char *options;    /* a JSON object */
    bool of_result;   /* its params are what the step before gave */
    const char *type; /* of its params; NULL: the task's */
};

struct steps_options {
    struct step steps[STEPS_MAX];
    size_t count;
    struct json_t *json; /* what the texts point into */
};

/* RC_REJECT: err says what is wrong with text. After a failure nothing needs steps_options_done().
 */
enum rc steps_options_read(struct steps_options *options, const char *text, struct err *err);
void steps_options_done(struct steps_options *options);

#endif
