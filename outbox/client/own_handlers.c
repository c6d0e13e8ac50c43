/* SPDX-License-Identifier: MIT */
#include "outbox/client/own_handlers.h"

#include "common/os.h"
#include "outbox/retry/retry.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Room to end an attempt in before the lease does. */
#define LEASE_SPARE_MS (INT64_C(2) * HANDLER_WAIT_MS_MAX)
#define SNOOZE_MS 60000

_Static_assert(TALLYBOX_RESULT_BYTES_MAX == RETRY_RESULT_BYTES_MAX, "one limit");

/* Invariant: retry is the first field, so that a struct retry_handler * of this module is one of
 * these. */
struct own_handler {
    struct retry_handler retry;
    const struct tallybox_handler *own;
};

struct opened {
    const struct tallybox_handler *own;
    const struct stop *stop;
    void *state;
};

struct tallybox_attempt {
    struct attempt_result *result;
    const struct stop *stop;
    const atomic_llong *lease_until_ms;
    bool stopped;
    bool lease_lost;
    int64_t delay_ms;
    char reason[sizeof(((struct err *)0)->text)];
};

static struct own_handler adapters[TALLYBOX_HANDLERS_MAX];

int tallybox_attempt_goes_on(struct tallybox_attempt *attempt)
{
    int64_t now_ms = os_now_ms();

    loop_goes_on(now_ms);
    attempt->stopped |= stop_requested(attempt->stop);
    attempt->lease_lost |= now_ms + LEASE_SPARE_MS >= atomic_load(attempt->lease_until_ms);
    return !attempt->stopped && !attempt->lease_lost;
}

void tallybox_attempt_explain(struct tallybox_attempt *attempt, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(attempt->reason, sizeof(attempt->reason), format, args);
    va_end(args);
}

void tallybox_attempt_delay(struct tallybox_attempt *attempt, int64_t delay_ms)
{
    attempt->delay_ms = delay_ms < 0 ? ATTEMPT_NO_DELAY : delay_ms;
}

void tallybox_attempt_put_result(struct tallybox_attempt *attempt, const void *bytes, size_t len)
{
    struct buf *result = attempt->result->result;

    if (len > RETRY_RESULT_BYTES_MAX || result->len > RETRY_RESULT_BYTES_MAX - len)
        result->failed = true;
    else
        buf_put(result, bytes, len);
}

static void give_job(const struct retry_job *job, struct tallybox_job *out)
{
    *out = (struct tallybox_job){
        .id = job->id,
        .attempt = job->attempt,
        .group = job->group,
        .scene = job->scene,
        .ordering_key = job->ordering_key,
        .idempotency_key = job->idempotency_key,
        .biz_no = job->biz_no,
        .options = job->options,
        .params = job->params,
        .params_len = job->params_len,
        .params_type = job->params_type,
        .traceparent = job->traceparent,
    };
}

static enum rc take_result(enum tallybox_result result, const struct tallybox_error *error,
                           enum rc otherwise, struct err *err)
{
    return result == TALLYBOX_OK
               ? RC_OK
               : err_fail(err, otherwise, error->code, "%s",
                          error->text[0] ? error->text : "the handler gave no reason");
}

static enum rc open_own(void **out, const struct retry_handler_env *env, struct err *err)
{
    const struct own_handler *self = (const struct own_handler *)env->self;
    const struct tallybox_start start = {.instance = env->instance, .workers = env->workers};
    struct tallybox_error error = {0};
    struct opened *opened = calloc(1, sizeof(*opened));
    enum rc rc = RC_OK;

    if (!opened)
        return err_fail(err, RC_FATAL, 0, "out of memory");
    opened->own = self->own;
    opened->stop = env->stop;
    if (self->own->start)
        rc = take_result(self->own->start(&opened->state, &start, &error), &error, RC_FATAL, err);
    if (rc == RC_OK)
        *out = opened;
    else
        free(opened);
    return rc;
}

static enum rc check_own(const struct retry_handlers *all, const struct retry_job *job,
                         struct err *err)
{
    const struct own_handler *self = (const struct own_handler *)job->handler;
    struct tallybox_error error = {0};
    struct tallybox_job given;

    (void)all;
    if (!self || !self->own->check)
        return RC_OK;
    give_job(job, &given);
    return take_result(self->own->check(&given, &error), &error, RC_REJECT, err);
}

static void fail_own(struct tallybox_attempt *attempt, enum fault_class fault)
{
    attempt_fail(attempt->result, FAULT_SOURCE_PLAIN, 0, fault, "%s",
                 attempt->reason[0] ? attempt->reason : "the handler gave no reason");
    attempt->result->delay_ms = attempt->delay_ms;
}

static void end_own(struct tallybox_attempt *attempt, enum tallybox_run_end end)
{
    switch (end) {
    case TALLYBOX_RUN_DONE:
        attempt->result->end = ATTEMPT_DONE;
        return;
    case TALLYBOX_RUN_REFUSED:
        fail_own(attempt, FAULT_CLASS_REFUSED);
        return;
    case TALLYBOX_RUN_OURS:
        fail_own(attempt, FAULT_CLASS_OURS);
        return;
    case TALLYBOX_RUN_REJECTED:
        fail_own(attempt, FAULT_CLASS_REFUSED);
        attempt->result->end = ATTEMPT_REJECTED;
        return;
    case TALLYBOX_RUN_SNOOZED:
        fail_own(attempt, FAULT_CLASS_TRANSIENT);
        attempt->result->end = ATTEMPT_SNOOZED;
        if (attempt->delay_ms == ATTEMPT_NO_DELAY)
            attempt->result->delay_ms = SNOOZE_MS;
        return;
    case TALLYBOX_RUN_CUT:
        if (attempt->lease_lost)
            attempt_lose_lease(attempt->result);
        else if (attempt->stopped)
            attempt_cut(attempt->result);
        else
            fail_own(attempt, FAULT_CLASS_TRANSIENT);
        return;
    case TALLYBOX_RUN_FAILED:
        break;
    }
    /* Also for a number that is no end. */
    fail_own(attempt, FAULT_CLASS_TRANSIENT);
}

static void run_own(void *handler, size_t worker, const struct retry_job *job,
                    struct attempt_result *result)
{
    const struct opened *opened = handler;
    struct tallybox_attempt attempt = {
        .result = result,
        .stop = opened->stop,
        .lease_until_ms = job->lease_until_ms,
        .delay_ms = ATTEMPT_NO_DELAY,
    };
    struct tallybox_job given;

    /* A task that was claimed long ago may have no lease left. */
    if (!tallybox_attempt_goes_on(&attempt)) {
        end_own(&attempt, TALLYBOX_RUN_CUT);
        return;
    }
    give_job(job, &given);
    end_own(&attempt, opened->own->run(opened->state, worker, &given, &attempt));
}

static void close_own(void *handler)
{
    struct opened *opened = handler;

    if (opened->own->end)
        opened->own->end(opened->state);
    free(opened);
}

static enum rc check_name(const struct retry_handler *const *list, size_t count, const char *name,
                          struct err *err)
{
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.:-";

    if (!name || !*name || strlen(name) > RETRY_HANDLER_BYTES_MAX ||
        name[strspn(name, letters)] != '\0')
        return err_fail(err, RC_REJECT, 0,
                        "handler \"%.64s\": a name has 1 to %d letters, digits and _.:-",
                        name ? name : "", RETRY_HANDLER_BYTES_MAX);
    for (size_t i = 0; i < count; i++)
        if (strcmp(list[i]->name, name) == 0)
            return err_fail(err, RC_REJECT, 0, "handler \"%s\": there are two of this name", name);
    return RC_OK;
}

enum rc own_handlers_add(const struct retry_handler **list, size_t *count,
                         const struct tallybox_handler *const *own, size_t own_count,
                         struct err *err)
{
    size_t total = *count;

    if (own_count > TALLYBOX_HANDLERS_MAX || own_count > RETRY_HANDLERS_MAX - *count)
        return err_fail(err, RC_REJECT, 0, "%zu handlers: a build has %d of its own at the most",
                        own_count, TALLYBOX_HANDLERS_MAX);
    for (size_t i = 0; i < own_count; i++) {
        struct own_handler *adapter = &adapters[i];
        enum rc rc = check_name(list, total, own[i]->name, err);

        if (rc != RC_OK)
            return rc;
        if (!own[i]->run)
            return err_fail(err, RC_REJECT, 0, "handler \"%s\" has no run()", own[i]->name);
        *adapter = (struct own_handler){
            .retry = {.name = own[i]->name,
                      .about = own[i]->about ? own[i]->about : "A handler of this build.",
                      .open = open_own,
                      .check = check_own,
                      .run = run_own,
                      .close = close_own},
            .own = own[i],
        };
        list[total++] = &adapter->retry;
    }
    *count = total;
    return RC_OK;
}
