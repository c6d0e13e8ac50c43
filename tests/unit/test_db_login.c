/* SPDX-License-Identifier: MIT */
#include "common/db/login.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static struct mysql_settings settings;

static int set_up(void **state)
{
    (void)state;
    login_reset();
    memset(&settings, 0, sizeof(settings));
    snprintf(settings.user, sizeof(settings.user), "u");
    snprintf(settings.password, sizeof(settings.password), "of the start");
    settings.auth_wait_ms = 1000;
    return 0;
}

/* One connection attempt; code 0: it worked. The text of the failure is in err. */
static enum rc attempt(const char *place, int64_t now_ms, int code, struct err *err)
{
    const struct err fault = {0};
    enum rc rc = code == 0 ? RC_OK : err_fail(err, RC_FATAL, code, "m: denied (%d)", code);

    return login_take_result(&settings, place, now_ms, rc, &fault, err);
}

static void a_command_does_not_wait(void **state)
{
    struct err err = {0};

    (void)state;
    assert_int_equal(attempt("m", 0, 1045, &err), RC_FATAL);
    assert_string_equal(err.text, "m: denied (1045)");
    assert_int_equal(attempt("m", 9999, 1045, &err), RC_FATAL);
    assert_false(login_has_failed(&err));
}

static void a_process_waits_for_its_time_and_no_longer(void **state)
{
    struct err err = {0};

    (void)state;
    login_wait_begin();
    assert_int_equal(attempt("m", 5000, 1045, &err), RC_RETRY);
    assert_int_equal(err.code, 1045);
    assert_string_equal(err.text, "m: denied (1045); correct the password: the process ends when "
                                  "logins fail for auth_wait_ms = 1000");
    assert_int_equal(attempt("m", 5999, 1698, &err), RC_RETRY);
    assert_false(login_has_failed(&err));
    assert_int_equal(attempt("m", 6000, 1045, &err), RC_RETRY);
    assert_true(login_has_failed(&err));
    assert_non_null(strstr(err.text, "m: denied (1045)"));
    /* The process ends, even if a later login works. */
    assert_int_equal(attempt("m", 6001, 0, &err), RC_OK);
    assert_true(login_has_failed(&err));
}

static void no_wait_ends_with_the_first_refusal(void **state)
{
    struct err err = {0};

    (void)state;
    settings.auth_wait_ms = 0;
    login_wait_begin();
    assert_int_equal(attempt("m", 5000, 1045, &err), RC_RETRY);
    assert_true(login_has_failed(&err));
}

/* A time without any attempt proves nothing: the password may have been right in it. */
static void a_login_that_works_begins_the_wait_anew(void **state)
{
    struct err err = {0};

    (void)state;
    login_wait_begin();
    attempt("m", 5000, 1045, &err);
    assert_int_equal(attempt("m", 5500, 0, &err), RC_OK);
    attempt("m", 7000, 1045, &err);
    assert_false(login_has_failed(&err));
    attempt("m", 8000, 1045, &err);
    assert_true(login_has_failed(&err));
}

static void each_account_has_its_own_wait(void **state)
{
    char place[16];
    struct err err = {0};

    (void)state;
    login_wait_begin();
    attempt("m", 5000, 1045, &err);
    attempt("sink", 5900, 1045, &err);
    assert_int_equal(attempt("m", 6000, 0, &err), RC_OK);
    attempt("sink", 6100, 1045, &err);
    assert_false(login_has_failed(&err));
    /* More accounts than a process has: the one that has waited longest makes room. */
    for (int i = 0; i < 9; i++) {
        snprintf(place, sizeof(place), "place %d", i);
        attempt(place, 6200, 1045, &err);
    }
    assert_false(login_has_failed(&err));
    attempt("place 8", 7200, 1045, &err);
    assert_true(login_has_failed(&err));
}

static void other_failures_are_passed_on(void **state)
{
    static const int codes[] = {1044, 1049, 1130, 2002, 2026};
    struct err err = {0};

    (void)state;
    login_wait_begin();
    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
        assert_int_equal(attempt("m", 5000, codes[i], &err), RC_FATAL);
        assert_int_equal(attempt("m", 50000, codes[i], &err), RC_FATAL);
    }
    assert_false(login_has_failed(&err));
}

static void put_file(const char *text)
{
    FILE *file = fopen(settings.password_file, "w");

    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

static void the_file_is_read_for_each_connection(void **state)
{
    char password[SETTING_TEXT_SIZE];
    struct err fault;
    struct err err = {0};

    (void)state;
    login_read_password(&settings, password, &fault);
    assert_string_equal(password, "of the start");
    snprintf(settings.password_file, sizeof(settings.password_file), "/tmp/tallybox-login-%ld",
             (long)getpid());
    put_file("one\n");
    login_read_password(&settings, password, &fault);
    assert_string_equal(password, "one");
    put_file("two");
    login_read_password(&settings, password, &fault);
    assert_string_equal(password, "two");
    assert_string_equal(fault.text, "");
    /* While the file cannot be read, the password of the start may still be right. */
    unlink(settings.password_file);
    login_read_password(&settings, password, &fault);
    assert_string_equal(password, "of the start");
    assert_non_null(strstr(fault.text, "cannot open /tmp/tallybox-login-"));
    assert_int_equal(login_take_result(&settings, "m", 0, RC_OK, &fault, &err), RC_OK);
    err_fail(&err, RC_FATAL, 1045, "m: denied");
    assert_int_equal(login_take_result(&settings, "m", 0, RC_FATAL, &fault, &err), RC_FATAL);
    assert_int_equal(err.code, 1045);
    assert_non_null(strstr(err.text, "m: denied; cannot open /tmp/tallybox-login-"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_command_does_not_wait, set_up),
        cmocka_unit_test_setup(a_process_waits_for_its_time_and_no_longer, set_up),
        cmocka_unit_test_setup(no_wait_ends_with_the_first_refusal, set_up),
        cmocka_unit_test_setup(a_login_that_works_begins_the_wait_anew, set_up),
        cmocka_unit_test_setup(each_account_has_its_own_wait, set_up),
        cmocka_unit_test_setup(other_failures_are_passed_on, set_up),
        cmocka_unit_test_setup(the_file_is_read_for_each_connection, set_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
