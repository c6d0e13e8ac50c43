/* SPDX-License-Identifier: MIT */
#include "common/daemon/admin_probe.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static struct settings settings;

static int setup(void **state)
{
    (void)state;
    memset(&settings, 0, sizeof(settings));
    snprintf(settings.admin.listen, sizeof(settings.admin.listen), "127.0.0.1:9464");
    return 0;
}

static void set(char *field, const char *value)
{
    snprintf(field, SETTING_TEXT_SIZE, "%s", value);
}

static struct admin_probe make(const char *url, bool ready)
{
    struct admin_probe probe;
    struct err err = {0};

    if (admin_probe_make(&probe, &settings, url, ready, &err) != RC_OK)
        fail_msg("%s", err.text);
    return probe;
}

static void assert_refused(const char *url, const char *text)
{
    struct admin_probe probe;
    struct err err = {0};

    assert_int_equal(admin_probe_make(&probe, &settings, url, false, &err), RC_REJECT);
    if (!strstr(err.text, text))
        fail_msg("\"%s\" is not in: %s", text, err.text);
}

static void the_address_is_that_of_the_settings(void **state)
{
    static const struct {
        const char *listen;
        const char *url;
    } cases[] = {
        {"127.0.0.1:9464", "http://127.0.0.1:9464/healthz"},
        {"127.0.0.2:1", "http://127.0.0.2:1/healthz"},
        {"10.1.2.3:65535", "http://10.1.2.3:65535/healthz"},
        {"localhost:9464", "http://localhost:9464/healthz"},
        {"relay-1.example:9464", "http://relay-1.example:9464/healthz"},
        {"[::1]:9464", "http://[::1]:9464/healthz"},
        {"[fd00::7]:9464", "http://[fd00::7]:9464/healthz"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        set(settings.admin.listen, cases[i].listen);
        assert_string_equal(make(NULL, false).url, cases[i].url);
    }
    assert_string_equal(make(NULL, true).url, "http://[fd00::7]:9464/readyz");
}

static void every_address_is_asked_at_the_loopback(void **state)
{
    static const char *const listens[] = {"0.0.0.0:9464", "0:9464", "*:9464", "[::]:9464",
                                          "[0:0:0:0:0:0:0:0]:9464"};

    (void)state;
    for (size_t i = 0; i < sizeof(listens) / sizeof(listens[0]); i++) {
        set(settings.admin.listen, listens[i]);
        assert_string_equal(make(NULL, true).url, "http://127.0.0.1:9464/readyz");
    }
}

static void an_address_that_cannot_be_known_is_refused(void **state)
{
    (void)state;
    set(settings.admin.listen, "127.0.0.1:9464+");
    assert_refused(NULL, "admin.listen = 127.0.0.1:9464+: the process takes any free port");
    assert_refused(NULL, "admin.listen = 127.0.0.1:9464, or give the address by --url");
    set(settings.admin.listen, "[::]:0");
    assert_refused(NULL, "admin.listen = [::]:0: the process takes any free port");
    set(settings.admin.listen, "off");
    assert_refused(NULL, "admin.listen = off: this process has no admin server");
    assert_string_equal(make("http://127.0.0.1:9470", false).url, "http://127.0.0.1:9470/healthz");
}

static void another_address_is_given_without_a_path(void **state)
{
    static const char *const wrong[] = {
        "",
        "127.0.0.1:9464",
        "ftp://127.0.0.1",
        "http://",
        "http:///",
        "http://127.0.0.1:9464/healthz",
        "http://127.0.0.1:9464//",
        "http://127.0.0.1:0",
        "http://127.0.0.1:70000",
        "http://user@127.0.0.1",
        "http://127.0.0.1?x",
        "http://a b",
        "http://[::1",
    };
    char longest[SETTING_TEXT_SIZE + 16];

    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        assert_refused(wrong[i], "expected http://HOST[:PORT]");
    memset(longest, 'a', sizeof(longest));
    memcpy(longest, "http://", 7);
    longest[sizeof(longest) - 1] = '\0';
    assert_refused(longest, "expected http://HOST[:PORT]");
    assert_string_equal(make("http://127.0.0.1:9470/", true).url, "http://127.0.0.1:9470/readyz");
    assert_string_equal(make("https://[::1]:1", false).url, "https://[::1]:1/healthz");
    assert_string_equal(make("http://relay.example", false).url, "http://relay.example/healthz");
}

static void the_header_host_is_one_that_the_server_accepts(void **state)
{
    static const struct {
        const char *hosts;
        const char *host;
    } cases[] = {
        {"", ""},
        {"relay.example", "relay.example"},
        {"relay.example:9464,other", "relay.example:9464"},
        {"[fd00::1]:80", "[fd00::1]:80"},
        {"*.example:9464,other", "health.example:9464"},
        {"*.example", "health.example"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        set(settings.admin.hosts, cases[i].hosts);
        assert_string_equal(make(NULL, true).host, cases[i].host);
        assert_string_equal(make("http://localhost:9470", true).host, cases[i].host);
        assert_string_equal(make("http://relay.example", true).host, "");
    }
}

static void a_token_is_sent_for_readiness_and_to_this_machine_alone(void **state)
{
    (void)state;
    set(settings.admin.token_file, "/tokens");
    assert_string_equal(make(NULL, true).token_file, "/tokens");
    assert_string_equal(make(NULL, false).token_file, "");
    assert_string_equal(make("http://127.9.9.9:1", true).token_file, "/tokens");
    assert_string_equal(make("http://[::1]:1", true).token_file, "/tokens");
    assert_string_equal(make("http://localhost", true).token_file, "/tokens");
    assert_string_equal(make("http://localhost.example", true).token_file, "");
    assert_string_equal(make("http://128.0.0.1", true).token_file, "");
    assert_string_equal(make("http://127.0.0.1.example", true).token_file, "");
    assert_string_equal(make("https://[::2]", true).token_file, "");
}

static void a_certificate_is_checked_where_a_token_is_sent(void **state)
{
    struct admin_probe probe;

    (void)state;
    set(settings.admin.tls_cert, "/cert.pem");
    probe = make(NULL, true);
    assert_string_equal(probe.url, "https://127.0.0.1:9464/readyz");
    assert_string_equal(probe.ca_file, "/cert.pem");
    assert_false(probe.check_cert);
    assert_false(probe.check_name);
    set(settings.admin.token_file, "/tokens");
    assert_false(make(NULL, false).check_cert);
    probe = make(NULL, true);
    assert_true(probe.check_cert);
    assert_false(probe.check_name);
    /* Without a file for this machine only a name tells the right server. */
    set(settings.admin.tls_cert, "");
    probe = make("https://localhost", true);
    assert_true(probe.check_cert);
    assert_true(probe.check_name);
}

static void another_machine_is_trusted_by_the_authorities_of_the_system(void **state)
{
    struct admin_probe probe;

    (void)state;
    set(settings.admin.tls_cert, "/cert.pem");
    probe = make("https://relay.example", false);
    assert_string_equal(probe.ca_file, "");
    assert_true(probe.check_cert);
    assert_true(probe.check_name);
}

static void an_answer_is_taken_for_good_only_from_tallybox(void **state)
{
    (void)state;
    assert_int_equal(admin_probe_judge(false, 200, "ok\n"), ADMIN_ANSWER_GOOD);
    assert_int_equal(admin_probe_judge(false, 200, "ok"), ADMIN_ANSWER_OTHER);
    assert_int_equal(admin_probe_judge(false, 200, "<html>ok\n"), ADMIN_ANSWER_OTHER);
    assert_int_equal(admin_probe_judge(false, 503, "ok\n"), ADMIN_ANSWER_OTHER);
    assert_int_equal(admin_probe_judge(true, 200, "ready\nserve mysql: ok\n"), ADMIN_ANSWER_GOOD);
    assert_int_equal(admin_probe_judge(true, 200, "ok\n"), ADMIN_ANSWER_OTHER);
    assert_int_equal(admin_probe_judge(true, 503, "not ready\nx: y\n"), ADMIN_ANSWER_NOT_READY);
    assert_int_equal(admin_probe_judge(true, 200, "not ready\n"), ADMIN_ANSWER_OTHER);
    assert_int_equal(admin_probe_judge(true, 503, "too many connections; try again later\n"),
                     ADMIN_ANSWER_OTHER);
    assert_int_equal(admin_probe_judge(true, 503, "ready\n"), ADMIN_ANSWER_OTHER);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(the_address_is_that_of_the_settings, setup),
        cmocka_unit_test_setup(every_address_is_asked_at_the_loopback, setup),
        cmocka_unit_test_setup(an_address_that_cannot_be_known_is_refused, setup),
        cmocka_unit_test_setup(another_address_is_given_without_a_path, setup),
        cmocka_unit_test_setup(the_header_host_is_one_that_the_server_accepts, setup),
        cmocka_unit_test_setup(a_token_is_sent_for_readiness_and_to_this_machine_alone, setup),
        cmocka_unit_test_setup(a_certificate_is_checked_where_a_token_is_sent, setup),
        cmocka_unit_test_setup(another_machine_is_trusted_by_the_authorities_of_the_system, setup),
        cmocka_unit_test_setup(an_answer_is_taken_for_good_only_from_tallybox, setup),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
