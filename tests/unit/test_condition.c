/* SPDX-License-Identifier: MIT */
#include "common/condition.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define PLACE "dep=mysql role=relay reason=cannot_read lane=outbox"

static struct condition condition;
static int ends[2];
static char lines[4096];

static int set_up(void **state)
{
    (void)state;
    condition_init(&condition, CONDITION_DEPENDENCY, "dep=mysql role=relay reason=%s lane=%s",
                   "cannot_read", "outbox");
    return pipe(ends);
}

static int tear_down(void **state)
{
    (void)state;
    condition_done(&condition);
    close(ends[0]);
    close(ends[1]);
    return 0;
}

/* Returns what the log gets from one call, then "|": a failure when there is a reason, else ok. */
static const char *report(int64_t now_ms, const char *reason)
{
    int kept = dup(STDERR_FILENO);
    struct err err = {0};
    ssize_t n;

    dup2(ends[1], STDERR_FILENO);
    if (reason) {
        err_set(&err, "%s", reason);
        condition_fail(&condition, now_ms, &err);
    } else {
        condition_ok(&condition, now_ms);
    }
    n = write(STDERR_FILENO, "|", 1);
    dup2(kept, STDERR_FILENO);
    close(kept);
    assert_int_equal(n, 1);
    n = read(ends[0], lines, sizeof(lines) - 1);
    lines[n > 0 ? n : 0] = '\0';
    return lines;
}

static void the_failure_is_logged_once_and_the_recovery_once(void **state)
{
    (void)state;
    assert_string_equal(report(500, NULL), "|");
    assert_non_null(strstr(report(1000, "no connection"),
                           "level=warn event=dependency_down " PLACE " err=\"no connection\""));
    assert_string_equal(report(2000, "no connection"), "|");
    assert_non_null(
        strstr(report(5000, NULL), "level=info event=dependency_up " PLACE " after_ms=4000\n"));
    assert_string_equal(report(6000, NULL), "|");
    assert_string_not_equal(report(7000, "no connection"), "|");
}

static void alternating_reasons_are_logged_once_each(void **state)
{
    struct err err;

    (void)state;
    assert_string_not_equal(report(1000, "refused"), "|");
    assert_string_not_equal(report(1100, "too many connections"), "|");
    assert_string_equal(report(1200, "refused"), "|");
    assert_true(condition_read(&condition, &err));
    assert_string_equal(err.text, "refused");
    assert_string_equal(report(1300, "too many connections"), "|");
    assert_non_null(strstr(report(9000, NULL), "after_ms=8000"));
    assert_false(condition_read(&condition, &err));
}

static void reasons_that_differ_in_digits_only_are_one_reason(void **state)
{
    struct err err;

    (void)state;
    assert_string_not_equal(report(1000, "broker 1: timed out after 17 ms"), "|");
    assert_string_equal(report(1000, "broker 2: timed out after 1700 ms"), "|");
    assert_string_not_equal(report(1000, "broker 2: refused after 17 ms"), "|");
    assert_true(condition_read(&condition, &err));
    assert_string_equal(err.text, "broker 2: refused after 17 ms");
}

static void a_state_that_was_assumed_is_read_but_not_logged(void **state)
{
    struct err err;

    (void)state;
    condition_assume_failing(&condition, "no answer yet");
    assert_true(condition_read(&condition, &err));
    assert_string_equal(err.text, "no answer yet");
    assert_string_equal(report(1000, NULL), "|");
    assert_false(condition_read(&condition, NULL));

    condition_assume_failing(&condition, "no answer yet");
    assert_string_not_equal(report(2000, "refused"), "|");
    assert_non_null(strstr(report(2500, NULL), "after_ms=500"));
}

static void each_kind_has_its_pair_of_events(void **state)
{
    static const struct {
        enum condition_kind kind;
        const char *failure, *recovery;
    } kinds[] = {{CONDITION_DEPENDENCY, "event=dependency_down ", "event=dependency_up "},
                 {CONDITION_WORK, "event=work_paused ", "event=work_resumed "},
                 {CONDITION_CHECK, "event=check_failed ", "event=check_passed "},
                 {CONDITION_SILENT, "|", "|"},
                 {CONDITION_REMINDER, "|", "|"}};

    (void)state;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        condition_done(&condition);
        condition_init(&condition, kinds[i].kind, "what=this");
        assert_non_null(strstr(report(1, "reason"), kinds[i].failure));
        assert_true(condition_read(&condition, NULL));
        assert_non_null(strstr(report(2, NULL), kinds[i].recovery));
        assert_false(condition_read(&condition, NULL));
    }
}

static bool waits; /* the last result of conditions_remind() */

/* Returns what conditions_remind() logs, then "|". */
static const char *remind(int64_t now_ms)
{
    int kept = dup(STDERR_FILENO);
    ssize_t n;

    dup2(ends[1], STDERR_FILENO);
    waits = conditions_remind(now_ms);
    n = write(STDERR_FILENO, "|", 1);
    dup2(kept, STDERR_FILENO);
    close(kept);
    assert_int_equal(n, 1);
    n = read(ends[0], lines, sizeof(lines) - 1);
    lines[n > 0 ? n : 0] = '\0';
    return lines;
}

static void fail_quietly(struct condition *one, int64_t now_ms, const char *reason)
{
    struct err err = {0};
    int kept = dup(STDERR_FILENO);
    char dropped[4096];
    ssize_t n;

    err_set(&err, "%s", reason);
    dup2(ends[1], STDERR_FILENO);
    if (reason[0])
        condition_fail(one, now_ms, &err);
    else
        condition_ok(one, now_ms);
    n = write(STDERR_FILENO, "|", 1);
    dup2(kept, STDERR_FILENO);
    close(kept);
    assert_int_equal(n, 1);
    assert_true(read(ends[0], dropped, sizeof(dropped)) > 0);
}

static size_t count_lines(const char *text)
{
    size_t count = 0;

    for (; *text; text++)
        count += *text == '\n';
    return count;
}

static void what_is_waited_for_is_named_once_a_minute(void **state)
{
    enum { READ, DELETE, KAFKA, CHECK, LANE, PARTITION, HIDDEN, COUNT };
    static const char *const places[COUNT] = {"dep=mysql role=relay reason=cannot_read",
                                              "dep=mysql role=relay reason=cannot_delete",
                                              "dep=kafka role=relay reason=cannot_send",
                                              "check=clock role=relay",
                                              "what=lane role=relay reason=full",
                                              "what=partition role=consume",
                                              "what=set"};
    static const enum condition_kind kinds[COUNT] = {
        CONDITION_DEPENDENCY, CONDITION_DEPENDENCY, CONDITION_DEPENDENCY, CONDITION_CHECK,
        CONDITION_WORK,       CONDITION_REMINDER,   CONDITION_SILENT};
    struct condition all[COUNT];
    const char *said;

    (void)state;
    conditions_list();
    for (size_t i = 0; i < COUNT; i++)
        condition_init(&all[i], kinds[i], "%s", places[i]);
    assert_string_equal(remind(500), "|");
    fail_quietly(&all[READ], 1000, "refused");
    fail_quietly(&all[DELETE], 31000, "too many connections");
    fail_quietly(&all[KAFKA], 41000, "no broker");
    fail_quietly(&all[CHECK], 1000, "set back");
    fail_quietly(&all[HIDDEN], 1000, "of a set");
    assert_string_equal(remind(60999), "|");
    assert_true(waits);
    said = remind(61000);
    assert_non_null(strstr(said, "level=warn event=still_waiting dep=mysql role=relay "
                                 "reason=cannot_read lasts_ms=60000 others=1 err=\"refused\"\n|"));
    assert_int_equal(count_lines(said), 1);
    /* The line named both conditions of this server: neither is due before a minute. */
    said = remind(101000);
    assert_non_null(
        strstr(said, "dep=kafka role=relay reason=cannot_send lasts_ms=60000 others=0"));
    assert_int_equal(count_lines(said), 1);
    assert_string_equal(remind(120999), "|");
    /* The reason is the last one. */
    fail_quietly(&all[READ], 120999, "shutting down");
    assert_non_null(strstr(remind(121000), "lasts_ms=120000 others=1 err=\"shutting down\""));
    fail_quietly(&all[READ], 130000, "");
    fail_quietly(&all[KAFKA], 130000, "");
    fail_quietly(&all[LANE], 130000, "keys");
    said = remind(181000);
    assert_non_null(strstr(said, "reason=cannot_delete lasts_ms=150000 others=0"));
    assert_int_equal(count_lines(said), 1);
    assert_non_null(strstr(remind(190000), "event=still_waiting what=lane role=relay reason=full "
                                           "lasts_ms=60000 others=0 err=\"keys\""));
    fail_quietly(&all[DELETE], 190000, "");
    fail_quietly(&all[LANE], 190000, "");
    assert_string_equal(remind(190001), "|");
    assert_false(waits);
    fail_quietly(&all[PARTITION], 190000, "stopped");
    assert_non_null(strstr(remind(250000), "what=partition role=consume lasts_ms=60000 others=0"));
    /* What is released is not named. */
    for (size_t i = 0; i < COUNT; i++)
        condition_done(&all[i]);
    assert_string_equal(remind(999000), "|");
}

static void the_longest_failure_of_a_dependency_is_told(void **state)
{
    enum { READ, DELETE, ASSUMED, OTHER, COUNT };
    static const char *const places[COUNT] = {"dep=mysql role=relay reason=cannot_read",
                                              "dep=mysql role=relay reason=cannot_delete",
                                              "dep=mysql role=consume", "dep=mysqlx role=relay"};
    struct condition all[COUNT];

    (void)state;
    conditions_list();
    for (size_t i = 0; i < COUNT; i++)
        condition_init(&all[i], CONDITION_DEPENDENCY, "%s", places[i]);
    condition_assume_failing(&all[ASSUMED], "no answer yet");
    fail_quietly(&all[OTHER], 500, "refused");
    assert_int_equal(conditions_failing_ms("dep=mysql", 5000), 0);
    fail_quietly(&all[DELETE], 3000, "refused");
    assert_int_equal(conditions_failing_ms("dep=mysql", 3000), 1);
    fail_quietly(&all[READ], 1000, "refused");
    fail_quietly(&all[READ], 4000, "refused");
    assert_int_equal(conditions_failing_ms("dep=mysql", 5000), 4000);
    assert_int_equal(conditions_failing_ms("dep=kafka", 5000), 0);
    fail_quietly(&all[READ], 6000, "");
    assert_int_equal(conditions_failing_ms("dep=mysql", 6000), 3000);
    fail_quietly(&all[DELETE], 6000, "");
    assert_int_equal(conditions_failing_ms("dep=mysql", 6000), 0);
    assert_int_equal(conditions_failing_ms("dep=mysqlx", 6000), 5500);
    for (size_t i = 0; i < COUNT; i++)
        condition_done(&all[i]);
    assert_int_equal(conditions_failing_ms("dep=mysqlx", 6000), 0);
}

static void a_text_is_new_again_after_a_while(void **state)
{
    struct reasons reasons = {0};

    (void)state;
    assert_true(reasons_add(&reasons, "refused", 1000, 60000));
    assert_false(reasons_add(&reasons, "refused", 1000, 60000));
    assert_false(reasons_add(&reasons, "refused", 60999, 60000));
    assert_true(reasons_add(&reasons, "refused", 61000, 60000));
    assert_false(reasons_add(&reasons, "refused", 62000, 60000));
}

static void the_oldest_text_is_forgotten_first(void **state)
{
    struct reasons reasons = {0};
    char text[32];

    (void)state;
    assert_true(reasons_add(&reasons, "first", 1000, 60000));
    for (int i = 0; i < REASONS_MAX; i++) {
        snprintf(text, sizeof(text), "%c%c", 'a' + i % 26, 'a' + i / 26);
        assert_true(reasons_add(&reasons, text, 1000, 60000));
    }
    assert_true(reasons_add(&reasons, "first", 1000, 60000));
    assert_false(reasons_add(&reasons, text, 1000, 60000));
}

static void a_zeroed_condition_can_be_released(void **state)
{
    struct condition zeroed = {0};

    (void)state;
    condition_done(&zeroed);
}

#define LOGGED(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        LOGGED(the_failure_is_logged_once_and_the_recovery_once),
        LOGGED(alternating_reasons_are_logged_once_each),
        LOGGED(reasons_that_differ_in_digits_only_are_one_reason),
        LOGGED(a_state_that_was_assumed_is_read_but_not_logged),
        LOGGED(each_kind_has_its_pair_of_events),
        LOGGED(what_is_waited_for_is_named_once_a_minute),
        LOGGED(the_longest_failure_of_a_dependency_is_told),
        cmocka_unit_test(a_text_is_new_again_after_a_while),
        cmocka_unit_test(the_oldest_text_is_forgotten_first),
        cmocka_unit_test(a_zeroed_condition_can_be_released),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
