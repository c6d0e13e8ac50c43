/* SPDX-License-Identifier: MIT */
#include "outbox/retry/handlers/steps_handler.h"

#include "outbox/retry/handlers/task_options.h"
#include "outbox/retry/retry.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define TYPE_BYTES_MAX 128

/* As long as a task waits whose handler does not run here. */
#define ELSEWHERE_MS 10000

static enum rc read_options(struct step *step, const json_t *value, struct err *err)
{
    if (value && !json_is_object(value))
        return err_fail(err, RC_REJECT, 0, "\"options\": a JSON object is expected");
    step->options = value ? json_dumps(value, RETRY_OPTIONS_JSON) : strdup("{}");
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

struct steps {
    const struct retry_handlers *all;
};

static enum rc steps_open(void **handler, const struct retry_handler_env *env, struct err *err)
{
    struct steps *steps = calloc(1, sizeof(*steps));

    if (!steps)
        return err_fail(err, RC_FATAL, 0, "no memory for a handler");
    steps->all = env->all;
    *handler = steps;
    return RC_OK;
}

static void steps_close(void *handler)
{
    free(handler);
}

/* Its place in the table; count when there is none. */
static size_t find_handler(const struct retry_handlers *all, const char *name)
{
    size_t i = 0;

    while (i < all->count && strcmp(all->list[i]->name, name) != 0)
        i++;
    return i;
}

static bool is_itself(const struct step *step)
{
    return strcmp(step->handler, retry_steps_handler.name) == 0;
}

static enum rc check_step(const struct retry_handlers *all, const struct retry_job *job,
                          const struct step *step, struct err *err)
{
    struct retry_job inner = *job;
    size_t at;

    if (is_itself(step))
        return err_fail(err, RC_REJECT, 0, "a step cannot be of the handler steps");
    if (!all)
        return RC_OK;
    at = find_handler(all, step->handler);
    if (at == all->count)
        return err_fail(err, RC_REJECT, 0, "there is no handler \"%s\"", step->handler);
    inner.handler = all->list[at];
    inner.options = step->options;
    if (step->of_result)
        inner.params_len = 0;
    return all->list[at]->check ? all->list[at]->check(all, &inner, err) : RC_OK;
}

static enum rc check_steps(const struct retry_handlers *all, const struct retry_job *job,
                           struct err *err)
{
    struct steps_options options;
    enum rc rc = steps_options_read(&options, job->options, err);

    if (rc != RC_OK)
        return rc;
    for (size_t i = 0; i < options.count && rc == RC_OK; i++) {
        rc = check_step(all, job, &options.steps[i], err);
        if (rc != RC_OK)
            err_wrap(err, "step %zu", i);
    }
    steps_options_done(&options);
    return rc;
}

static void step_destination(const struct retry_handlers *all, const struct retry_job *job,
                             const struct steps_options *options, struct buf *name)
{
    struct retry_job inner = *job;
    const struct step *step;
    size_t at;

    if (job->step < 0 || (uint64_t)job->step >= options->count)
        return;
    step = &options->steps[job->step];
    at = find_handler(all, step->handler);
    if (at == all->count || is_itself(step) || !all->list[at]->destination)
        return;
    inner.options = step->options;
    all->list[at]->destination(all, &inner, name);
}

/* The destination of the next step. */
static void steps_destination(const struct retry_handlers *all, const struct retry_job *job,
                              struct buf *name)
{
    struct steps_options *options = malloc(sizeof(*options));

    if (options && steps_options_read(options, job->options, NULL) == RC_OK) {
        step_destination(all, job, options, name);
        steps_options_done(options);
    }
    free(options);
}

static enum rc step_effects(const struct retry_handlers *all, const struct retry_job *job,
                            const struct step *step, retry_on_effect on_effect, void *ctx,
                            struct err *err)
{
    struct retry_job inner = *job;
    size_t at = all ? find_handler(all, step->handler) : 0;
    enum rc rc = on_effect(ctx, step->handler, NULL, err);

    if (rc != RC_OK || !all || at == all->count || is_itself(step) || !all->list[at]->effects)
        return rc;
    inner.options = step->options;
    return all->list[at]->effects(all, &inner, on_effect, ctx, err);
}

static enum rc steps_effects(const struct retry_handlers *all, const struct retry_job *job,
                             retry_on_effect on_effect, void *ctx, struct err *err)
{
    struct steps_options options;
    enum rc rc = steps_options_read(&options, job->options, err);

    if (rc != RC_OK)
        return rc == RC_REJECT ? RC_OK : rc;
    for (size_t i = 0; i < options.count && rc == RC_OK; i++)
        rc = step_effects(all, job, &options.steps[i], on_effect, ctx, err);
    steps_options_done(&options);
    return rc;
}

/* As for a task whose handler is unknown here: the step is neither failed nor dropped. */
static void snooze_elsewhere(const struct step *step, struct attempt_result *attempt)
{
    attempt->end = ATTEMPT_SNOOZED;
    attempt->delay_ms = ELSEWHERE_MS;
    err_set(&attempt->err, "the handler \"%s\" does not run in this process", step->handler);
}

static void run_inner(const struct steps *steps, size_t at, size_t worker,
                      const struct retry_job *job, const struct step *step,
                      struct attempt_result *attempt)
{
    struct retry_job inner = *job;
    struct buf key = {0};

    buf_print(&key, "%s/%" PRId64, job->idempotency_key, job->step);
    inner.idempotency_key = buf_text(&key);
    inner.options = step->options;
    if (step->of_result) {
        inner.params = job->step_result;
        inner.params_len = job->step_result_len;
    }
    if (step->type)
        inner.params_type = step->type;
    steps->all->list[at]->run(steps->all->opened[at], worker, &inner, attempt);
    buf_done(&key);
}

static void run_step(const struct steps *steps, size_t worker, const struct retry_job *job,
                     const struct steps_options *options, struct attempt_result *attempt)
{
    const struct step *step;
    size_t at;

    if (job->step < 0 || (uint64_t)job->step >= options->count) {
        attempt_fail(attempt, FAULT_SOURCE_PLAIN, 0, FAULT_CLASS_REFUSED,
                     "the task is at step %" PRId64 ", and its options have %zu", job->step,
                     options->count);
        return;
    }
    step = &options->steps[job->step];
    if (is_itself(step)) {
        attempt_fail(attempt, FAULT_SOURCE_PLAIN, 0, FAULT_CLASS_REFUSED,
                     "step %" PRId64 ": steps have no steps", job->step);
        return;
    }
    at = find_handler(steps->all, step->handler);
    if (at == steps->all->count || !steps->all->opened[at])
        snooze_elsewhere(step, attempt);
    else
        run_inner(steps, at, worker, job, step, attempt);
    if (attempt->end == ATTEMPT_DONE)
        attempt->more_steps = (size_t)job->step + 1 < options->count;
    else
        err_wrap(&attempt->err, "step %" PRId64, job->step);
}

static void steps_run(void *handler, size_t worker, const struct retry_job *job,
                      struct attempt_result *attempt)
{
    struct steps_options *options = malloc(sizeof(*options));
    struct err err = {0};

    if (!options) {
        attempt_fail(attempt, FAULT_SOURCE_PLAIN, 0, FAULT_CLASS_TRANSIENT, "no memory for steps");
        return;
    }
    if (steps_options_read(options, job->options, &err) == RC_OK) {
        run_step(handler, worker, job, options, attempt);
        steps_options_done(options);
    } else {
        attempt_refuse(attempt, &err);
    }
    free(options);
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

const struct retry_handler retry_steps_handler = {
    .name = "steps",
    .about = "Runs other handlers one after the other, and repeats only the one that failed.",
    .needs_all = true,
    .open = steps_open,
    .check = check_steps,
    .destination = steps_destination,
    .effects = steps_effects,
    .run = steps_run,
    .close = steps_close,
};
