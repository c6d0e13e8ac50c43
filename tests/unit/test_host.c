/* SPDX-License-Identifier: MIT */
#include "common/host.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void a_host_is_a_name_and_perhaps_a_port(void **state)
{
    static const struct {
        const char *text;
        size_t name_len;
        int port;
    } good[] = {
        {"a", 1, 0},     {"a.example:8080", 9, 8080}, {"127.0.0.1", 9, 0},
        {"[::1]", 5, 0}, {"[::1]:443", 5, 443},       {"A-1.b:65535", 5, 65535},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        struct host host;

        if (!host_read(&host, good[i].text))
            fail_msg("%s is refused", good[i].text);
        assert_ptr_equal(host.name, good[i].text);
        assert_int_equal(host.name_len, good[i].name_len);
        assert_int_equal(host.port, good[i].port);
    }
}

static void anything_else_is_no_host(void **state)
{
    static const char *const bad[] = {
        "",       ":80",  "a:",       "a:0",        "a:65536", "a:080000", "a:8x",
        "a b",    " a",   "a/",       "a@b",        "u@a:80",  "a,b",      ".a",
        "*.a",    "[]",   "[::1",     "::1",        "[::1]x",  "[a.b]",    "[1.2.3.4]",
        "[::1]:", "a\tb", "\xc3\xa4", "[::1%25lo]", "a_b",
    };
    char text[300];
    struct host host;

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        if (host_read(&host, bad[i]))
            fail_msg("%s is taken", bad[i]);
    memset(text, 'a', sizeof(text));
    text[254] = '\0';
    assert_false(host_read(&host, text));
    text[253] = '\0';
    assert_true(host_read(&host, text));
    memset(text + 1, ':', 200);
    text[0] = '[';
    assert_false(host_read(&host, text));
}

static const struct {
    const char *list;
    const char *host;
    bool listed;
} lists[] = {
    {"", "a", false},
    {"a", "a", true},
    {"a", "A:81", true},
    {"a:80", "a:80", true},
    {"a:80", "a:81", false},
    {"a:80", "a", false},
    {"b,a", "a", true},
    {"a", "ab", false},
    {"ab", "a", false},
    {"*.a", "x.a:1", true},
    {"*.a", "a", false},
    {"*.a", "xa", false},
    {"[::1]", "[0:0::1]:9", true},
    {"[::1]:9", "[::1]:9", true},
    {"[::1]:9", "[::1]", false},
    {"[::1]", "[::2]", false},
    {"127.0.0.1", "127.0.0.1", true},
    {"127.0.0.1", "[::ffff:127.0.0.1]", false},
    {"*.0.0.1", "[::127.0.0.1]", false},
};

static void a_list_names_hosts(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        struct host host;

        assert_true(host_read(&host, lists[i].host));
        if (host_is_listed(&host, lists[i].list, 0) != lists[i].listed)
            fail_msg("%s in \"%s\"", lists[i].host, lists[i].list);
    }
}

static void an_entry_without_a_port_may_mean_a_certain_one(void **state)
{
    struct host host;

    (void)state;
    assert_true(host_read(&host, "a:443"));
    assert_true(host_is_listed(&host, "a", 443));
    assert_false(host_is_listed(&host, "a", 80));
    assert_true(host_is_listed(&host, "a:443", 80));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_host_is_a_name_and_perhaps_a_port),
        cmocka_unit_test(anything_else_is_no_host),
        cmocka_unit_test(a_list_names_hosts),
        cmocka_unit_test(an_entry_without_a_port_may_mean_a_certain_one),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
