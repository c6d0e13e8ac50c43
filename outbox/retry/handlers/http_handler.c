/* SPDX-License-Identifier: MIT */
#include "outbox/retry/handlers/http_handler.h"

#include "common/log.h"
#include "common/os.h"
#include "outbox/retry/handlers/attempt.h"
#include "outbox/retry/handlers/call_http.h"
#include "outbox/retry/handlers/endpoints.h"
#include "outbox/retry/handlers/http_options.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define OWN_HEADERS 5

struct http {
    const struct settings *settings;
    struct caller *caller;
    pthread_mutex_t lock; /* guards endpoints */
    struct endpoints endpoints;
};

static enum rc http_open(void **handler, const struct retry_handler_env *env, struct err *err)
{
    struct http *http = calloc(1, sizeof(*http));
    enum rc rc;

    if (!http)
        return err_fail(err, RC_FATAL, 0, "no memory for a handler");
    http->settings = env->settings;
    pthread_mutex_init(&http->lock, NULL);
    rc = caller_open(&http->caller, env->settings, env->stop, env->workers, err);
    if (rc == RC_OK) {
        *handler = http;
    } else {
        pthread_mutex_destroy(&http->lock);
        free(http);
    }
    return rc;
}

static void http_close(void *handler)
{
    struct http *http = handler;

    if (!http)
        return;
    caller_close(http->caller);
    pthread_mutex_destroy(&http->lock);
    free(http);
}

/* The params type comes from the client that made the task. */
static enum rc check_type(const struct retry_job *job, struct err *err)
{
    if (http_is_header_value(job->params_type))
        return RC_OK;
    return err_fail(err, RC_REJECT, 0, "the type of the params is not one line");
}

static enum rc http_check(const struct retry_handlers *all, const struct retry_job *job,
                          struct err *err)
{
    struct http_options options;
    enum rc rc = http_options_read(&options, job->options, err);

    (void)all;
    if (rc == RC_OK)
        rc = check_type(job, err);
    http_options_done(&options);
    return rc;
}

/* Several URLs of one task are one destination, because endpoints.h chooses any that works. */
static void http_destination(const struct retry_handlers *all, const struct retry_job *job,
                             struct buf *name)
{
    struct http_options options;

    (void)all;
    if (http_options_read(&options, job->options, NULL) != RC_OK)
        return;
    for (size_t i = 0; i < options.url_count; i++) {
        if (i > 0)
            buf_char(name, ',');
        buf_text_put(name, options.urls[i].origin);
    }
    http_options_done(&options);
}

static size_t pick_url(struct http *http, const struct http_options *options)
{
    const char *names[HTTP_URLS_MAX];
    size_t index;

    for (size_t i = 0; i < options->url_count; i++)
        names[i] = options->urls[i].origin;
    pthread_mutex_lock(&http->lock);
    index =
        endpoints_pick(&http->endpoints, names, options->url_count, os_now_ms(), os_random_u64());
    pthread_mutex_unlock(&http->lock);
    return index;
}

static void end_picked(struct http *http, const struct http_url *url, bool failed, bool alone,
                       const struct err *err)
{
    bool out;

    pthread_mutex_lock(&http->lock);
    out = endpoints_end(&http->endpoints, url->origin, failed, os_now_ms(), os_random_u64());
    pthread_mutex_unlock(&http->lock);
    /* The only URL of a task is called even while its endpoint is left out. */
    if (out && !alone)
        log_error(LOG_WARN, "retry_endpoint_ignored", err, "endpoint=%s", url->origin);
}

static void put_own_headers(struct buf *buf, const struct retry_job *job)
{
    buf_text_put(buf, "Idempotency-Key: ");
    http_put_value(buf, job->idempotency_key);
    buf_char(buf, '\0');
    buf_print(buf, HEADER_ATTEMPT ": %" PRId64, job->attempt);
    buf_char(buf, '\0');
    buf_text_put(buf, HEADER_NO_RETRY ": 1");
    buf_char(buf, '\0');
    buf_print(buf, "tallybox-task: %" PRId64, job->id);
    buf_char(buf, '\0');
}

/* libcurl's syntax: "Name: value", "Name;" for an empty value, "Name:" to remove the header. */
static void put_headers(struct buf *buf, const struct retry_job *job,
                        const struct http_options *options)
{
    put_own_headers(buf, job);
    if (!http_own_header(options, "content-type")) {
        buf_text_put(buf, "Content-Type:");
        if (job->params && job->params_type[0])
            buf_print(buf, " %s", job->params_type);
        buf_char(buf, '\0');
    }
    for (size_t i = 0; i < options->header_count; i++) {
        const char *value = options->headers[i].value;

        buf_text_put(buf, options->headers[i].name);
        buf_text_put(buf, *value ? ": " : ";");
        buf_text_put(buf, value);
        buf_char(buf, '\0');
    }
}

static void classify_answer(const struct http_options *options, const struct http_url *url,
                            const struct call_answer *answer, struct attempt_result *attempt)
{
    if (http_is_ok(options, answer->status))
        return;
    attempt_fail(attempt, FAULT_HTTP, answer->status, FAULT_TRANSIENT,
                 "http: %s %s: answered with status %d%s", options->method, url->origin,
                 answer->status, answer->no_retry ? ", and asked not to try again" : "");
    if (answer->no_retry)
        attempt->end = ATTEMPT_REJECTED;
    if (answer->retry_after_ms > 0)
        attempt->delay_ms = answer->retry_after_ms;
}

static void call_url(struct http *http, size_t worker, const struct retry_job *job,
                     const struct http_options *options, struct call *call,
                     struct attempt_result *attempt)
{
    const struct http_url *url = &options->urls[pick_url(http, options)];
    struct call_answer answer = {0};
    struct err err = {0};
    enum call_end end;

    call->url = url->text;
    call->origin = url->origin;
    call->body = job->params;
    call->body_len = job->params_len;
    end = caller_call(http->caller, worker, call, &answer, attempt->result, &err);
    if (end == CALL_ANSWERED)
        classify_answer(options, url, &answer, attempt);
    else if (end == CALL_CUT)
        attempt_cut(attempt);
    else if (end == CALL_LOST)
        attempt_lose_lease(attempt);
    else
        attempt_fail(attempt, FAULT_HTTP, err.code,
                     caller_is_ours(err.code) ? FAULT_OURS : FAULT_TRANSIENT, "%s", err.text);
    end_picked(http, url, end == CALL_FAILED || answer.status >= 500, options->url_count == 1,
               &attempt->err);
}

static void call_endpoint(struct http *http, size_t worker, const struct retry_job *job,
                          const struct http_options *options, struct attempt_result *attempt)
{
    const char *headers[HTTP_HEADERS_MAX + OWN_HEADERS];
    struct buf texts = {0};
    struct call made = {
        .method = options->method,
        .headers = headers,
        .until_ms = os_now_ms() + options->timeout_ms,
        .lease_until_ms = job->lease_until_ms,
    };

    put_headers(&texts, job, options);
    for (size_t at = 0; !texts.failed && at < texts.len; at += strlen(texts.data + at) + 1)
        headers[made.header_count++] = texts.data + at;
    if (texts.failed)
        attempt_fail(attempt, FAULT_PLAIN, 0, FAULT_TRANSIENT, "no memory for headers");
    else
        call_url(http, worker, job, options, &made, attempt);
    buf_done(&texts);
}

/* All of them, or the same task would work now and fail then. */
static bool check_may_call(const struct http *http, const struct http_options *options,
                           struct attempt_result *attempt)
{
    for (size_t i = 0; i < options->url_count; i++) {
        const struct http_url *url = &options->urls[i];

        if (http_is_allowed(http->settings->retry.http_hosts, url))
            continue;
        attempt_fail(attempt, FAULT_PLAIN, 0, FAULT_OURS,
                     "the host \"%.*s\" with port %d is not in retry.http_hosts of this process",
                     (int)url->host_len, url->host, url->port);
        return false;
    }
    return true;
}

static void http_run(void *handler, size_t worker, const struct retry_job *job,
                     struct attempt_result *attempt)
{
    struct http *http = handler;
    struct http_options options;
    struct err err = {0};
    enum rc rc = http_options_read(&options, job->options, &err);

    if (rc == RC_OK)
        rc = check_type(job, &err);
    if (rc != RC_OK)
        attempt_refuse(attempt, &err);
    else if (check_may_call(http, &options, attempt))
        call_endpoint(http, worker, job, &options, attempt);
    http_options_done(&options);
}

const struct retry_handler retry_http_handler = {
    .name = "http",
    .about = "Calls a host of retry.http_hosts with the parameters as the body.",
    .open = http_open,
    .check = http_check,
    .destination = http_destination,
    .run = http_run,
    .close = http_close,
};
