/* SPDX-License-Identifier: MIT */
#include "common/http/connections.h"
#include "common/os.h"
#include "tests/flow/http_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define OLD "old-token-0123456789abcdef"
#define NEW "new-token-0123456789abcdef"

static char path[64];

static void tokens_write(const char *text)
{
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(path, 0600), 0);
}

static int setup(void **state)
{
    int fd;

    (void)state;
    snprintf(path, sizeof(path), "/tmp/tallybox-guard-XXXXXX");
    fd = mkstemp(path);
    return fd < 0 ? -1 : close(fd);
}

static int teardown(void **state)
{
    (void)state;
    return unlink(path);
}

static enum rc open_with(struct fixture *fixture, const char *listen,
                         struct http_guard_config guard, struct err *err)
{
    struct http_config config = {.listen = listen,
                                 .body_bytes_max = BODY_MAX,
                                 .header_bytes_max = 8192,
                                 .connections_max = 10,
                                 .idle_timeout_ms = 10000,
                                 .guard = guard,
                                 .open_path = "/healthz"};

    memset(fixture, 0, sizeof(*fixture));
    fixture->body_bytes_max = BODY_MAX;
    return http_open(&fixture->server, &config, on_request, NULL, fixture, err);
}

static void shut(struct fixture *fixture)
{
    http_close(fixture->server);
    buf_done(&fixture->arguments);
}

/* Only addresses that no other machine can reach are open without a token by default. */
static void an_address_others_can_reach_needs_a_token(void **state)
{
    static const char *const wide[] = {"0.0.0.0:0", "[::]:0", "*:0"};
    static const char *const narrow[] = {"127.0.0.1:0", "127.0.0.2:0", "localhost:0"};
    const struct http_guard_config none = {.section = "api"};
    const struct http_guard_config all = {.section = "api", .without_token = true};
    const struct http_guard_config tokens = {.section = "api", .token_file = path};
    struct fixture fixture;
    struct err err = {0};

    (void)state;
    tokens_write(OLD "\n");
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(open_with(&fixture, wide[i], none, &err), RC_REJECT);
        assert_non_null(strstr(err.text, "set api.token_file to a file of bearer tokens, or "
                                         "api.without_token = yes"));
        assert_int_equal(open_with(&fixture, wide[i], all, &err), RC_OK);
        shut(&fixture);
        assert_int_equal(open_with(&fixture, wide[i], tokens, &err), RC_OK);
        shut(&fixture);
        assert_int_equal(open_with(&fixture, narrow[i], none, &err), RC_OK);
        shut(&fixture);
    }
}

/* What http_check() finds, before a server may listen, is what http_open() would. */
static void a_check_of_the_settings_finds_the_same(void **state)
{
    struct http_config config = {.listen = "0.0.0.0:0", .guard = {.section = "api"}};
    struct err err = {0};

    (void)state;
    assert_int_equal(http_check(&config, &err), RC_REJECT);
    assert_non_null(strstr(err.text, "api.listen: other machines can reach this address"));
    config.guard.without_token = true;
    assert_int_equal(http_check(&config, &err), RC_OK);
    config.guard.tls_cert = "/nonexistent";
    assert_int_equal(http_check(&config, &err), RC_REJECT);
    assert_string_equal(err.text, "api.tls_key is not set; a certificate needs its key");
    config.guard.tls_key = config.guard.tls_cert;
    assert_int_not_equal(http_check(&config, &err), RC_OK);
    assert_non_null(strstr(err.text, "api.tls_cert: "));
    config.guard = (struct http_guard_config){.section = "api", .token_file = "/nonexistent"};
    assert_int_not_equal(http_check(&config, &err), RC_OK);
    assert_non_null(strstr(err.text, "api.token_file: "));
    config.listen = "192.0.2.1:0";
    assert_int_equal(http_check(&config, &err), RC_REJECT);
    assert_non_null(strstr(err.text, "api.listen: cannot listen on 192.0.2.1:0: this machine"));
}

/* A name that cannot be resolved may be a mistake, so it is not said to be another machine's. */
static void an_address_of_another_machine_is_known(void **state)
{
    static const char *const own[] = {"127.0.0.1:8080", "127.0.0.2:8080+", "*:8080",
                                      "0.0.0.0:8080",   "localhost:8080",  "name.invalid:8080",
                                      "127.0.0.1"};

    (void)state;
    for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
        assert_false(http_is_foreign(own[i]));
    assert_true(http_is_foreign("203.0.113.1:8080"));
    assert_true(http_is_foreign("203.0.113.1:8080+"));
}

static int status_of(const struct fixture *fixture, const char *request, const char *authorization)
{
    struct answer answer;
    char text[512];

    snprintf(text, sizeof(text), "%s HTTP/1.1\r\nHost: x\r\n%s%s%sConnection: close\r\n\r\n",
             request, authorization ? "Authorization: " : "", authorization ? authorization : "",
             authorization ? "\r\n" : "");
    ask(fixture, text, &answer);
    if (answer.status == 401) {
        assert_non_null(strstr(answer.head, "WWW-Authenticate: Bearer"));
        assert_non_null(strstr(answer.body, "bearer token"));
    }
    return answer.status;
}

static void only_a_token_opens_and_files_are_read_again(void **state)
{
    const struct http_guard_config guard = {.section = "api", .token_file = path};
    struct fixture fixture;
    struct err err = {0};

    (void)state;
    tokens_write(OLD "\n");
    assert_int_equal(open_with(&fixture, "127.0.0.1:0", guard, &err), RC_OK);
    assert_int_equal(status_of(&fixture, "GET /x", NULL), 401);
    assert_int_equal(status_of(&fixture, "POST /x", "Bearer " NEW), 401);
    assert_int_equal(status_of(&fixture, "GET /x", "Bearer " OLD), 200);
    assert_int_equal(status_of(&fixture, "GET /healthz", NULL), 200);
    assert_int_equal(status_of(&fixture, "GET /healthz/x", NULL), 401);
    assert_int_equal(status_of(&fixture, "GET /healthz%00", NULL), 401);

    /* The old and the new one are good until the old one is taken out. */
    tokens_write(OLD "\n" NEW "\n");
    http_guards_reload();
    assert_int_equal(status_of(&fixture, "GET /x", "Bearer " OLD), 200);
    assert_int_equal(status_of(&fixture, "GET /x", "Bearer " NEW), 200);
    tokens_write(NEW "\n");
    http_guards_reload();
    http_guards_reload();
    assert_int_equal(status_of(&fixture, "GET /x", "Bearer " OLD), 401);
    assert_int_equal(status_of(&fixture, "GET /x", "Bearer " NEW), 200);

    /* A file that cannot be taken changes nothing. */
    tokens_write("short\n");
    http_guards_reload();
    assert_int_equal(status_of(&fixture, "GET /x", "Bearer " NEW), 200);
    assert_int_equal(status_of(&fixture, "GET /x", "Bearer short"), 401);
    shut(&fixture);
}

/* A file whose tokens allow nothing here is refused, also when it is read again. */
static void a_needed_scope_must_be_had_by_a_token(void **state)
{
    const struct http_guard_config guard = {
        .section = "admin", .token_file = path, .needed_scope = HTTP_SCOPE_OPERATE};
    struct fixture fixture;
    struct err err = {0};

    (void)state;
    tokens_write(OLD "\n" NEW " read tasks:a\n");
    assert_int_equal(open_with(&fixture, "127.0.0.1:0", guard, &err), RC_REJECT);
    assert_non_null(strstr(err.text, "admin.token_file: "));
    assert_non_null(strstr(err.text, "no token has the scope operate"));
    assert_null(strstr(err.text, OLD));
    tokens_write(OLD " operate\n" NEW "\n");
    assert_int_equal(open_with(&fixture, "127.0.0.1:0", guard, &err), RC_OK);
    tokens_write(NEW "\n");
    http_guards_reload();
    assert_int_equal(status_of(&fixture, "GET /x", "Bearer " OLD), 200);
    shut(&fixture);
}

/* The body of an unauthorised request is never kept, and the handler is never called. */
static void a_refused_body_is_dropped(void **state)
{
    const struct http_guard_config guard = {.section = "api", .token_file = path};
    struct fixture fixture;
    struct client client;
    struct answer answer;
    struct err err = {0};
    char body[2 * BODY_MAX] = "";

    (void)state;
    tokens_write(OLD "\n");
    assert_int_equal(open_with(&fixture, "127.0.0.1:0", guard, &err), RC_OK);
    memset(body, 'a', sizeof(body));
    client_open(&client, &fixture);
    client_say(&client, "POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 2000\r\n\r\n");
    assert_true(client_send(&client, body, sizeof(body)));
    client_answer(&client, &answer, true);
    assert_int_equal(answer.status, 401);
    /* The connection may continue with a token. */
    client_say(&client, "GET /x HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " OLD "\r\n\r\n");
    client_answer(&client, &answer, true);
    assert_int_equal(answer.status, 200);
    assert_int_equal(atomic_load(&fixture.handled), 1);
    client_say(&client, "POST /x HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n"
                        "Content-Length: 10\r\n\r\n");
    client_answer(&client, &answer, true);
    assert_int_equal(answer.status, 401);
    client_close(&client);
    shut(&fixture);
}

static int status_for(const struct fixture *fixture, const char *address, const char *start,
                      const char *headers)
{
    struct client client;
    struct answer answer;
    struct buf text = {0};

    assert_true(client_try(&client, address, http_port(fixture->server)));
    buf_print(&text, "GET %s\r\n%s\r\n", start, headers);
    client_say(&client, buf_text(&text));
    client_answer(&client, &answer, true);
    if (answer.status == 421)
        assert_non_null(strstr(answer.body, "api.hosts"));
    client_close(&client);
    buf_done(&text);
    return answer.status;
}

struct host_case {
    const char *headers;
    int status;
};

static void expect_hosts(const struct fixture *fixture, const char *address,
                         const struct host_case *cases, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        int status = status_for(fixture, address, "/x HTTP/1.1", cases[i].headers);

        if (status != cases[i].status)
            fail_msg("%s: %d", cases[i].headers, status);
    }
}

/* A web page whose owner lets its name resolve to 127.0.0.1 makes a browser send that name. */
static void only_the_listen_address_and_loopback_names_are_answered_by_default(void **state)
{
    static const struct host_case cases[] = {
        {"Host: localhost\r\n", 200},
        {"Host: LocalHost:8080\r\n", 200},
        {"Host: 127.0.0.1\r\n", 200},
        {"Host: 127.0.0.1:1\r\n", 200},
        {"Host: [::1]:8080\r\n", 200},
        {"Host: 127.0.0.2:8080\r\n", 200},
        {"Host: rebound.example\r\n", 421},
        {"Host: rebound.example:8080\r\n", 421},
        {"Host: localhost.rebound\r\n", 421},
        {"Host: 127.0.0.3\r\n", 421},
        {"Host: \r\n", 421},
        {"Host: a b\r\n", 421},
        {"", 400},
        {"Host: localhost\r\nHost: x\r\n", 400},
    };
    const struct http_guard_config guard = {.section = "api", .hosts = ""};
    struct fixture fixture;
    struct err err = {0};

    (void)state;
    assert_int_equal(open_with(&fixture, "127.0.0.2:0", guard, &err), RC_OK);
    expect_hosts(&fixture, "127.0.0.2", cases, sizeof(cases) / sizeof(cases[0]));
    shut(&fixture);
}

/* Where it listens at every address, the one that the client came to is its own. */
static void an_address_of_the_machine_is_answered_where_it_listens_at_all(void **state)
{
    static const struct host_case cases[] = {
        {"Host: 127.0.0.2:7\r\n", 200},
        {"Host: 127.0.0.3\r\n", 421},
        {"Host: 0.0.0.0\r\n", 421},
        {"Host: *\r\n", 421},
    };
    static const char *const wide[] = {"0.0.0.0:0", "*:0"};
    const struct http_guard_config guard = {.section = "api", .hosts = "", .without_token = true};
    struct fixture fixture;
    struct err err = {0};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(open_with(&fixture, wide[i], guard, &err), RC_OK);
        expect_hosts(&fixture, "127.0.0.2", cases, sizeof(cases) / sizeof(cases[0]));
        shut(&fixture);
    }
}

/* `tallybox status` shows the pages of such a server under this name. */
static void the_name_of_the_machine_is_answered_where_it_listens_at_all(void **state)
{
    static const char *const places[] = {"0.0.0.0:0", "*:0", "127.0.0.2:0"};
    const struct http_guard_config guard = {.section = "api", .hosts = "", .without_token = true};
    struct fixture fixture;
    struct err err = {0};
    char name[65];
    char header[96];

    (void)state;
    os_host_name(name, sizeof(name));
    snprintf(header, sizeof(header), "Host: %s:8080\r\n", name);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(open_with(&fixture, places[i], guard, &err), RC_OK);
        assert_int_equal(status_for(&fixture, "127.0.0.2", "/x HTTP/1.1", header),
                         i < 2 || strcmp(name, "localhost") == 0 ? 200 : 421);
        shut(&fixture);
    }
}

static void named_hosts_are_the_only_ones(void **state)
{
    static const struct host_case cases[] = {
        {"Host: votes.example\r\n", 200},     {"Host: VOTES.example:443\r\n", 200},
        {"Host: a.votes.example:1\r\n", 200}, {"Host: other.example:8443\r\n", 200},
        {"Host: other.example\r\n", 421},     {"Host: localhost\r\n", 421},
        {"Host: 127.0.0.1\r\n", 421},
    };
    const struct http_guard_config guard = {
        .section = "api", .hosts = "votes.example,*.votes.example,other.example:8443"};
    struct fixture fixture;
    struct err err = {0};

    (void)state;
    assert_int_equal(open_with(&fixture, "127.0.0.1:0", guard, &err), RC_OK);
    expect_hosts(&fixture, "127.0.0.1", cases, sizeof(cases) / sizeof(cases[0]));
    /* No browser speaks HTTP/1.0 or leaves Host out; probes do. The open path reveals nothing. */
    assert_int_equal(status_for(&fixture, "127.0.0.1", "/x HTTP/1.0", ""), 200);
    assert_int_equal(status_for(&fixture, "127.0.0.1", "/x HTTP/1.0", "Host: localhost\r\n"), 421);
    assert_int_equal(
        status_for(&fixture, "127.0.0.1", "/healthz HTTP/1.1", "Host: 10.0.0.7:9464\r\n"), 200);
    assert_int_equal(status_for(&fixture, "127.0.0.1", "/healthz HTTP/1.1", ""), 400);
    shut(&fixture);
}

/* A connection is not trusted for its first request. */
static void every_request_of_a_connection_is_checked(void **state)
{
    const struct http_guard_config guard = {.section = "api", .hosts = ""};
    struct fixture fixture;
    struct client client;
    struct answer answer;
    struct err err = {0};

    (void)state;
    assert_int_equal(open_with(&fixture, "127.0.0.1:0", guard, &err), RC_OK);
    client_open(&client, &fixture);
    for (int i = 0; i < 3; i++) {
        client_say(&client, "POST /x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\nab");
        client_answer(&client, &answer, true);
        assert_int_equal(answer.status, 200);
        client_say(&client, "POST /x HTTP/1.1\r\nHost: bad\r\nContent-Length: 2\r\n\r\nab");
        client_answer(&client, &answer, true);
        assert_int_equal(answer.status, 421);
    }
    assert_int_equal(atomic_load(&fixture.handled), 3);
    client_close(&client);
    shut(&fixture);
}

static void a_certificate_without_its_key_is_refused(void **state)
{
    const struct http_guard_config cert = {.section = "api", .tls_cert = path};
    const struct http_guard_config key = {.section = "admin", .tls_key = path};
    const struct http_guard_config both = {.section = "api", .tls_cert = path, .tls_key = path};
    struct fixture fixture;
    struct err err = {0};

    (void)state;
    tokens_write(OLD "\n");
    assert_int_equal(open_with(&fixture, "127.0.0.1:0", cert, &err), RC_REJECT);
    assert_non_null(strstr(err.text, "api.tls_key is not set"));
    assert_int_equal(open_with(&fixture, "127.0.0.1:0", key, &err), RC_REJECT);
    assert_non_null(strstr(err.text, "admin.tls_cert is not set"));
    assert_int_equal(open_with(&fixture, "127.0.0.1:0", both, &err), RC_REJECT);
    assert_non_null(strstr(err.text, "api.tls_cert: "));
    assert_non_null(strstr(err.text, "holds no certificate in PEM form"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_address_others_can_reach_needs_a_token),
        cmocka_unit_test(a_check_of_the_settings_finds_the_same),
        cmocka_unit_test(an_address_of_another_machine_is_known),
        cmocka_unit_test(only_a_token_opens_and_files_are_read_again),
        cmocka_unit_test(a_needed_scope_must_be_had_by_a_token),
        cmocka_unit_test(a_refused_body_is_dropped),
        cmocka_unit_test(only_the_listen_address_and_loopback_names_are_answered_by_default),
        cmocka_unit_test(an_address_of_the_machine_is_answered_where_it_listens_at_all),
        cmocka_unit_test(the_name_of_the_machine_is_answered_where_it_listens_at_all),
        cmocka_unit_test(named_hosts_are_the_only_ones),
        cmocka_unit_test(every_request_of_a_connection_is_checked),
        cmocka_unit_test(a_certificate_without_its_key_is_refused),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
