/* SPDX-License-Identifier: MIT */
#include "common/db/handle.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

static enum db_tls tls_of(const char *tls, const char *host, const char *socket)
{
    struct mysql_settings settings = {.port = 3306};

    snprintf(settings.tls, sizeof(settings.tls), "%s", tls);
    snprintf(settings.host, sizeof(settings.host), "%s", host);
    snprintf(settings.socket, sizeof(settings.socket), "%s", socket);
    return db_tls_of(&settings);
}

static void auto_is_off_only_where_no_other_machine_listens(void **state)
{
    static const char *const local[] = {"localhost", "127.0.0.1", "127.1.2.3", "::1"};
    /* Some of them look local, and may be anything. */
    static const char *const others[] = {
        "db.example.com", "10.0.0.1",  "0.0.0.0", "::",         "127.0.0.1.", "127.example.com",
        "localhost.",     "LOCALHOST", "127.1",   "1270.0.0.1", "fe80::1",    "::ffff:10.0.0.1"};

    (void)state;
    for (size_t i = 0; i < sizeof(local) / sizeof(local[0]); i++)
        assert_int_equal(tls_of("auto", local[i], ""), DB_TLS_OFF);
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        assert_int_equal(tls_of("auto", others[i], ""), DB_TLS_VERIFY);
    assert_int_equal(tls_of("auto", "db.example.com", "/run/s.sock"), DB_TLS_OFF);
}

static void each_tls_setting_has_its_effect(void **state)
{
    (void)state;
    assert_int_equal(tls_of("off", "db.example.com", ""), DB_TLS_OFF);
    assert_int_equal(tls_of("on", "127.0.0.1", ""), DB_TLS_ON);
    assert_int_equal(tls_of("verify", "127.0.0.1", ""), DB_TLS_VERIFY);
    assert_int_equal(tls_of("verify", "127.0.0.1", "/run/s.sock"), DB_TLS_VERIFY);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(auto_is_off_only_where_no_other_machine_listens),
        cmocka_unit_test(each_tls_setting_has_its_effect),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
