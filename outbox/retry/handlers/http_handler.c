/* SPDX-License-Identifier: MIT */
#include "outbox/retry/handlers/http_handler.h"

#include "common/condition.h"
#include "common/hash.h"
#include "common/log.h"
#include "common/os.h"
#include "common/trace.h"
#include "outbox/retry/clients/clients.h"
#include "outbox/retry/handlers/call_http.h"
#include "outbox/retry/handlers/endpoints.h"
#include "outbox/retry/handlers/task_options.h"
#include "outbox/retry/policy/wait.h"
#include "outbox/retry/retry_metrics.h"

#include <assert.h>
#include <ctype.h>
#include <inttypes.h>
#include <jansson.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define URL_BYTES_MAX 8000
#define VALUE_BYTES_MAX 8000

/* A quotation of an answer in a reason, with its quotation marks. */
#define ANSWER_WORDS_SIZE 164
#define OWN_HEADERS 7

static enum rc take_method(void *ctx, const json_t *value, struct err *err)
{
    static const char *const methods[] = {"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD"};
    struct http_options *options = ctx;
    const char *text = json_string_value(value);

    for (size_t i = 0; text && i < sizeof(methods) / sizeof(methods[0]); i++) {
        if (strcmp(methods[i], text) == 0) {
            options->method = methods[i];
            return RC_OK;
        }
    }
    return err_fail(err, RC_REJECT, 0, "GET, POST, PUT, PATCH, DELETE or HEAD is expected");
}

static enum rc add_url(struct http_options *options, const json_t *value, struct err *err)
{
    const char *text;
    enum rc rc = task_option_text(value, URL_BYTES_MAX, &text, err);

    if (rc == RC_OK && !http_url_read(&options->urls[options->url_count++], text))
        /* The error does not quote the text, which may contain a password. */
        return err_fail(err, RC_REJECT, 0,
                        "https://host[:port][/path][?query] or http:// is expected, without user, "
                        "fragment and blanks");
    return rc;
}

static enum rc check_urls_once(const struct http_options *options, struct err *err)
{
    return options->url_count > 0 || options->path
               ? err_fail(err, RC_REJECT, 0, "\"url\", \"urls\" or \"path\", only one of them")
               : RC_OK;
}

static enum rc take_url(void *ctx, const json_t *value, struct err *err)
{
    enum rc rc = check_urls_once(ctx, err);

    return rc == RC_OK ? add_url(ctx, value, err) : rc;
}

static enum rc take_urls(void *ctx, const json_t *value, struct err *err)
{
    enum rc rc = check_urls_once(ctx, err);
    size_t i;
    json_t *url;

    if (rc == RC_OK && (json_array_size(value) == 0 || json_array_size(value) > HTTP_URLS_MAX))
        return err_fail(err, RC_REJECT, 0, "a list of 1..%d is expected", HTTP_URLS_MAX);
    json_array_foreach(value, i, url) {
        if (rc != RC_OK)
            return rc;
        rc = add_url(ctx, url, err);
    }
    return rc;
}

/* Whether a segment of the path, up to its query, is "..". */
static bool climbs(const char *path)
{
    for (const char *at = path; *at == '/';) {
        size_t len = strcspn(at + 1, "/?");

        if (len == 2 && strncmp(at + 1, "..", 2) == 0)
            return true;
        at += 1 + len;
    }
    return false;
}

static enum rc take_path(void *ctx, const json_t *value, struct err *err)
{
    struct http_options *options = ctx;
    const char *text;
    enum rc rc = check_urls_once(options, err);

    if (rc == RC_OK)
        rc = task_option_text(value, HTTP_PATH_BYTES_MAX, &text, err);
    if (rc != RC_OK)
        return rc;
    options->path = text;
    for (const char *at = text; *at; at++)
        if (*at <= ' ' || *at > '~' || *at == '#')
            options->path = NULL;
    if (options->path && text[0] == '/' && !climbs(text))
        return RC_OK;
    return err_fail(err, RC_REJECT, 0,
                    "/path[?query] is expected, without fragment, blanks and \"..\"");
}

static bool is_header_name(const char *name)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
                                  "!#$%&'*+-.^_`|~";

    return *name && name[strspn(name, letters)] == '\0';
}

/* Headers that identify the caller or that the protocol needs. */
static bool is_reserved_header(const char *name)
{
    static const char *const names[] = {
        "host", "content-length", "transfer-encoding", "connection", "keep-alive",
        "te",   "trailer",        "upgrade",           "expect",     "idempotency-key"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcasecmp(names[i], name) == 0)
            return true;
    return strncasecmp(name, "tallybox-", 9) == 0 || strncasecmp(name, "proxy-", 6) == 0;
}

static enum rc add_header(struct http_options *options, const char *name, const json_t *value,
                          struct err *err)
{
    const char *text = json_string_value(value);

    if (options->header_count == HTTP_HEADERS_MAX)
        return err_fail(err, RC_REJECT, 0, "%d at most are expected", HTTP_HEADERS_MAX);
    if (!is_header_name(name))
        return err_fail(err, RC_REJECT, 0, "\"%.40s\" is no header name", name);
    if (is_reserved_header(name))
        return err_fail(err, RC_REJECT, 0, "\"%.40s\" is set by the handler itself", name);
    /* The value is not quoted: it may be a secret. */
    if (!text || strlen(text) != json_string_length(value) || strlen(text) > VALUE_BYTES_MAX ||
        !http_is_header_value(text))
        return err_fail(err, RC_REJECT, 0,
                        "the value of \"%.40s\" is not a text of one line, %d bytes at most", name,
                        VALUE_BYTES_MAX);
    options->headers[options->header_count].name = name;
    options->headers[options->header_count].value = text;
    options->header_count++;
    return RC_OK;
}

static enum rc take_headers(void *ctx, const json_t *value, struct err *err)
{
    const char *name;
    json_t *one;

    if (!json_is_object(value))
        return err_fail(err, RC_REJECT, 0, "an object {NAME: VALUE} is expected");
    /* Iterating takes no const, and changes nothing. */
    json_object_foreach((json_t *)(uintptr_t)value, name, one) {
        enum rc rc = add_header(ctx, name, one, err);

        if (rc != RC_OK)
            return rc;
    }
    return RC_OK;
}

static enum rc take_timeout(void *ctx, const json_t *value, struct err *err)
{
    struct http_options *options = ctx;

    return task_option_span(value, SPAN_MS_MAX, &options->timeout_ms, err);
}

/* "200-299,409". */
static bool read_ranges(struct http_options *options, const char *text)
{
    options->ok_count = 0;
    for (;;) {
        struct http_range *range = &options->ok[options->ok_count];
        char *end;

        if (options->ok_count == HTTP_RANGES_MAX || !isdigit((unsigned char)*text))
            return false;
        range->from = (int)strtol(text, &end, 10);
        range->to = range->from;
        if (*end == '-' && isdigit((unsigned char)end[1]))
            range->to = (int)strtol(end + 1, &end, 10);
        if (end - text > 7 || range->from < 100 || range->to < range->from || range->to > 599)
            return false;
        options->ok_count++;
        if (*end == '\0')
            return true;
        if (*end != ',')
            return false;
        text = end + 1;
    }
}

static enum rc take_statuses(struct http_options *options, const json_t *value, struct err *err)
{
    const char *text = json_string_value(value);

    if (text && read_ranges(options, text))
        return RC_OK;
    return err_fail(err, RC_REJECT, 0, "ranges like \"200-299,409\" are expected, %d at most",
                    HTTP_RANGES_MAX);
}

/* In a JSON pointer "~" is followed by 0 or 1. */
static bool is_pointer(const char *text)
{
    if (*text != '/' || strlen(text) > HTTP_POINTER_BYTES_MAX)
        return false;
    for (; *text; text++)
        if (*text == '~' && text[1] != '0' && text[1] != '1')
            return false;
    return true;
}

static enum rc add_value(struct http_options *options, const char *pointer, const json_t *value,
                         struct err *err)
{
    if (!is_pointer(pointer))
        return err_fail(err, RC_REJECT, 0,
                        "\"%.40s\" is neither \"status\" nor a JSON pointer like \"/code\"",
                        pointer);
    if (options->value_count == HTTP_VALUES_MAX)
        return err_fail(err, RC_REJECT, 0, "%d pointers at most are expected", HTTP_VALUES_MAX);
    if (json_is_object(value) || json_is_array(value))
        return err_fail(err, RC_REJECT, 0,
                        "a text, a number, true, false or null is expected at \"%.40s\"", pointer);
    options->values[options->value_count].pointer = pointer;
    options->values[options->value_count].value = value;
    options->value_count++;
    return RC_OK;
}

static enum rc take_ok(void *ctx, const json_t *value, struct err *err)
{
    struct http_options *options = ctx;
    enum rc rc = RC_OK;
    const char *name;
    json_t *one;

    if (!json_is_object(value))
        return take_statuses(options, value, err);
    /* Iterating takes no const, and changes nothing. */
    json_object_foreach((json_t *)(uintptr_t)value, name, one) {
        rc = strcmp(name, "status") == 0 ? take_statuses(options, one, err)
                                         : add_value(options, name, one, err);
        if (rc != RC_OK)
            return rc;
    }
    return options->value_count > 0
               ? rc
               : err_fail(err, RC_REJECT, 0, "a JSON pointer like \"/code\" is missing");
}

/* Copies the first part of a pointer to a name, and returns what follows. */
static const char *next_name(const char *pointer, char name[HTTP_POINTER_BYTES_MAX + 1])
{
    size_t len = 0;

    for (pointer++; *pointer && *pointer != '/'; pointer++) {
        if (*pointer == '~')
            name[len++] = *++pointer == '0' ? '~' : '/';
        else
            name[len++] = *pointer;
    }
    name[len] = '\0';
    return pointer;
}

/* The index of an array has no leading zero (RFC 6901, section 4). */
static const json_t *find_element(const json_t *array, const char *name)
{
    size_t digits = strspn(name, "0123456789");

    if (digits == 0 || digits > 9 || name[digits] || (digits > 1 && *name == '0'))
        return NULL;
    return json_array_get(array, strtoul(name, NULL, 10));
}

/* NULL: the document has nothing there. */
static const json_t *find_value(const json_t *json, const char *pointer)
{
    char name[HTTP_POINTER_BYTES_MAX + 1];

    while (json && *pointer) {
        pointer = next_name(pointer, name);
        json = json_is_array(json) ? find_element(json, name) : json_object_get(json, name);
    }
    return json;
}

/* 0 and 0.0 are the same number. */
static bool value_is_same(const json_t *one, const json_t *other)
{
    if (json_is_real(one) || json_is_real(other))
        return json_is_number(one) && json_is_number(other) &&
               json_number_value(one) == json_number_value(other);
    /* Comparing takes no const in older versions, and changes nothing. */
    return json_equal((json_t *)(uintptr_t)one, (json_t *)(uintptr_t)other) == 1;
}

static const struct task_option fields[] = {
    {"method", take_method},   {"url", take_url}, {"urls", take_urls}, {"headers", take_headers},
    {"timeout", take_timeout}, {"ok", take_ok},   {"path", take_path},
};

struct http {
    const struct settings *settings;
    struct caller *caller;
    pthread_mutex_t lock; /* guards endpoints */
    struct endpoints endpoints;
    struct clients *clients; /* NULL: no task with a path can run */
    /* Fails at the first refused host. Never ok again: the list needs a restart to change. */
    struct condition hosts_listed;
};

static enum rc http_open(void **handler, const struct retry_handler_env *env, struct err *err)
{
    struct http *http = calloc(1, sizeof(*http));
    enum rc rc;

    if (!http)
        return err_fail(err, RC_FATAL, 0, "no memory for a handler");
    http->settings = env->settings;
    http->clients = env->clients;
    pthread_mutex_init(&http->lock, NULL);
    condition_init(&http->hosts_listed, CONDITION_CHECK, "check=http_hosts role=retry");
    rc = caller_open(&http->caller, env->settings, env->stop, env->workers, err);
    if (rc == RC_OK) {
        *handler = http;
    } else {
        condition_done(&http->hosts_listed);
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
    condition_done(&http->hosts_listed);
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

/* All of them, or the same task would work now and fail then. process: "this process". */
static enum rc check_hosts(const struct http_options *options, const char *hosts,
                           const char *process, struct err *err)
{
    for (size_t i = 0; i < options->url_count; i++) {
        const struct http_url *url = &options->urls[i];

        if (!http_url_is_allowed(url, hosts))
            return err_fail(err, RC_REJECT, 0,
                            "the host \"%.*s\" with port %d is not in retry.http_hosts of %s",
                            (int)url->host_len, url->host, url->port, process);
    }
    return RC_OK;
}

static enum rc http_check(const struct retry_handlers *all, const struct retry_job *job,
                          struct err *err)
{
    struct http_options options;
    enum rc rc = http_options_read(&options, job->options, err);

    if (rc == RC_OK)
        rc = check_type(job, err);
    if (rc == RC_OK && all && all->http_hosts)
        rc = check_hosts(&options, all->http_hosts, "this server", err);
    http_options_done(&options);
    return rc;
}

/* Only retry processes watch the clients. */
static bool http_tries_first(const struct retry_job *job, struct err *err)
{
    struct http_options options;
    enum rc rc = http_options_read(&options, job->options, err);

    if (rc == RC_OK && options.path)
        rc = err_fail(err, RC_REJECT, 0,
                      "a task with \"path\" goes to a client of its group, which only retry "
                      "processes call");
    http_options_done(&options);
    return rc == RC_OK;
}

/* Several URLs of one task are one destination, as the clients of its group are, because
 * endpoints.h chooses any that works. */
static void http_destination(const struct retry_handlers *all, const struct retry_job *job,
                             struct buf *name)
{
    struct http_options options;

    (void)all;
    if (http_options_read(&options, job->options, NULL) != RC_OK)
        return;
    if (options.path)
        buf_print(name, "clients:%s", job->group);
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

/* All attempts at a task are one trace; each is a span of its own. */
static void make_trace(char parent[TRACE_SIZE], const struct retry_job *job)
{
    uint64_t trace = hash_fnv1a(HASH_START, job->group, strlen(job->group) + 1);
    uint64_t span;

    trace = hash_fnv1a(trace, job->scene, strlen(job->scene) + 1);
    trace = hash_fnv1a(trace, job->idempotency_key, strlen(job->idempotency_key) + 1);
    trace = hash_fnv1a(trace, &job->id, sizeof(job->id));
    span = hash_fnv1a(trace, &job->attempt, sizeof(job->attempt));
    span = hash_fnv1a(span, &job->step, sizeof(job->step));
    trace_make(parent, trace, span);
}

/* A plain INSERT may have written any text: what is not valid is replaced. */
static void put_trace(struct buf *buf, const struct retry_job *job,
                      const struct http_options *options)
{
    char parent[TRACE_SIZE];

    if (http_own_header(options, TRACE_HEADER))
        return;
    if (!trace_read(job->traceparent, parent))
        make_trace(parent, job);
    buf_print(buf, TRACE_HEADER ": %s", parent);
    buf_char(buf, '\0');
}

static void put_own_headers(struct buf *buf, const struct retry_job *job)
{
    buf_text_put(buf, "Idempotency-Key: ");
    http_put_value(buf, job->idempotency_key);
    buf_char(buf, '\0');
    buf_print(buf, HEADER_ATTEMPT ": %" PRId64, job->attempt);
    buf_char(buf, '\0');
    if (!job->receiver_retries) {
        buf_text_put(buf, HEADER_NO_RETRY ": 1");
        buf_char(buf, '\0');
    }
    buf_print(buf, HEADER_SCENE ": %s/%s", job->group, job->scene);
    buf_char(buf, '\0');
    buf_print(buf, "tallybox-task: %" PRId64, job->id);
    buf_char(buf, '\0');
}

/* libcurl's syntax: "Name: value", "Name;" for an empty value, "Name:" to remove the header. */
static void put_headers(struct buf *buf, const struct retry_job *job,
                        const struct http_options *options)
{
    put_own_headers(buf, job);
    put_trace(buf, job, options);
    if (!http_own_header(options, "content-type")) {
        buf_text_put(buf, "Content-Type:");
        if (job->params && job->params_type[0])
            buf_print(buf, " %s", job->params_type);
        buf_char(buf, '\0');
    }
    for (size_t i = 0; i < options->header_count; i++) {
        const char *value = options->headers[i].value;

        /* Invariant: http_options_read() stores a text for every header. */
        assert(value);
        buf_text_put(buf, options->headers[i].name);
        buf_text_put(buf, *value ? ": " : ";");
        buf_text_put(buf, value);
        buf_char(buf, '\0');
    }
}

/* The beginning of an answer's body, for the reason: mostly a word on what is wrong. */
static void quote_answer(char words[ANSWER_WORDS_SIZE], const struct buf *body)
{
    size_t len = body->len < ANSWER_WORDS_SIZE - 3 ? body->len : ANSWER_WORDS_SIZE - 3;

    words[0] = '\0';
    if (len > 0)
        snprintf(words, ANSWER_WORDS_SIZE, "\"%.*s\"", (int)len, body->data);
}

static void classify_answer(const struct http_options *options, const struct http_url *url,
                            const struct call_answer *answer, struct attempt_result *attempt)
{
    char words[ANSWER_WORDS_SIZE] = "";
    struct err err = {0};
    bool ok = http_is_ok(options, answer->status);

    if (ok && http_check_answer(options, attempt->result, &err) == RC_OK)
        return;
    if (!ok)
        quote_answer(words, attempt->result);
    attempt_fail(attempt, FAULT_SOURCE_HTTP, answer->status, FAULT_CLASS_TRANSIENT,
                 "http: %s %s: answered with status %d%s%s%s", options->method, url->origin,
                 answer->status,
                 ok       ? ", but "
                 : *words ? " "
                          : "",
                 ok ? err.text : words, answer->no_retry ? ", and asked not to try again" : "");
    if (answer->no_retry)
        attempt->end = ATTEMPT_REJECTED;
    if (answer->retry_after_ms > 0)
        attempt->delay_ms = answer->retry_after_ms;
}

/* Makes the call, and decides what it means for the task. Returns how it ended; *answer is zeroed
 * if there is none. */
static enum call_end make_call(struct http *http, size_t worker, const struct retry_job *job,
                               const struct http_options *options, const struct http_url *url,
                               struct call *call, struct call_answer *answer,
                               struct attempt_result *attempt)
{
    struct err err = {0};
    enum call_end end;

    *answer = (struct call_answer){0};
    call->url = url->text;
    call->origin = url->origin;
    call->body = job->params;
    call->body_len = job->params_len;
    end = caller_call(http->caller, worker, call, answer, attempt->result, &err);
    if (end == CALL_ANSWERED)
        classify_answer(options, url, answer, attempt);
    else if (end == CALL_CUT)
        attempt_cut(attempt);
    else if (end == CALL_LOST)
        attempt_lose_lease(attempt);
    else
        attempt_fail(attempt, FAULT_SOURCE_HTTP, err.code,
                     caller_is_ours(err.code) ? FAULT_CLASS_OURS : FAULT_CLASS_TRANSIENT, "%s",
                     err.text);
    return end;
}

static void call_url(struct http *http, size_t worker, const struct retry_job *job,
                     const struct http_options *options, struct call *call,
                     struct attempt_result *attempt)
{
    const struct http_url *url = &options->urls[pick_url(http, options)];
    struct call_answer answer;
    enum call_end end = make_call(http, worker, job, options, url, call, &answer, attempt);

    end_picked(http, url, end == CALL_FAILED || answer.status >= 500, options->url_count == 1,
               &attempt->err);
}

/* Without a live client the task waits: nothing was called. */
static void wait_for_client(struct http *http, const struct retry_job *job, bool read,
                            struct attempt_result *attempt)
{
    attempt->end = ATTEMPT_SNOOZED;
    attempt->waits = true;
    attempt->delay_ms =
        read ? clients_wait_ms(http->clients, job->group, os_now_ms()) : CLIENTS_WAIT_MS;
    err_set(&attempt->err,
            read ? RETRY_CLIENT_NONE ": group %s has none that this process may call"
                 : RETRY_CLIENT_NONE ": those of group %s have not been read yet",
            job->group);
    metric_add(&retry_client_waits, 1);
}

static void wait_for_token(const struct retry_job *job, const struct clients_attempt *clients,
                           struct attempt_result *attempt)
{
    attempt->end = ATTEMPT_SNOOZED;
    attempt->waits = true;
    attempt->delay_ms = clients->wait_ms;
    err_set(&attempt->err, "the rate of scene %s allows no more calls of a client of group %s now",
            job->scene, job->group);
}

/* The part of the time that is left which a connection may take, so that another client can be
 * tried if this one cannot be reached. */
static int64_t share_connect_ms(const struct clients_attempt *clients, const struct call *call)
{
    size_t tries = CLIENTS_TRIES_MAX - clients->tried_count + 1;
    int64_t left_ms = call->until_ms - os_now_ms();

    if (clients->is_last || tries <= 1 || left_ms <= 0)
        return 0;
    return left_ms / (int64_t)tries + 1;
}

/* Calls the client that was picked. True: it could not be reached, and another one may be tried. */
static bool call_picked(struct http *http, size_t worker, const struct retry_job *job,
                        const struct http_options *options, struct clients_attempt *clients,
                        const struct call *call, struct attempt_result *attempt)
{
    const char *address = clients->tried[clients->tried_count - 1];
    char text[RETRY_CLIENT_ADDRESS_SIZE + HTTP_PATH_BYTES_MAX + 1];
    struct http_url url;
    struct call made = *call;
    struct call_answer answer;
    enum clients_outcome outcome = CLIENTS_WORKED;
    enum call_end end;
    bool read;

    snprintf(text, sizeof(text), "%s%s", address, options->path);
    /* Invariant: the address of a live client is a URL, and the path continues it. */
    read = http_url_read(&url, text);
    assert(read);
    (void)read;
    made.connect_ms_max = share_connect_ms(clients, call);
    end = make_call(http, worker, job, options, &url, &made, &answer, attempt);
    if (end == CALL_FAILED)
        outcome = answer.unsent ? CLIENTS_UNSENT : CLIENTS_FAILED;
    else if (answer.status >= 500)
        outcome = CLIENTS_FAILED;
    if (clients_report(http->clients, clients, outcome, os_now_ms(), os_random_u64()))
        log_error(LOG_WARN, "retry_client_ignored", &attempt->err, "group=%s client=%s", job->group,
                  address);
    return outcome == CLIENTS_UNSENT && call->until_ms > os_now_ms();
}

static void call_clients(struct http *http, size_t worker, const struct retry_job *job,
                         const struct http_options *options, const struct call *call,
                         struct attempt_result *attempt)
{
    struct clients_attempt clients = {
        .group = job->group,
        .scene = job->scene,
        .rate = &job->client_rate,
        .key = job->ordering_key ? job->ordering_key : job->idempotency_key,
    };
    bool again = true;

    while (again) {
        enum clients_found found =
            http->clients ? clients_pick(http->clients, &clients, os_now_ms(), os_random_u64())
                          : CLIENTS_UNREAD;

        if (found == CLIENTS_BUSY && clients.tried_count == 0)
            wait_for_token(job, &clients, attempt);
        else if (found != CLIENTS_FOUND && clients.tried_count == 0)
            wait_for_client(http, job, found == CLIENTS_NONE, attempt);
        if (found != CLIENTS_FOUND)
            return;
        if (clients.tried_count > 1) {
            metric_add(&retry_client_others, 1);
            attempt_reset(attempt);
        }
        again = call_picked(http, worker, job, options, &clients, call, attempt);
    }
}

static int64_t limit_attempt_ms(const struct retry_job *job, const struct http_options *options)
{
    if (job->attempt_ms_max > 0 && job->attempt_ms_max < options->timeout_ms)
        return job->attempt_ms_max;
    return options->timeout_ms;
}

static void call_endpoint(struct http *http, size_t worker, const struct retry_job *job,
                          const struct http_options *options, struct attempt_result *attempt)
{
    const char *headers[HTTP_HEADERS_MAX + OWN_HEADERS];
    struct buf texts = {0};
    struct call made = {
        .method = options->method,
        .headers = headers,
        .until_ms = os_now_ms() + limit_attempt_ms(job, options),
        .lease_until_ms = job->lease_until_ms,
    };

    put_headers(&texts, job, options);
    for (size_t at = 0; !texts.failed && at < texts.len; at += strlen(texts.data + at) + 1)
        headers[made.header_count++] = texts.data + at;
    if (texts.failed)
        attempt_fail(attempt, FAULT_SOURCE_PLAIN, 0, FAULT_CLASS_TRANSIENT,
                     "no memory for headers");
    else if (options->path)
        call_clients(http, worker, job, options, &made, attempt);
    else
        call_url(http, worker, job, options, &made, attempt);
    buf_done(&texts);
}

static bool check_may_call(struct http *http, const struct http_options *options,
                           struct attempt_result *attempt)
{
    struct err err = {0};

    if (check_hosts(options, http->settings->retry.http_hosts, "this process", &err) == RC_OK)
        return true;
    attempt_fail(attempt, FAULT_SOURCE_PLAIN, 0, FAULT_CLASS_OURS, "%s", err.text);
    condition_fail(&http->hosts_listed, os_now_ms(), &attempt->err);
    return false;
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

bool http_is_header_value(const char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < ' ' || *text == 0x7f)
            return false;
    return true;
}

enum rc http_options_read(struct http_options *options, const char *text, struct err *err)
{
    enum rc rc;

    memset(options, 0, sizeof(*options));
    options->method = "POST";
    options->timeout_ms = HTTP_TIMEOUT_MS_DEFAULT;
    options->ok[0] = (struct http_range){200, 299};
    options->ok_count = 1;
    rc = task_options_read(&options->json, text, fields, sizeof(fields) / sizeof(fields[0]),
                           options, err);
    if (rc == RC_OK && options->url_count == 0 && !options->path)
        rc = err_fail(err, RC_REJECT, 0, "options: \"url\" is missing, or \"path\"");
    if (rc != RC_OK)
        http_options_done(options);
    return rc;
}

void http_options_done(struct http_options *options)
{
    task_options_done(options->json);
    memset(options, 0, sizeof(*options));
}

bool http_is_ok(const struct http_options *options, int status)
{
    for (size_t i = 0; i < options->ok_count; i++)
        if (options->ok[i].from <= status && status <= options->ok[i].to)
            return true;
    return false;
}

enum rc http_check_answer(const struct http_options *options, const struct buf *body,
                          struct err *err)
{
    enum rc rc = RC_OK;
    json_t *json;

    if (options->value_count == 0)
        return RC_OK;
    if (body->failed)
        return err_fail(err, RC_REJECT, 0, "the answer is too long to be checked by \"ok\"");
    json = json_loadb(body->data ? body->data : "", body->len, JSON_DECODE_ANY, NULL);
    if (!json)
        return err_fail(err, RC_REJECT, 0, "the answer is not JSON, so \"ok\" cannot check it");
    for (size_t i = 0; rc == RC_OK && i < options->value_count; i++) {
        const json_t *found = find_value(json, options->values[i].pointer);

        if (!found || !value_is_same(found, options->values[i].value))
            rc = err_fail(err, RC_REJECT, 0, "the answer has %s at \"%.40s\"",
                          found ? "another value than \"ok\"" : "nothing",
                          options->values[i].pointer);
    }
    json_decref(json);
    return rc;
}

const char *http_own_header(const struct http_options *options, const char *name)
{
    for (size_t i = 0; i < options->header_count; i++)
        if (strcasecmp(options->headers[i].name, name) == 0)
            return options->headers[i].value;
    return NULL;
}

void http_put_value(struct buf *buf, const char *text)
{
    for (; *text; text++) {
        if (*text > ' ' && *text <= '~' && *text != '%')
            buf_char(buf, *text);
        else
            buf_print(buf, "%%%02X", (unsigned)(unsigned char)*text);
    }
}

const struct retry_handler retry_http_handler = {
    .name = "http",
    .about = "Calls a host of retry.http_hosts with the parameters as the body.",
    .open = http_open,
    .check = http_check,
    .tries_first = http_tries_first,
    .destination = http_destination,
    .run = http_run,
    .close = http_close,
};
