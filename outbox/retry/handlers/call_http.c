/* SPDX-License-Identifier: MIT */
#include "outbox/retry/handlers/call_http.h"

#include "common/loop.h"
#include "common/os.h"
#include "outbox/retry/handler.h"
#include "tallybox_version.h"

#include <assert.h>
#include <curl/curl.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

/* Of an answer, all together. */
#define HEAD_BYTES_MAX 65536

/* A call that is in flight when the process stops gets this much time to finish: otherwise it is
 * repeated. */
#define STOP_GRACE_MS 1000

#define CONNECT_MS_MAX 10000
#define RETRY_AFTER_S_MAX 3600
#define IDLE_CONNECTIONS 16

struct line {
    CURLM *multi; /* holds the connections */
    CURL *easy;
};

struct caller {
    const struct settings *settings;
    const struct stop *stop;
    size_t workers;
    struct line lines[];
};

/* One call under way. */
struct way {
    struct call_answer *answer;
    struct buf *body;
    size_t head_len;
    char trouble[CURL_ERROR_SIZE];
};

static bool names_header(const char *line, size_t len, const char *name)
{
    size_t name_len = strlen(name);

    return len > name_len && line[name_len] == ':' && strncasecmp(line, name, name_len) == 0;
}

static size_t on_head(char *line, size_t size, size_t count, void *ctx)
{
    struct way *way = ctx;
    size_t len = size * count;

    way->head_len += len;
    if (way->head_len > HEAD_BYTES_MAX)
        return 0;
    if (names_header(line, len, "tallybox-no-retry"))
        way->answer->no_retry = true;
    return len;
}

static size_t on_body(char *bytes, size_t size, size_t count, void *ctx)
{
    struct way *way = ctx;

    buf_put(way->body, bytes, size * count);
    if (way->body->len > RETRY_RESULT_BYTES_MAX)
        way->body->failed = true;
    return way->body->failed ? 0 : size * count;
}

static bool is_method(const struct call *call, const char *method)
{
    return strcmp(call->method, method) == 0;
}

static void set_body(CURL *easy, const struct call *call)
{
    bool has_body =
        call->body || is_method(call, "POST") || is_method(call, "PUT") || is_method(call, "PATCH");

    if (is_method(call, "HEAD")) {
        curl_easy_setopt(easy, CURLOPT_NOBODY, 1L);
        return;
    }
    if (is_method(call, "GET")) {
        curl_easy_setopt(easy, CURLOPT_HTTPGET, 1L);
        return;
    }
    if (has_body) {
        curl_easy_setopt(easy, CURLOPT_POST, 1L);
        curl_easy_setopt(easy, CURLOPT_POSTFIELDS, call->body ? call->body : "");
        curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)call->body_len);
    }
    curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, call->method);
}

static void set_limits(CURL *easy, const struct settings *settings)
{
#if LIBCURL_VERSION_NUM >= 0x075500
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
#else
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS, CURLPROTO_HTTP | CURLPROTO_HTTPS);
#endif
    curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(easy, CURLOPT_PROXY, "");
    curl_easy_setopt(easy, CURLOPT_NOPROXY, "*");
    curl_easy_setopt(easy, CURLOPT_NETRC, (long)CURL_NETRC_IGNORED);
    curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, 1L);
    curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 2L);
    curl_easy_setopt(easy, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    if (settings->retry.http_ca[0]) {
        curl_easy_setopt(easy, CURLOPT_CAINFO, settings->retry.http_ca);
        curl_easy_setopt(easy, CURLOPT_CAPATH, NULL);
    }
}

static void set_callbacks(CURL *easy, struct way *way)
{
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(easy, CURLOPT_PATH_AS_IS, 1L);
    curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
    curl_easy_setopt(easy, CURLOPT_USERAGENT, "tallybox/" TALLYBOX_VERSION);
    curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_head);
    curl_easy_setopt(easy, CURLOPT_HEADERDATA, way);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, way);
    curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, way->trouble);
}

/* NULL: no memory. An "Expect" without a value: a body is sent at once. */
static struct curl_slist *make_headers(const struct call *call)
{
    struct curl_slist *list = curl_slist_append(NULL, "Expect:");

    for (size_t i = 0; list && i < call->header_count; i++) {
        struct curl_slist *longer = curl_slist_append(list, call->headers[i]);

        if (!longer)
            curl_slist_free_all(list);
        list = longer;
    }
    return list;
}

static enum rc prepare_line(struct line *line)
{
    if (!line->multi)
        line->multi = curl_multi_init();
    if (!line->easy)
        line->easy = curl_easy_init();
    if (!line->multi || !line->easy)
        return RC_FATAL;
    curl_multi_setopt(line->multi, CURLMOPT_MAXCONNECTS, (long)IDLE_CONNECTIONS);
    curl_easy_reset(line->easy);
    return RC_OK;
}

/* CALL_ANSWERED: the call ended. CALL_FAILED: its time is over. */
static enum call_end wait_for_end(const struct caller *caller, CURLM *multi,
                                  const struct call *call)
{
    struct curl_waitfd wakeup = {.fd = caller->stop->fd, .events = CURL_WAIT_POLLIN};
    int64_t until_ms = call->until_ms;
    enum call_end end = CALL_FAILED;
    int running = 1;

    while (curl_multi_perform(multi, &running) == CURLM_OK && running > 0) {
        int64_t now_ms = os_now_ms();
        int64_t lease_ms = atomic_load(call->lease_until_ms) - now_ms;
        int64_t left_ms;

        loop_goes_on(now_ms);
        if (lease_ms <= 0)
            return CALL_LOST;
        if (end == CALL_FAILED && stop_requested(caller->stop)) {
            end = CALL_CUT;
            if (now_ms + STOP_GRACE_MS < until_ms)
                until_ms = now_ms + STOP_GRACE_MS;
        }
        left_ms = until_ms - now_ms;
        if (left_ms <= 0)
            return end;
        if (lease_ms < left_ms)
            left_ms = lease_ms;
        if (left_ms > HANDLER_WAIT_MS_MAX)
            left_ms = HANDLER_WAIT_MS_MAX;
        if (curl_multi_poll(multi, &wakeup, end == CALL_CUT ? 0 : 1, (int)left_ms, NULL) !=
            CURLM_OK)
            return end;
    }
    return running == 0 ? CALL_ANSWERED : end;
}

static CURLcode get_code(CURLM *multi)
{
    int left;

    for (CURLMsg *message; (message = curl_multi_info_read(multi, &left));)
        if (message->msg == CURLMSG_DONE)
            return message->data.result;
    return CURLE_OPERATION_TIMEDOUT;
}

static void take_answer(CURL *easy, struct call_answer *answer)
{
    curl_off_t seconds = 0;
    long status = 0;

    curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
    curl_easy_getinfo(easy, CURLINFO_RETRY_AFTER, &seconds);
    if (seconds > RETRY_AFTER_S_MAX)
        seconds = RETRY_AFTER_S_MAX;
    answer->status = (int)status;
    answer->retry_after_ms = seconds > 0 ? (int64_t)seconds * 1000 : 0;
}

/* A connection that was used before may have carried the request: libcurl counts its bytes. */
static bool is_unsent(CURL *easy, CURLcode code)
{
    curl_off_t connect_us = 0;
    long bytes = 0;

    curl_easy_getinfo(easy, CURLINFO_REQUEST_SIZE, &bytes);
    curl_easy_getinfo(easy, CURLINFO_CONNECT_TIME_T, &connect_us);
    return bytes == 0 && (code == CURLE_COULDNT_RESOLVE_HOST || code == CURLE_COULDNT_CONNECT ||
                          (code == CURLE_OPERATION_TIMEDOUT && connect_us == 0));
}

static enum call_end classify_end(CURLcode code, const struct call *call, const struct way *way,
                                  const struct call_answer *answer, enum call_end waited,
                                  struct err *err)
{
    bool too_long = code == CURLE_WRITE_ERROR && answer->status >= 200 && way->body->failed;

    if (code == CURLE_OK || too_long)
        return CALL_ANSWERED;
    if (waited == CALL_CUT || waited == CALL_LOST)
        return waited;
    err_fail(err, RC_RETRY, -(int)code, "http: %s %s: %s", call->method, call->origin,
             way->head_len > HEAD_BYTES_MAX     ? "the headers of its answer are too long"
             : way->trouble[0]                  ? way->trouble
             : code == CURLE_OPERATION_TIMEDOUT ? "no complete answer in time"
                                                : curl_easy_strerror(code));
    return CALL_FAILED;
}

static enum call_end run_call(const struct caller *caller, struct line *line,
                              const struct call *call, struct way *way, struct err *err)
{
    CURLcode code = CURLE_OPERATION_TIMEDOUT;
    enum call_end waited;

    if (curl_multi_add_handle(line->multi, line->easy) != CURLM_OK) {
        err_fail(err, RC_RETRY, -(int)CURLE_FAILED_INIT, "http: libcurl refuses the call");
        return CALL_FAILED;
    }
    waited = wait_for_end(caller, line->multi, call);
    if (waited == CALL_ANSWERED)
        code = get_code(line->multi);
    take_answer(line->easy, way->answer);
    way->answer->unsent = is_unsent(line->easy, code);
    /* Takes the connection down where the call is under way. */
    curl_multi_remove_handle(line->multi, line->easy);
    return classify_end(code, call, way, way->answer, waited, err);
}

enum call_end caller_call(struct caller *caller, size_t worker, const struct call *call,
                          struct call_answer *answer, struct buf *body, struct err *err)
{
    struct line *line = &caller->lines[worker];
    struct way way = {.answer = answer, .body = body};
    struct curl_slist *headers;
    int64_t left_ms = call->until_ms - os_now_ms();
    int64_t connect_ms = call->connect_ms_max > 0 && call->connect_ms_max < CONNECT_MS_MAX
                             ? call->connect_ms_max
                             : CONNECT_MS_MAX;
    enum call_end end;

    assert(worker < caller->workers);
    memset(answer, 0, sizeof(*answer));
    if (stop_requested(caller->stop))
        return CALL_CUT;
    headers = make_headers(call);
    if (!headers || prepare_line(line) != RC_OK) {
        curl_slist_free_all(headers);
        err_fail(err, RC_RETRY, -(int)CURLE_OUT_OF_MEMORY, "http: no memory for a call");
        return CALL_FAILED;
    }
    set_callbacks(line->easy, &way);
    set_limits(line->easy, caller->settings);
    set_body(line->easy, call);
    curl_easy_setopt(line->easy, CURLOPT_URL, call->url);
    curl_easy_setopt(line->easy, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(line->easy, CURLOPT_CONNECTTIMEOUT_MS,
                     (long)(left_ms < connect_ms ? left_ms > 1 ? left_ms : 1 : connect_ms));
    end = run_call(caller, line, call, &way, err);
    curl_easy_reset(line->easy);
    curl_slist_free_all(headers);
    return end;
}

bool caller_is_ours(int code)
{
    switch (-code) {
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_ISSUER_ERROR:
    case CURLE_UNSUPPORTED_PROTOCOL:
        return true;
    default:
        return false;
    }
}

static enum rc check_ca(const char *path, struct err *err)
{
    if (!*path || access(path, R_OK) == 0)
        return RC_OK;
    return err_fail(err, RC_REJECT, errno, "retry.http_ca: %s: %s", path, strerror(errno));
}

enum rc caller_open(struct caller **out, const struct settings *settings, struct stop *stop,
                    size_t workers, struct err *err)
{
    struct caller *caller;
    enum rc rc = check_ca(settings->retry.http_ca, err);

    if (rc != RC_OK)
        return rc;
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        return err_fail(err, RC_FATAL, 0, "http: libcurl cannot be used");
    caller = calloc(1, sizeof(*caller) + workers * sizeof(struct line));
    if (!caller) {
        curl_global_cleanup();
        return err_fail(err, RC_FATAL, 0, "no memory for calls");
    }
    caller->settings = settings;
    caller->stop = stop;
    caller->workers = workers;
    *out = caller;
    return RC_OK;
}

void caller_close(struct caller *caller)
{
    if (!caller)
        return;
    for (size_t i = 0; i < caller->workers; i++) {
        if (caller->lines[i].easy)
            curl_easy_cleanup(caller->lines[i].easy);
        if (caller->lines[i].multi)
            curl_multi_cleanup(caller->lines[i].multi);
    }
    curl_global_cleanup();
    free(caller);
}
