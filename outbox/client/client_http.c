/* SPDX-License-Identifier: MIT */
#include "outbox/client/client_http.h"

#include "common/config/secret_file.h"
#include "common/os.h"
#include "common/text.h"
#include "outbox/client/result.h"
#include "outbox/client/task_body.h"
#include "tallybox_version.h"

#include <curl/curl.h>
#include <errno.h>
#include <limits.h>
#include <openssl/crypto.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

#define ANSWER_BYTES_MAX ((size_t)4 << 20)
#define TIMEOUT_MS 10000
#define RETRY_AFTER_S_MAX 3600
#define QUOTE_BYTES_MAX 200 /* of an answer, in an error text */

struct tallybox_client {
    pthread_mutex_t lock; /* guards easy, and is held during a request: there is one connection */
    CURL *easy;
    char *url; /* with the path */
    char *token;
    char *token_file;
    char *ca_file;
    int64_t timeout_ms;
};

static pthread_once_t curl_once = PTHREAD_ONCE_INIT;
static bool curl_works; /* written under curl_once alone */

static void start_curl(void)
{
    curl_works = curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
}

static char *copy_text(const char *text, bool *failed)
{
    char *copy = text ? strdup(text) : NULL;

    *failed |= text && !copy;
    return copy;
}

static char *make_url(const char *base, bool *failed)
{
    struct buf url = {0};
    size_t len = strlen(base);
    char *text;

    while (len > 0 && base[len - 1] == '/')
        len--;
    buf_put(&url, base, len);
    buf_text_put(&url, "/v1/tasks");
    text = copy_text(buf_text(&url), failed);
    buf_done(&url);
    return text;
}

static enum rc check_server(const struct tallybox_server *server, struct err *err)
{
    if (!server->url || (strncasecmp(server->url, "http://", 7) != 0 &&
                         strncasecmp(server->url, "https://", 8) != 0))
        return err_fail(err, RC_REJECT, 0, "url does not begin with http:// or https://");
    if (strpbrk(server->url, " \t\r\n?#@"))
        return err_fail(err, RC_REJECT, 0,
                        "url has a blank, an account or a query: it is the server's address alone");
    if (!server->token == !server->token_file)
        return err_fail(err, RC_REJECT, 0, "set token or token_file, not both");
    if (server->token && (server->token[0] == '\0' || strpbrk(server->token, " \t\r\n")))
        return err_fail(err, RC_REJECT, 0, "token is empty or has a blank");
    if (server->timeout_ms < 0 || server->timeout_ms > INT_MAX)
        return err_fail(err, RC_REJECT, 0, "timeout_ms is not 0 to %d", INT_MAX);
    if (server->ca_file && access(server->ca_file, R_OK) != 0)
        return err_fail(err, RC_REJECT, errno, "ca_file: cannot read %.200s: %s", server->ca_file,
                        strerror(errno));
    return RC_OK;
}

/* Appends the token of the file, which is its one line. */
static enum rc put_file_token(const char *path, struct buf *header, struct err *err)
{
    struct buf file = {0};
    size_t len = 0;
    enum rc rc = secret_file_read(&file, path, err);

    if (rc == RC_OK) {
        const char *text = buf_text(&file);

        len = strcspn(text, "\r\n");
        if (len == 0 || strcspn(text, " \t") < len || text[len + strspn(text + len, "\r\n")] != 0)
            rc = err_fail(err, RC_FATAL, 0, "%.200s: the file has not one line with a token", path);
        else
            buf_put(header, text, len);
    }
    secret_file_forget(&file);
    return rc == RC_REJECT ? RC_FATAL : rc;
}

/* Appends the header with the token; the copies in memory are few. */
static enum rc put_token(const struct tallybox_client *client, struct buf *header, struct err *err)
{
    buf_text_put(header, "Authorization: Bearer ");
    if (client->token_file)
        return put_file_token(client->token_file, header, err);
    buf_text_put(header, client->token);
    return RC_OK;
}

static enum rc open_client(struct tallybox_client **out, const struct tallybox_server *server,
                           struct err *err)
{
    struct tallybox_client *client;
    struct buf header = {0};
    bool failed = false;
    enum rc rc = check_server(server, err);

    if (rc != RC_OK)
        return rc;
    pthread_once(&curl_once, start_curl);
    if (!curl_works)
        return err_fail(err, RC_FATAL, 0, "libcurl cannot be used");
    client = calloc(1, sizeof(*client));
    if (!client)
        return err_fail(err, RC_FATAL, 0, "no memory for a client");
    pthread_mutex_init(&client->lock, NULL);
    client->easy = curl_easy_init();
    client->url = make_url(server->url, &failed);
    client->token = copy_text(server->token, &failed);
    client->token_file = copy_text(server->token_file, &failed);
    client->ca_file = copy_text(server->ca_file, &failed);
    client->timeout_ms = server->timeout_ms > 0 ? server->timeout_ms : TIMEOUT_MS;
    if (failed || !client->easy)
        rc = err_fail(err, RC_FATAL, 0, "no memory for a client");
    if (rc == RC_OK)
        rc = put_token(client, &header, err);
    secret_file_forget(&header);
    if (rc == RC_OK)
        *out = client;
    else
        tallybox_client_close(client);
    return rc;
}

enum tallybox_result tallybox_client_open(struct tallybox_client **client,
                                          const struct tallybox_server *server,
                                          struct tallybox_error *error)
{
    struct err err = {0};

    return result_give(open_client(client, server, &err), &err, error);
}

void tallybox_client_close(struct tallybox_client *client)
{
    if (!client)
        return;
    curl_easy_cleanup(client->easy);
    pthread_mutex_destroy(&client->lock);
    if (client->token)
        OPENSSL_cleanse(client->token, strlen(client->token));
    free(client->url);
    free(client->token);
    free(client->token_file);
    free(client->ca_file);
    free(client);
}

static size_t on_body(char *bytes, size_t size, size_t count, void *ctx)
{
    struct buf *body = ctx;

    buf_put(body, bytes, size * count);
    return body->failed ? 0 : size * count;
}

static int on_progress(void *ctx, curl_off_t dltotal, curl_off_t dlnow, curl_off_t ultotal,
                       curl_off_t ulnow)
{
    const atomic_llong *until_ms = ctx;

    (void)dltotal;
    (void)dlnow;
    (void)ultotal;
    (void)ulnow;
    return os_now_ms() > atomic_load(until_ms);
}

static void set_limits(const struct tallybox_client *client)
{
    CURL *easy = client->easy;

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
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
    curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)client->timeout_ms);
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)client->timeout_ms);
    curl_easy_setopt(easy, CURLOPT_USERAGENT, "libtallybox/" TALLYBOX_VERSION);
    if (client->ca_file) {
        curl_easy_setopt(easy, CURLOPT_CAINFO, client->ca_file);
        curl_easy_setopt(easy, CURLOPT_CAPATH, NULL);
    }
}

/* NULL: no memory, or no token, as err tells. */
static struct curl_slist *make_headers(const struct tallybox_client *client, enum rc *rc,
                                       struct err *err)
{
    struct buf token = {0};
    struct curl_slist *list = NULL;

    *rc = put_token(client, &token, err);
    if (*rc == RC_OK && !token.failed) {
        struct curl_slist *more = curl_slist_append(NULL, buf_text(&token));

        list = curl_slist_append(more, "Content-Type: application/json");
        more = list ? list : more;
        list = list ? curl_slist_append(list, "Expect:") : NULL;
        if (!list)
            curl_slist_free_all(more);
    }
    secret_file_forget(&token);
    if (*rc == RC_OK && !list)
        *rc = err_fail(err, RC_FATAL, 0, "no memory for a request");
    return list;
}

static void forget_headers(struct curl_slist *headers)
{
    for (struct curl_slist *one = headers; one; one = one->next)
        OPENSSL_cleanse(one->data, strlen(one->data));
    curl_slist_free_all(headers);
}

/* OpenSSL writes to a broken connection without MSG_NOSIGNAL. Holds SIGPIPE back in this thread,
 * and drops the one that the request has raised. */
struct pipe_guard {
    sigset_t old;
    bool was_pending;
};

static void guard_pipe(struct pipe_guard *guard)
{
    sigset_t pipe_only, pending;

    sigemptyset(&pipe_only);
    sigaddset(&pipe_only, SIGPIPE);
    sigpending(&pending);
    guard->was_pending = sigismember(&pending, SIGPIPE) == 1;
    pthread_sigmask(SIG_BLOCK, &pipe_only, &guard->old);
}

static void release_pipe(const struct pipe_guard *guard)
{
    static const struct timespec at_once = {0};
    sigset_t pipe_only;

    sigemptyset(&pipe_only);
    sigaddset(&pipe_only, SIGPIPE);
    if (!guard->was_pending)
        while (sigtimedwait(&pipe_only, NULL, &at_once) == SIGPIPE)
            continue;
    pthread_sigmask(SIG_SETMASK, &guard->old, NULL);
}

static enum rc classify_status(const struct tallybox_client *client, long status,
                               struct client_reply *reply, struct err *err)
{
    bool refuses = status == 400 || status == 409 || status == 413 || status == 422;

    if (status == 200)
        return RC_OK;
    if (reply->body.len > QUOTE_BYTES_MAX)
        buf_cut(&reply->body, QUOTE_BYTES_MAX);
    return err_fail(err, refuses ? RC_REJECT : RC_RETRY, (int)status, "%.100s: status %ld: %s",
                    client->url, status, buf_text(&reply->body));
}

static enum rc perform(struct tallybox_client *client, struct client_reply *reply, struct err *err)
{
    char fault[CURL_ERROR_SIZE] = "";
    struct pipe_guard guard;
    curl_off_t seconds = 0;
    long status = 0;
    CURLcode code;

    curl_easy_setopt(client->easy, CURLOPT_ERRORBUFFER, fault);
    guard_pipe(&guard);
    code = curl_easy_perform(client->easy);
    release_pipe(&guard);
    curl_easy_getinfo(client->easy, CURLINFO_RESPONSE_CODE, &status);
    curl_easy_getinfo(client->easy, CURLINFO_RETRY_AFTER, &seconds);
    if (seconds > RETRY_AFTER_S_MAX)
        seconds = RETRY_AFTER_S_MAX;
    reply->retry_after_ms = seconds > 0 ? (int64_t)seconds * 1000 : 0;
    if (code == CURLE_OK)
        return classify_status(client, status, reply, err);
    return err_fail(err, RC_RETRY, 0, "%.100s: %.200s", client->url,
                    code == CURLE_ABORTED_BY_CALLBACK ? "no answer before the time was over"
                    : fault[0]                        ? fault
                                                      : curl_easy_strerror(code));
}

enum rc client_post(struct tallybox_client *client, const struct buf *body,
                    const atomic_llong *until_ms, struct client_reply *reply, struct err *err)
{
    struct curl_slist *headers;
    enum rc rc;

    if (body->failed)
        return err_fail(err, RC_FATAL, 0, "no memory for a request");
    headers = make_headers(client, &rc, err);
    if (!headers)
        return rc;
    reply->body.size_max = ANSWER_BYTES_MAX;
    pthread_mutex_lock(&client->lock);
    /* It keeps the connection. */
    curl_easy_reset(client->easy);
    set_limits(client);
    curl_easy_setopt(client->easy, CURLOPT_URL, client->url);
    curl_easy_setopt(client->easy, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(client->easy, CURLOPT_POST, 1L);
    curl_easy_setopt(client->easy, CURLOPT_POSTFIELDS, body->data);
    curl_easy_setopt(client->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)body->len);
    curl_easy_setopt(client->easy, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(client->easy, CURLOPT_WRITEDATA, &reply->body);
    if (until_ms) {
        curl_easy_setopt(client->easy, CURLOPT_NOPROGRESS, 0L);
        curl_easy_setopt(client->easy, CURLOPT_XFERINFOFUNCTION, on_progress);
        curl_easy_setopt(client->easy, CURLOPT_XFERINFODATA, (void *)(uintptr_t)until_ms);
    }
    rc = perform(client, reply, err);
    curl_easy_reset(client->easy);
    pthread_mutex_unlock(&client->lock);
    forget_headers(headers);
    return rc;
}

static enum rc submit_tasks(struct tallybox_client *client, const struct tallybox_task *tasks,
                            size_t count, struct tallybox_answer *answers, struct err *err)
{
    struct client_reply reply = {0};
    struct buf body = {0};
    enum rc rc;

    for (size_t i = 0; i < count; i++) {
        buf_char(&body, i > 0 ? ',' : '[');
        task_body_put(&body, &tasks[i], tasks[i].idempotency_key);
    }
    buf_char(&body, ']');
    rc = client_post(client, &body, NULL, &reply, err);
    if (rc == RC_OK)
        rc = task_answers_read(buf_text(&reply.body), reply.body.len, count, answers, err);
    buf_done(&reply.body);
    buf_done(&body);
    return rc;
}

enum tallybox_result tallybox_client_submit(struct tallybox_client *client,
                                            const struct tallybox_task *tasks, size_t count,
                                            struct tallybox_answer *answers,
                                            struct tallybox_error *error)
{
    struct err err = {0};
    enum rc rc;

    if (tallybox_task_check(tasks, count, error) != TALLYBOX_OK)
        return TALLYBOX_REJECT;
    if (count == 0 || count > TALLYBOX_SUBMIT_TASKS_MAX)
        rc = err_fail(&err, RC_REJECT, 0, "%zu tasks: a request has 1 to %d", count,
                      TALLYBOX_SUBMIT_TASKS_MAX);
    else
        rc = submit_tasks(client, tasks, count, answers, &err);
    return result_give(rc, &err, error);
}
