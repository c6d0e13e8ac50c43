/* SPDX-License-Identifier: MIT */
/* The retry queue's handler `http` against servers that answer well, badly, and not at all. */
#include "common/http/http.h"
#include "common/os.h"
#include "common/trace.h"
#include "outbox/retry/handlers/http_handler.h"
#include "tests/flow/raw_peer.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LONG_MS 60000

struct fixture {
    struct raw_peer peer;
    struct settings settings;
    struct stop stop;
    void *handler;
    struct buf result;
    struct attempt_result attempt;
    struct retry_job job;
    atomic_llong lease_until_ms;
};

static void handler_open(struct fixture *fixture)
{
    struct retry_handler_env env = {
        .settings = &fixture->settings, .stop = &fixture->stop, .instance = "test", .workers = 1};
    struct err err = {0};

    if (retry_http_handler.open(&fixture->handler, &env, &err) != RC_OK)
        fail_msg("%s", err.text);
}

static int setup(void **state)
{
    static struct fixture fixture;
    struct err err = {0};

    memset(&fixture, 0, sizeof(fixture));
    signal(SIGPIPE, SIG_IGN);
    raw_peer_open(&fixture.peer);
    snprintf(fixture.settings.retry.http_hosts, sizeof(fixture.settings.retry.http_hosts),
             "127.0.0.1:%d,127.0.0.1:1", fixture.peer.port);
    assert_int_equal(stop_init(&fixture.stop, &err), RC_OK);
    buf_init(&fixture.result, RETRY_RESULT_BYTES_MAX);
    handler_open(&fixture);
    fixture.job = (struct retry_job){.id = 42,
                                     .group = "default",
                                     .scene = "mail",
                                     .idempotency_key = "order 7",
                                     .params = "{\"n\": 1}",
                                     .params_len = 8,
                                     .params_type = "application/json",
                                     .attempt = 3,
                                     .lease_until_ms = &fixture.lease_until_ms};
    atomic_store(&fixture.lease_until_ms, os_now_ms() + LONG_MS);
    *state = &fixture;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *fixture = *state;

    retry_http_handler.close(fixture->handler);
    raw_peer_close(&fixture->peer);
    buf_done(&fixture->result);
    stop_done(&fixture->stop);
    return 0;
}

static const struct attempt_result *run(struct fixture *fixture, const char *options)
{
    buf_reset(&fixture->result);
    fixture->attempt =
        (struct attempt_result){.delay_ms = ATTEMPT_NO_DELAY, .result = &fixture->result};
    fixture->job.options = options;
    retry_http_handler.run(fixture->handler, 0, &fixture->job, &fixture->attempt);
    return &fixture->attempt;
}

/* more: other fields of the options, with a comma in front. */
static const struct attempt_result *run_path(struct fixture *fixture, const char *path,
                                             const char *more)
{
    static char options[1024];

    snprintf(options, sizeof(options), "{\"url\": \"http://127.0.0.1:%d%s\"%s}", fixture->peer.port,
             path, more);
    return run(fixture, options);
}

static void assert_done(const struct attempt_result *attempt)
{
    if (attempt->end != ATTEMPT_DONE)
        fail_msg("%s", attempt->err.text);
}

static void assert_failed(const struct attempt_result *attempt, int code)
{
    assert_int_equal(attempt->end, ATTEMPT_FAILED);
    assert_int_equal(attempt->source, FAULT_SOURCE_HTTP);
    if (attempt->code != code)
        fail_msg("%d: %s", attempt->code, attempt->err.text);
}

static void assert_asked(struct fixture *fixture, const char *text)
{
    char request[RAW_REQUEST_SIZE];

    raw_peer_last(&fixture->peer, request);
    if (!strstr(request, text))
        fail_msg("no \"%s\" in:\n%s", text, request);
}

static void assert_not_asked(struct fixture *fixture, const char *text)
{
    char request[RAW_REQUEST_SIZE];

    raw_peer_last(&fixture->peer, request);
    assert_null(strstr(request, text));
}

static void a_call_has_its_identity_headers_and_the_parameters(void **state)
{
    struct fixture *fixture = *state;

    assert_done(run_path(fixture, "/ok?a=1",
                         ", \"headers\": {\"Authorization\": \"Bearer x\", \"X-E\": \"\"}"));
    assert_string_equal(buf_text(&fixture->result), "done");
    assert_asked(fixture, "POST /ok?a=1 HTTP/1.1\r\n");
    assert_asked(fixture, "\r\nIdempotency-Key: order%207\r\n");
    assert_asked(fixture, "\r\ntallybox-attempt: 3\r\n");
    assert_asked(fixture, "\r\ntallybox-no-retry: 1\r\n");
    assert_asked(fixture, "\r\ntallybox-task: 42\r\n");
    assert_asked(fixture, "\r\ntallybox-scene: default/mail\r\n");
    assert_asked(fixture, "\r\nContent-Type: application/json\r\n");
    assert_asked(fixture, "\r\nAuthorization: Bearer x\r\n");
    assert_asked(fixture, "\r\nX-E:\r\n");
    assert_asked(fixture, "\r\n\r\n{\"n\": 1}");
    assert_not_asked(fixture, "Expect");
}

static void a_call_asks_for_no_retry_unless_the_scene_lets_the_receiver_retry(void **state)
{
    struct fixture *fixture = *state;

    fixture->job.receiver_retries = true;
    assert_done(run_path(fixture, "/ok", ""));
    assert_not_asked(fixture, "tallybox-no-retry");
    assert_asked(fixture, "\r\ntallybox-attempt: 3\r\n");
}

/* Copies the traceparent of the last call. */
static void read_trace(struct fixture *fixture, char parent[TRACE_SIZE])
{
    char request[RAW_REQUEST_SIZE];
    char *at;

    raw_peer_last(&fixture->peer, request);
    at = strstr(request, "\r\ntraceparent: ");
    assert_non_null(at);
    at += strlen("\r\ntraceparent: ");
    at[strcspn(at, "\r")] = '\0';
    assert_true(trace_read(at, parent));
    assert_string_equal(at, parent);
}

static void a_call_carries_the_traceparent_that_its_task_has(void **state)
{
    static const char given[] = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00";
    struct fixture *fixture = *state;
    char parent[TRACE_SIZE];

    fixture->job.traceparent = given;
    assert_done(run_path(fixture, "/ok", ""));
    read_trace(fixture, parent);
    assert_string_equal(parent, given);
    assert_done(run_path(fixture, "/ok", ", \"headers\": {\"Traceparent\": \"own\"}"));
    assert_asked(fixture, "\r\nTraceparent: own\r\n");
    assert_not_asked(fixture, "\r\ntraceparent: ");
}

static void the_calls_of_a_task_without_one_are_one_trace(void **state)
{
    struct fixture *fixture = *state;
    char first[TRACE_SIZE];
    char second[TRACE_SIZE];

    assert_done(run_path(fixture, "/ok", ""));
    read_trace(fixture, first);
    fixture->job.attempt++;
    fixture->job.traceparent = "of a plain INSERT\r\nX: y";
    assert_done(run_path(fixture, "/ok", ""));
    read_trace(fixture, second);
    assert_int_equal(strncmp(first, second, 35), 0);
    assert_string_not_equal(first, second);
    fixture->job.id++;
    assert_done(run_path(fixture, "/ok", ""));
    read_trace(fixture, second);
    assert_int_not_equal(strncmp(first, second, 35), 0);
}

static void a_method_sends_only_the_body_it_allows(void **state)
{
    struct fixture *fixture = *state;

    assert_done(run_path(fixture, "/ok", ", \"method\": \"GET\""));
    assert_asked(fixture, "GET /ok HTTP/1.1\r\n");
    assert_not_asked(fixture, "{\"n\"");
    assert_done(run_path(fixture, "/ok", ", \"method\": \"PUT\""));
    assert_asked(fixture, "PUT /ok HTTP/1.1\r\n");
    assert_asked(fixture, "\r\n\r\n{\"n\": 1}");
    assert_done(run_path(fixture, "/status/200", ", \"method\": \"HEAD\""));
    assert_asked(fixture, "HEAD /status/200 HTTP/1.1\r\n");
    fixture->job.params = NULL;
    fixture->job.params_len = 0;
    assert_done(run_path(fixture, "/ok", ", \"method\": \"DELETE\""));
    assert_asked(fixture, "DELETE /ok HTTP/1.1\r\n");
    assert_done(run_path(fixture, "/ok", ""));
    assert_asked(fixture, "Content-Length: 0\r\n");
    assert_not_asked(fixture, "Content-Type");
}

static void a_connection_is_used_again(void **state)
{
    struct fixture *fixture = *state;

    for (int i = 0; i < 5; i++)
        assert_done(run_path(fixture, "/ok", ""));
    assert_int_equal(atomic_load(&fixture->peer.requests), 5);
    assert_int_equal(atomic_load(&fixture->peer.connections), 1);
}

static void the_answer_decides_where_ok_looks_into_it(void **state)
{
    struct fixture *fixture = *state;
    const struct attempt_result *attempt;

    /* The peer answers "done", which is not JSON, and to /json with {"code": 7}. */
    attempt = run_path(fixture, "/ok", ", \"ok\": {\"/code\": 7}");
    assert_failed(attempt, 200);
    assert_non_null(strstr(attempt->err.text, "status 200, but the answer is not JSON"));
    assert_done(run_path(fixture, "/json", ", \"ok\": {\"/code\": 7}"));
    assert_string_equal(buf_text(&fixture->result), "{\"code\": 7}");
    attempt = run_path(fixture, "/json", ", \"ok\": {\"/code\": 0}");
    assert_failed(attempt, 200);
    assert_non_null(strstr(attempt->err.text, "at \"/code\""));
    attempt = run_path(fixture, "/json", ", \"ok\": {\"status\": \"201\", \"/code\": 7}");
    assert_failed(attempt, 200);
    /* What the receiver says is in the reason. */
    assert_non_null(strstr(attempt->err.text, "answered with status 200 \"{\"code\": 7}\""));
    attempt = run_path(fixture, "/status/404", "");
    assert_failed(attempt, 404);
    assert_null(strchr(attempt->err.text, '"'));
}

static void the_status_decides_the_result(void **state)
{
    struct fixture *fixture = *state;
    const struct attempt_result *attempt;

    assert_done(run_path(fixture, "/status/204", ""));
    assert_failed(run_path(fixture, "/status/404", ""), 404);
    assert_failed(run_path(fixture, "/status/500", ""), 500);
    assert_done(run_path(fixture, "/status/409", ", \"ok\": \"200,409\""));
    assert_failed(run_path(fixture, "/status/204", ", \"ok\": \"200,409\""), 204);
    attempt = run_path(fixture, "/later", "");
    assert_failed(attempt, 503);
    assert_int_equal(attempt->delay_ms, 7000);
    attempt = run_path(fixture, "/never", "");
    assert_int_equal(attempt->end, ATTEMPT_REJECTED);
    assert_int_equal(attempt->delay_ms, ATTEMPT_NO_DELAY);
}

/* Nor does an error quote the URL, the headers or the parameters. */
static void a_redirect_is_not_followed(void **state)
{
    struct fixture *fixture = *state;
    const struct attempt_result *attempt =
        run_path(fixture, "/redirect?token=hush", ", \"headers\": {\"X\": \"hush\"}");

    assert_failed(attempt, 302);
    assert_int_equal(atomic_load(&fixture->peer.requests), 1);
    assert_null(strstr(attempt->err.text, "hush"));
    assert_null(strstr(attempt->err.text, "redirect"));
}

static void a_proxy_of_the_environment_is_not_used(void **state)
{
    struct fixture *fixture = *state;

    setenv("http_proxy", "http://127.0.0.1:1", 1);
    setenv("all_proxy", "http://127.0.0.1:1", 1);
    assert_done(run_path(fixture, "/ok", ""));
    unsetenv("http_proxy");
    unsetenv("all_proxy");
}

static void only_listed_hosts_are_called(void **state)
{
    struct fixture *fixture = *state;
    const struct attempt_result *attempt;

    attempt = run(fixture, "{\"urls\": [\"http://127.0.0.1:1/\", \"http://127.0.0.1:2/\"]}");
    assert_int_equal(attempt->end, ATTEMPT_FAILED);
    assert_int_equal(attempt->source, FAULT_SOURCE_PLAIN);
    assert_int_equal(attempt->fault, FAULT_CLASS_OURS);
    assert_string_equal(attempt->err.text, "the host \"127.0.0.1\" with port 2 is not in "
                                           "retry.http_hosts of this process");
    fixture->settings.retry.http_hosts[0] = '\0';
    assert_int_equal(run_path(fixture, "/ok", "")->fault, FAULT_CLASS_OURS);
    assert_int_equal(atomic_load(&fixture->peer.connections), 0);
}

static void options_that_make_no_call_are_refused(void **state)
{
    struct fixture *fixture = *state;
    struct err err = {0};

    assert_int_equal(run(fixture, "{\"url\": \"gopher://a\"}")->fault, FAULT_CLASS_REFUSED);
    assert_int_equal(retry_http_handler.check(NULL, &fixture->job, &err), RC_REJECT);
    fixture->job.params_type = "text/plain\r\nX: y";
    assert_int_equal(run_path(fixture, "/ok", "")->fault, FAULT_CLASS_REFUSED);
    assert_int_equal(retry_http_handler.check(NULL, &fixture->job, &err), RC_REJECT);
    fixture->job.params_type = "text/plain";
    assert_int_equal(retry_http_handler.check(NULL, &fixture->job, &err), RC_OK);
}

static void a_host_that_is_not_listed_is_refused_before_an_attempt(void **state)
{
    struct fixture *fixture = *state;
    struct retry_handlers all = {.http_hosts = "*.example.org,other:81"};
    struct err err = {0};

    fixture->job.options = "{\"urls\": [\"https://a.example.org/\", \"http://other:81/\"]}";
    assert_int_equal(retry_http_handler.check(&all, &fixture->job, &err), RC_OK);
    fixture->job.options = "{\"urls\": [\"https://a.example.org/\", \"http://other/\"]}";
    assert_int_equal(retry_http_handler.check(&all, &fixture->job, &err), RC_REJECT);
    assert_string_equal(err.text, "the host \"other\" with port 80 is not in retry.http_hosts of "
                                  "this server");
    all.http_hosts = "";
    assert_int_equal(retry_http_handler.check(&all, &fixture->job, &err), RC_REJECT);
    all.http_hosts = NULL;
    assert_int_equal(retry_http_handler.check(&all, &fixture->job, &err), RC_OK);
}

static void its_destination_is_the_origin(void **state)
{
    struct fixture *fixture = *state;
    struct buf name = {0};

    fixture->job.options = "{\"url\": \"https://Billing.example.org/v1?a=b\"}";
    retry_http_handler.destination(NULL, &fixture->job, &name);
    assert_string_equal(buf_text(&name), "https://billing.example.org:443");
    buf_reset(&name);
    fixture->job.options = "{\"urls\": [\"http://a/1\", \"http://b:8080/2\"]}";
    retry_http_handler.destination(NULL, &fixture->job, &name);
    assert_string_equal(buf_text(&name), "http://a:80,http://b:8080");
    buf_reset(&name);
    fixture->job.options = "{\"url\": \"gopher://a\"}";
    retry_http_handler.destination(NULL, &fixture->job, &name);
    assert_int_equal(name.len, 0);
    buf_done(&name);
}

static void every_transport_failure_is_retried(void **state)
{
    struct fixture *fixture = *state;
    const struct attempt_result *attempt = run(fixture, "{\"url\": \"http://127.0.0.1:1/\"}");

    assert_failed(attempt, -7); /* libcurl: could not connect */
    assert_int_equal(attempt->fault, FAULT_CLASS_TRANSIENT);
    assert_failed(run_path(fixture, "/half", ""), -18);   /* the body ended too soon */
    assert_failed(run_path(fixture, "/rubbish", ""), -1); /* that is no HTTP */
    assert_failed(run_path(fixture, "/heads", ""), -23);
    assert_failed(run_path(fixture, "/silent", ", \"timeout\": \"200ms\""), -28);
    assert_failed(run_path(fixture, "/stall", ", \"timeout\": \"200ms\""), -28);
    fixture->job.attempt_ms_max = 200; /* of a task that is tried first */
    assert_failed(run_path(fixture, "/silent", ", \"timeout\": \"1h\""), -28);
    fixture->job.attempt_ms_max = 0;
    assert_done(run_path(fixture, "/ok", ""));
}

static void *lose_main(void *arg)
{
    struct fixture *fixture = arg;

    stop_wait(&fixture->stop, 300);
    atomic_store(&fixture->lease_until_ms, 0);
    return NULL;
}

static void a_call_ends_before_its_lease_and_when_it_is_lost(void **state)
{
    struct fixture *fixture = *state;
    const struct attempt_result *attempt;
    int64_t began_ms = os_now_ms();
    pthread_t thread;

    atomic_store(&fixture->lease_until_ms, began_ms + 500);
    attempt = run_path(fixture, "/silent", ", \"timeout\": \"1h\"");
    assert_int_equal(attempt->end, ATTEMPT_CUT);
    assert_non_null(strstr(attempt->err.text, "lease"));
    atomic_store(&fixture->lease_until_ms, os_now_ms() + (int64_t)2 * LONG_MS);
    assert_int_equal(pthread_create(&thread, NULL, lose_main, fixture), 0);
    attempt = run_path(fixture, "/silent", ", \"timeout\": \"1h\"");
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(attempt->end, ATTEMPT_CUT);
    assert_true(os_now_ms() - began_ms < LONG_MS / 2);
    atomic_store(&fixture->lease_until_ms, os_now_ms() + LONG_MS);
    assert_done(run_path(fixture, "/ok", ""));
}

static void an_answer_without_end_is_bounded(void **state)
{
    struct fixture *fixture = *state;

    assert_done(run_path(fixture, "/huge", ""));
    assert_true(fixture->result.failed);
    assert_true(fixture->result.len <= RETRY_RESULT_BYTES_MAX);
    assert_done(run_path(fixture, "/ok", ""));
}

/* One of the two is not there: after some failures it is left out. */
static void an_endpoint_that_fails_is_left_out(void **state)
{
    struct fixture *fixture = *state;
    char options[128];
    int failures = 0;

    snprintf(options, sizeof(options),
             "{\"urls\": [\"http://127.0.0.1:1/\", \"http://127.0.0.1:%d/ok\"]}",
             fixture->peer.port);
    for (int i = 0; i < 30; i++)
        failures += run(fixture, options)->end != ATTEMPT_DONE;
    /* Two choices see the first failure already; three in a row leave it out. */
    assert_true(failures <= 3);
    assert_int_equal(atomic_load(&fixture->peer.requests), 30 - failures);
}

static void *stop_main(void *arg)
{
    struct fixture *fixture = arg;

    stop_wait(&fixture->stop, 200);
    stop_request(&fixture->stop);
    return NULL;
}

static void a_stop_cuts_the_call(void **state)
{
    struct fixture *fixture = *state;
    int64_t began_ms = os_now_ms();
    pthread_t thread;

    assert_int_equal(pthread_create(&thread, NULL, stop_main, fixture), 0);
    assert_int_equal(run_path(fixture, "/silent", ", \"timeout\": \"50s\"")->end, ATTEMPT_CUT);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(os_now_ms() - began_ms < LONG_MS / 3);
    assert_int_equal(run_path(fixture, "/ok", "")->end, ATTEMPT_CUT);
}

/* A certificate for localhost, signed by itself, as PEM files in the folder. */
static void certificate_write(const char *folder)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *cert = X509_new();
    X509_NAME *name = X509_get_subject_name(cert);
    X509_EXTENSION *places = X509V3_EXT_conf_nid(NULL, NULL, NID_subject_alt_name, "DNS:localhost");
    char path[128];
    FILE *file;

    X509_set_version(cert, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(cert), 1);
    X509_gmtime_adj(X509_getm_notBefore(cert), -3600);
    X509_gmtime_adj(X509_getm_notAfter(cert), 86400);
    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const unsigned char *)"test", -1, -1, 0);
    X509_set_issuer_name(cert, name);
    X509_set_pubkey(cert, key);
    X509_add_ext(cert, places, -1);
    assert_true(X509_sign(cert, key, EVP_sha256()) > 0);
    snprintf(path, sizeof(path), "%s/cert.pem", folder);
    file = fopen(path, "we");
    assert_non_null(file);
    assert_int_equal(PEM_write_X509(file, cert), 1);
    fclose(file);
    snprintf(path, sizeof(path), "%s/key.pem", folder);
    file = fopen(path, "we");
    assert_non_null(file);
    assert_int_equal(PEM_write_PrivateKey(file, key, NULL, NULL, 0, NULL, NULL), 1);
    fclose(file);
    assert_int_equal(chmod(path, 0600), 0);
    X509_EXTENSION_free(places);
    X509_free(cert);
    EVP_PKEY_free(key);
}

static void on_request(void *ctx, struct http_request *request)
{
    (void)ctx;
    http_answer(request, 200, "text/plain", "safe", 4);
}

static struct http_server *tls_open(const char *folder, char cert[128], char key[128])
{
    struct http_config config = {.listen = "127.0.0.1:0",
                                 .body_bytes_max = 1000,
                                 .header_bytes_max = 8192,
                                 .connections_max = 100,
                                 .idle_timeout_ms = 10000,
                                 .guard = {.section = "test", .tls_cert = cert, .tls_key = key}};
    struct http_server *server = NULL;
    struct err err = {0};

    snprintf(cert, 128, "%s/cert.pem", folder);
    snprintf(key, 128, "%s/key.pem", folder);
    if (http_open(&server, &config, on_request, NULL, NULL, &err) != RC_OK)
        fail_msg("%s", err.text);
    return server;
}

static const struct attempt_result *run_tls(struct fixture *fixture, const char *host, int port)
{
    static char options[128];

    snprintf(fixture->settings.retry.http_hosts, sizeof(fixture->settings.retry.http_hosts),
             "%s:%d", host, port);
    snprintf(options, sizeof(options), "{\"url\": \"https://%s:%d/\"}", host, port);
    return run(fixture, options);
}

static void a_certificate_is_checked_and_so_is_its_name(void **state)
{
    struct fixture *fixture = *state;
    char folder[] = "/tmp/tallybox-retry-http-XXXXXX";
    char cert[128];
    char key[128];
    struct http_server *server;
    const struct attempt_result *attempt;

    assert_non_null(mkdtemp(folder));
    certificate_write(folder);
    server = tls_open(folder, cert, key);
    attempt = run_tls(fixture, "localhost", http_port(server));
    assert_failed(attempt, -60); /* no trusted authority signed it */
    assert_int_equal(attempt->fault, FAULT_CLASS_OURS);
    snprintf(fixture->settings.retry.http_ca, sizeof(fixture->settings.retry.http_ca), "%s", cert);
    assert_done(run_tls(fixture, "localhost", http_port(server)));
    assert_string_equal(buf_text(&fixture->result), "safe");
    attempt = run_tls(fixture, "127.0.0.1", http_port(server));
    assert_failed(attempt, -60); /* it is another's */
    assert_int_equal(attempt->fault, FAULT_CLASS_OURS);
    http_close(server);
    unlink(cert);
    unlink(key);
    rmdir(folder);
}

static void a_missing_file_of_authorities_is_reported_at_once(void **state)
{
    struct fixture *fixture = *state;
    struct retry_handler_env env = {
        .settings = &fixture->settings, .stop = &fixture->stop, .workers = 1};
    void *handler = NULL;
    struct err err = {0};

    snprintf(fixture->settings.retry.http_ca, sizeof(fixture->settings.retry.http_ca), "/nowhere");
    assert_int_equal(retry_http_handler.open(&handler, &env, &err), RC_REJECT);
    assert_non_null(strstr(err.text, "retry.http_ca: /nowhere: "));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_call_has_its_identity_headers_and_the_parameters),
        TEST(a_call_asks_for_no_retry_unless_the_scene_lets_the_receiver_retry),
        TEST(a_call_carries_the_traceparent_that_its_task_has),
        TEST(the_calls_of_a_task_without_one_are_one_trace),
        TEST(a_method_sends_only_the_body_it_allows),
        TEST(a_connection_is_used_again),
        TEST(the_status_decides_the_result),
        TEST(the_answer_decides_where_ok_looks_into_it),
        TEST(a_redirect_is_not_followed),
        TEST(a_proxy_of_the_environment_is_not_used),
        TEST(only_listed_hosts_are_called),
        TEST(options_that_make_no_call_are_refused),
        TEST(a_host_that_is_not_listed_is_refused_before_an_attempt),
        TEST(its_destination_is_the_origin),
        TEST(every_transport_failure_is_retried),
        TEST(a_call_ends_before_its_lease_and_when_it_is_lost),
        TEST(an_answer_without_end_is_bounded),
        TEST(an_endpoint_that_fails_is_left_out),
        TEST(a_stop_cuts_the_call),
        TEST(a_certificate_is_checked_and_so_is_its_name),
        TEST(a_missing_file_of_authorities_is_reported_at_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
