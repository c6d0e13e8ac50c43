/* SPDX-License-Identifier: MIT */
#include "outbox/retry/handlers/http_handler.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* They have pointers into themselves: they stay where they are read. */
static void read_options(struct http_options *options, const char *text)
{
    struct err err = {0};

    if (http_options_read(options, text, &err) != RC_OK)
        fail_msg("%s: %s", text, err.text);
}

static void a_url_alone_is_enough(void **state)
{
    struct http_options options;

    (void)state;
    read_options(&options, "{\"url\": \"https://A.example/x?y=1\"}");
    assert_string_equal(options.method, "POST");
    assert_int_equal(options.url_count, 1);
    assert_string_equal(options.urls[0].text, "https://A.example/x?y=1");
    assert_string_equal(options.urls[0].origin, "https://a.example:443");
    assert_int_equal(options.urls[0].port, 443);
    assert_int_equal(options.timeout_ms, HTTP_TIMEOUT_MS_DEFAULT);
    assert_true(http_is_ok(&options, 200));
    assert_true(http_is_ok(&options, 299));
    assert_false(http_is_ok(&options, 300));
    assert_false(http_is_ok(&options, 0));
    http_options_done(&options);
}

static void every_option_can_be_set(void **state)
{
    struct http_options options;

    (void)state;
    read_options(&options,
                 "{\"method\": \"PUT\", \"urls\": [\"http://[::1]:8080\", \"http://b:1?q\"],"
                 " \"headers\": {\"Authorization\": \"Bearer x\", \"X-Empty\": \"\"},"
                 " \"timeout\": \"500ms\", \"ok\": \"200-204,409\"}");
    assert_string_equal(options.method, "PUT");
    assert_string_equal(options.urls[0].origin, "http://[::1]:8080");
    assert_string_equal(options.urls[1].origin, "http://b:1");
    assert_string_equal(http_own_header(&options, "authorization"), "Bearer x");
    assert_string_equal(http_own_header(&options, "x-empty"), "");
    assert_null(http_own_header(&options, "content-type"));
    assert_int_equal(options.timeout_ms, 500);
    assert_true(http_is_ok(&options, 409));
    assert_false(http_is_ok(&options, 205));
    http_options_done(&options);
}

static const struct {
    const char *text;
    const char *words;
} wrong[] = {
    {"{}", "\"url\" is missing"},
    {"{\"url\": \"http://a\", \"path\": \"/x\"}", "only one"},
    {"{\"path\": \"/x\", \"url\": \"http://a\"}", "only one"},
    {"{\"path\": \"x\"}", "/path[?query]"},
    {"{\"path\": \"\"}", "path"},
    {"{\"path\": \"/a b\"}", "/path[?query]"},
    {"{\"path\": \"/a#b\"}", "/path[?query]"},
    {"{\"path\": \"/a/../b\"}", "/path[?query]"},
    {"{\"path\": \"/..\"}", "/path[?query]"},
    {"{\"path\": \"/..?x\"}", "/path[?query]"},
    {"{\"url\": \"http://a\", \"urls\": [\"http://b\"]}", "only one of them"},
    {"{\"urls\": []}", "1..16"},
    {"{\"urls\": \"http://a\"}", "1..16"},
    {"{\"url\": \"ftp://a\"}", "\"url\""},
    {"{\"url\": \"file:///etc/passwd\"}", "\"url\""},
    {"{\"url\": \"http://\"}", "\"url\""},
    {"{\"url\": \"http:///x\"}", "\"url\""},
    {"{\"url\": \"http://user:pass@a/\"}", "without user"},
    {"{\"url\": \"http://a@b/\"}", "without user"},
    {"{\"url\": \"http://a\\\\@b/\"}", "\"url\""},
    {"{\"url\": \"http://a#@b/\"}", "\"url\""},
    {"{\"url\": \"http://a/#x\"}", "\"url\""},
    {"{\"url\": \"http://a/ b\"}", "\"url\""},
    {"{\"url\": \"http://a/\\r\\nX: y\"}", "\"url\""},
    {"{\"url\": \"http://\\u00e4/\"}", "\"url\""},
    {"{\"url\": \"http://a%2eb/\"}", "\"url\""},
    {"{\"url\": \"http://.a/\"}", "\"url\""},
    {"{\"url\": \"http://a./\"}", "\"url\""},
    {"{\"url\": \"http://a:0/\"}", "\"url\""},
    {"{\"url\": \"http://a:65536/\"}", "\"url\""},
    {"{\"url\": \"http://a:/\"}", "\"url\""},
    {"{\"url\": \"http://[::1/\"}", "\"url\""},
    {"{\"url\": \"http://a\", \"method\": \"TRACE\"}", "\"method\""},
    {"{\"url\": \"http://a\", \"method\": \"post\"}", "\"method\""},
    {"{\"url\": \"http://a\", \"headers\": [\"x\"]}", "\"headers\""},
    {"{\"url\": \"http://a\", \"headers\": {\"a b\": \"x\"}}", "is no header name"},
    {"{\"url\": \"http://a\", \"headers\": {\"\": \"x\"}}", "is no header name"},
    {"{\"url\": \"http://a\", \"headers\": {\"x\": \"secret\\r\\nHost: b\"}}", "of one line"},
    {"{\"url\": \"http://a\", \"headers\": {\"x\": \"a\\u0000b\"}}", "of one line"},
    {"{\"url\": \"http://a\", \"headers\": {\"x\": 1}}", "of one line"},
    {"{\"url\": \"http://a\", \"headers\": {\"host\": \"b\"}}", "set by the handler itself"},
    {"{\"url\": \"http://a\", \"headers\": {\"Tallybox-Attempt\": \"1\"}}",
     "set by the handler itself"},
    {"{\"url\": \"http://a\", \"headers\": {\"Content-Length\": \"1\"}}",
     "set by the handler itself"},
    {"{\"url\": \"http://a\", \"timeout\": \"soon\"}", "\"timeout\""},
    {"{\"url\": \"http://a\", \"ok\": \"\"}", "\"ok\""},
    {"{\"url\": \"http://a\", \"ok\": \"200,\"}", "\"ok\""},
    {"{\"url\": \"http://a\", \"ok\": \"299-200\"}", "\"ok\""},
    {"{\"url\": \"http://a\", \"ok\": \"99\"}", "\"ok\""},
    {"{\"url\": \"http://a\", \"ok\": \"200-999\"}", "\"ok\""},
    {"{\"url\": \"http://a\", \"ok\": 200}", "\"ok\""},
    {"{\"url\": \"http://a\", \"ok\": {}}", "is missing"},
    {"{\"url\": \"http://a\", \"ok\": {\"status\": \"200\"}}", "is missing"},
    {"{\"url\": \"http://a\", \"ok\": {\"status\": 200, \"/a\": 1}}", "ranges like"},
    {"{\"url\": \"http://a\", \"ok\": {\"code\": 0}}", "\"code\" is neither"},
    {"{\"url\": \"http://a\", \"ok\": {\"\": 0}}", "is neither"},
    {"{\"url\": \"http://a\", \"ok\": {\"/a~2\": 0}}", "is neither"},
    {"{\"url\": \"http://a\", \"ok\": {\"/a~\": 0}}", "is neither"},
    {"{\"url\": \"http://a\", \"ok\": {\"/a\": [0]}}", "a text, a number"},
    {"{\"url\": \"http://a\", \"ok\": {\"/a\": {}}}", "a text, a number"},
};

static const struct {
    const char *ok;
    const char *body;
    const char *words; /* of the reason; NULL: the attempt succeeded */
} answers[] = {
    {"{\"/code\": 0}", "{\"code\": 0, \"data\": {}}", NULL},
    {"{\"/code\": 0}", "{\"code\": 0.0}", NULL},
    {"{\"/code\": 0}", "{\"code\": \"0\"}", "another value than \"ok\" at \"/code\""},
    {"{\"/code\": 0}", "{\"code\": 7, \"x\": \"secret\"}", "another value"},
    {"{\"/code\": 0}", "{\"code\": null}", "another value"},
    {"{\"/code\": null}", "{\"code\": null}", NULL},
    {"{\"/code\": null}", "{}", "nothing at \"/code\""},
    {"{\"/code\": 0}", "[]", "nothing"},
    {"{\"/code\": 0}", "0", "nothing"},
    {"{\"/code\": 0}", "", "not JSON"},
    {"{\"/code\": 0}", "{\"code\": 0} and more", "not JSON"},
    {"{\"/\": true}", "{\"\": true}", NULL},
    {"{\"/a~1b/~0/1\": \"x\"}", "{\"a/b\": {\"~\": [\"y\", \"x\"]}}", NULL},
    {"{\"/0\": 1}", "[1]", NULL},
    {"{\"/0\": 1}", "{\"0\": 1}", NULL},
    {"{\"/00\": 1}", "[1]", "nothing"},
    {"{\"/1\": 1}", "[1]", "nothing"},
    {"{\"/-\": 1}", "[1]", "nothing"},
    {"{\"/99999999999999999999\": 1}", "[1]", "nothing"},
    {"{\"/ok\": true, \"/n\": 2}", "{\"ok\": true, \"n\": 2}", NULL},
    {"{\"/ok\": true, \"/n\": 2}", "{\"ok\": true, \"n\": 3}", "\"/n\""},
    {"{\"/ok\": true}", "{\"ok\": false}", "another value"},
    {"\"200\"", "not looked at", NULL},
};

static void an_answer_is_judged_by_its_values(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
        struct http_options options;
        struct buf body = {0};
        struct err err = {0};
        char text[200];

        snprintf(text, sizeof(text), "{\"url\": \"http://a\", \"ok\": %s}", answers[i].ok);
        read_options(&options, text);
        buf_text_put(&body, answers[i].body);
        if ((http_check_answer(&options, &body, &err) == RC_OK) != !answers[i].words)
            fail_msg("%s, %s: %s", answers[i].ok, answers[i].body, err.text);
        if (answers[i].words && !strstr(err.text, answers[i].words))
            fail_msg("%s, %s: %s", answers[i].ok, answers[i].body, err.text);
        assert_null(strstr(err.text, "secret"));
        buf_done(&body);
        http_options_done(&options);
    }
}

static void statuses_and_values_are_both_needed(void **state)
{
    struct http_options options;
    struct buf body = {0};
    struct err err = {0};

    (void)state;
    read_options(&options,
                 "{\"url\": \"http://a\", \"ok\": {\"/code\": 0, \"status\": \"200,409\"}}");
    assert_true(http_is_ok(&options, 409));
    assert_false(http_is_ok(&options, 201));
    http_options_done(&options);
    read_options(&options, "{\"url\": \"http://a\", \"ok\": {\"/code\": 0}}");
    assert_true(http_is_ok(&options, 201));
    buf_init(&body, 4);
    buf_text_put(&body, "too long");
    assert_int_equal(http_check_answer(&options, &body, &err), RC_REJECT);
    assert_non_null(strstr(err.text, "too long"));
    buf_done(&body);
    http_options_done(&options);
}

static void a_wrong_value_is_named(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct http_options options;
        struct err err = {0};

        if (http_options_read(&options, wrong[i].text, &err) != RC_REJECT)
            fail_msg("%s is taken", wrong[i].text);
        if (!strstr(err.text, wrong[i].words))
            fail_msg("%s: %s", wrong[i].text, err.text);
        assert_null(strstr(err.text, "pass"));
        assert_null(strstr(err.text, "secret"));
    }
}

static const struct {
    const char *list;
    const char *url;
    bool allowed;
} hosts[] = {
    {"", "http://a", false},
    {"a", "http://a/x", true},
    {"a", "https://A/x", true},
    {"A", "http://a/x", true},
    {"a", "http://a:8080/x", false},
    {"a:8080", "http://a:8080/x", true},
    {"a:8080", "http://a/x", false},
    {"a:80", "http://a/x", true},
    {"a:80", "https://a/x", false},
    {"b,a", "http://a", true},
    {"a", "http://ab", false},
    {"ab", "http://a", false},
    {"a", "http://b.a", false},
    {"*.a.example", "http://x.a.example", true},
    {"*.a.example", "http://y.x.a.example", true},
    {"*.a.example", "http://a.example", false},
    {"*.a.example", "http://xa.example", false},
    {"*.a.example", "http://x.a.example.b", false},
    {"*.a.example:8443", "https://x.a.example:8443", true},
    {"*.a.example:8443", "https://x.a.example", false},
    {"[::1]", "http://[::1]/", true},
    {"[::1]:81", "http://[::1]:81/", true},
    {"[::1]:81", "http://[::1]/", false},
    {"[::1]", "http://[::2]/", false},
    {"[fe80::a]", "http://[FE80::A]/", true},
    {"*.0.0.1", "http://[::127.0.0.1]/", false},
    {"127.0.0.1", "http://2130706433/", false},
};

static void only_listed_hosts_are_allowed(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(hosts) / sizeof(hosts[0]); i++) {
        char text[128];
        struct http_options options;

        snprintf(text, sizeof(text), "{\"url\": \"%s\"}", hosts[i].url);
        read_options(&options, text);
        if (http_url_is_allowed(&options.urls[0], hosts[i].list) != hosts[i].allowed)
            fail_msg("%s in \"%s\"", hosts[i].url, hosts[i].list);
        http_options_done(&options);
    }
}

/* Longer ones would not fit into the origin, and the check of the host would read past its end. */
static void a_host_in_brackets_is_an_address_and_no_longer(void **state)
{
    static const char *const bad[] = {"[]",    "[1.2.3.4]",  "[::g]",   "[1:2]",
                                      "[:::]", "[::1%25lo]", "[a.b:c]", "[1:2:3:4:5:6:7:8:9]"};
    char text[8000];
    struct http_options options;
    struct err err = {0};
    size_t len = (size_t)snprintf(text, sizeof(text), "{\"url\": \"http://[");

    (void)state;
    memset(text + len, 'a', 6200);
    snprintf(text + len + 6200, sizeof(text) - len - 6200, "]/\"}");
    if (http_options_read(&options, text, &err) == RC_OK) {
        assert_false(http_url_is_allowed(&options.urls[0], "*.b.example"));
        fail_msg("a host of 6,202 characters is taken");
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        snprintf(text, sizeof(text), "{\"url\": \"http://%s/\"}", bad[i]);
        if (http_options_read(&options, text, &err) != RC_REJECT)
            fail_msg("%s is taken", text);
    }
}

static void a_key_of_any_bytes_goes_into_a_header(void **state)
{
    struct buf buf = {0};

    (void)state;
    http_put_value(&buf, "order 7\r\nX: 1%\xc3\xa4");
    assert_string_equal(buf_text(&buf), "order%207%0D%0AX:%201%25%C3%A4");
    buf_done(&buf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_url_alone_is_enough),
        cmocka_unit_test(every_option_can_be_set),
        cmocka_unit_test(a_wrong_value_is_named),
        cmocka_unit_test(an_answer_is_judged_by_its_values),
        cmocka_unit_test(statuses_and_values_are_both_needed),
        cmocka_unit_test(only_listed_hosts_are_allowed),
        cmocka_unit_test(a_host_in_brackets_is_an_address_and_no_longer),
        cmocka_unit_test(a_key_of_any_bytes_goes_into_a_header),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
