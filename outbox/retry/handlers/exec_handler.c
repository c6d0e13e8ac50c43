/* SPDX-License-Identifier: MIT */
#include "outbox/retry/handlers/exec_handler.h"

#include "common/os.h"
#include "common/text.h"
#include "outbox/retry/handlers/child.h"
#include "outbox/retry/handlers/task_options.h"
#include "outbox/retry/policy/wait.h"

#include <inttypes.h>
#include <jansson.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define PATH_BYTES_MAX 1023
#define ARG_BYTES_MAX 65535

#define VARIABLES_MAX 10

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

struct exec {
    const char *programs;
    const struct stop *stop;
};

static enum rc exec_open(void **handler, const struct retry_handler_env *env, struct err *err)
{
    struct exec *exec = calloc(1, sizeof(*exec));

    if (!exec)
        return err_fail(err, RC_FATAL, 0, "no memory for a handler");
    /* The parent process may have ignored SIGCHLD; then the exit status of a program is lost. */
    signal(SIGCHLD, SIG_DFL);
    exec->programs = env->settings->retry.exec_programs;
    exec->stop = env->stop;
    *handler = exec;
    return RC_OK;
}

static void exec_close(void *handler)
{
    free(handler);
}

static enum rc exec_check(const struct retry_handlers *all, const struct retry_job *job,
                          struct err *err)
{
    struct exec_options options;
    enum rc rc = exec_options_read(&options, job->options, err);

    (void)all;
    if (rc == RC_OK)
        exec_options_done(&options);
    return rc;
}

static void exec_destination(const struct retry_handlers *all, const struct retry_job *job,
                             struct buf *name)
{
    struct exec_options options;

    (void)all;
    if (exec_options_read(&options, job->options, NULL) != RC_OK)
        return;
    buf_text_put(name, "exec:");
    buf_text_put(name, options.args[0]);
    exec_options_done(&options);
}

/* NAME=value texts, each with its final zero byte, one after the other. */
static void put_variable(struct buf *buf, const char *name, const char *value)
{
    if (!value)
        return;
    buf_print(buf, "TALLYBOX_%s=", name);
    buf_text_put(buf, value);
    buf_char(buf, '\0');
}

static void put_number(struct buf *buf, const char *name, int64_t value)
{
    buf_print(buf, "TALLYBOX_%s=%" PRId64, name, value);
    buf_char(buf, '\0');
}

static void put_variables(struct buf *buf, const struct retry_job *job)
{
    put_number(buf, "TASK", job->id);
    put_number(buf, "ATTEMPT", job->attempt);
    put_number(buf, "STEP", job->step);
    if (!job->receiver_retries)
        put_number(buf, "NO_RETRY", 1);
    put_variable(buf, "GROUP", job->group);
    put_variable(buf, "SCENE", job->scene);
    put_variable(buf, "IDEMPOTENCY_KEY", job->idempotency_key);
    put_variable(buf, "ORDERING_KEY", job->ordering_key);
    put_variable(buf, "BIZ_NO", job->biz_no);
    put_variable(buf, "PARAMS_TYPE", job->params_type);
}

static void list_variables(struct buf *buf, const char *list[VARIABLES_MAX + 1])
{
    size_t count = 0;

    for (size_t at = 0; at < buf->len && count < VARIABLES_MAX; at += strlen(buf->data + at) + 1)
        list[count++] = buf->data + at;
    list[count] = NULL;
}

static void report_timeout(struct attempt_result *attempt, const char *program, int signal)
{
    attempt_fail(attempt, FAULT_SOURCE_SIGNAL, signal, FAULT_CLASS_TRANSIENT,
                 "%s did not end in time and was killed", program);
}

/* A program that exits with 0 is done, even after it was asked to end. */
static void classify_end(const struct child_end *end, const char *program,
                         struct attempt_result *attempt)
{
    const char *mark = end->words[0] ? ": " : "";

    if (end->error != 0)
        attempt_fail(attempt, FAULT_SOURCE_PLAIN, 0, FAULT_CLASS_OURS, "%s cannot be run: %s",
                     program, strerror(end->error));
    else if (end->signal == 0 && end->code == 0)
        return;
    else if (end->stopped)
        attempt_cut(attempt);
    else if (end->lease_lost)
        attempt_lose_lease(attempt);
    else if (end->timed_out)
        report_timeout(attempt, program, end->signal != 0 ? end->signal : SIGTERM);
    else if (end->signal != 0)
        attempt_fail(attempt, FAULT_SOURCE_SIGNAL, end->signal, FAULT_CLASS_TRANSIENT,
                     "%s died of signal %d%s%s", program, end->signal, mark, end->words);
    else
        attempt_fail(attempt, FAULT_SOURCE_EXIT, end->code, FAULT_CLASS_TRANSIENT,
                     "%s exited with %d%s%s", program, end->code, mark, end->words);
    if (attempt->end != ATTEMPT_FAILED || attempt->source != FAULT_SOURCE_EXIT)
        return;
    if (end->code == EXEC_REJECT)
        attempt->end = ATTEMPT_REJECTED;
    if (end->code == EXEC_SNOOZE) {
        attempt->end = ATTEMPT_SNOOZED;
        attempt->delay_ms = EXEC_SNOOZE_MS;
    }
}

static void run_program(const struct exec *exec, const struct retry_job *job,
                        const struct exec_options *options, struct attempt_result *attempt)
{
    const char *environment[VARIABLES_MAX + 1];
    struct buf variables = {0};
    struct child_order order = {
        .args = options->args,
        .environment = environment,
        .input = job->params,
        .input_len = job->params_len,
        .output = attempt->result,
        .until_ms = os_now_ms() + options->timeout_ms,
        .lease_until_ms = job->lease_until_ms,
        .stop = exec->stop,
    };
    struct child_end end;

    put_variables(&variables, job);
    if (variables.failed) {
        attempt_fail(attempt, FAULT_SOURCE_PLAIN, 0, FAULT_CLASS_TRANSIENT,
                     "no memory for an environment");
    } else {
        list_variables(&variables, environment);
        end = child_run(&order);
        classify_end(&end, options->args[0], attempt);
    }
    buf_done(&variables);
}

static void exec_run(void *handler, size_t worker, const struct retry_job *job,
                     struct attempt_result *attempt)
{
    const struct exec *exec = handler;
    struct exec_options options;
    struct err err = {0};

    (void)worker;
    if (stop_requested(exec->stop)) {
        attempt_cut(attempt);
        return;
    }
    if (exec_options_read(&options, job->options, &err) != RC_OK) {
        attempt_refuse(attempt, &err);
        return;
    }
    if (exec_is_allowed(exec->programs, options.args[0]))
        run_program(exec, job, &options, attempt);
    else
        attempt_fail(attempt, FAULT_SOURCE_PLAIN, 0, FAULT_CLASS_OURS,
                     "\"%.128s\" is not in retry.exec_programs of this process", options.args[0]);
    exec_options_done(&options);
}

enum rc exec_options_read(struct exec_options *options, const char *text, struct err *err)
{
    enum rc rc;

    *options = (struct exec_options){.timeout_ms = EXEC_TIMEOUT_MS_DEFAULT};
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

const struct retry_handler retry_exec_handler = {
    .name = "exec",
    .about = "Runs a program of retry.exec_programs with the parameters on its stdin.",
    .open = exec_open,
    .check = exec_check,
    .destination = exec_destination,
    .run = exec_run,
    .close = exec_close,
};
