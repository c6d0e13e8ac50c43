/* SPDX-License-Identifier: MIT */
#include "outbox/relay/note.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static struct note note;
static int ends[2];
static char lines[4096];

static int set_up(void **state)
{
    (void)state;
    note_init(&note, "lane_cannot_read", "outbox");
    return pipe(ends);
}

static int tear_down(void **state)
{
    (void)state;
    note_done(&note);
    close(ends[0]);
    close(ends[1]);
    return 0;
}

/* What the log gets from one call: the reason when there is one, else the end. */
static const char *say(int64_t now_ms, const char *reason)
{
    int kept = dup(STDERR_FILENO);
    struct err err = {0};
    ssize_t n;

    dup2(ends[1], STDERR_FILENO);
    if (reason) {
        err_set(&err, "%s", reason);
        note_set(&note, now_ms, &err);
    } else {
        note_clear(&note, now_ms);
    }
    n = write(STDERR_FILENO, "|", 1);
    dup2(kept, STDERR_FILENO);
    close(kept);
    assert_int_equal(n, 1);
    n = read(ends[0], lines, sizeof(lines) - 1);
    lines[n > 0 ? n : 0] = '\0';
    return lines;
}

static void a_failure_is_logged_once_when_it_begins_and_once_when_it_ends(void **state)
{
    (void)state;
    assert_non_null(strstr(say(1000, "away"), "event=lane_cannot_read lane=outbox err=\"away\""));
    assert_string_equal(say(2000, "away"), "|");
    assert_non_null(strstr(say(5000, NULL), "event=lane_cannot_read lane=outbox state=over "
                                            "after_ms=4000"));
    assert_string_equal(say(6000, NULL), "|");
    assert_string_not_equal(say(7000, "away"), "|");
}

static void alternating_reasons_are_logged_once_each(void **state)
{
    char text[32];

    (void)state;
    assert_string_not_equal(say(1000, "refused"), "|");
    assert_string_not_equal(say(1100, "too many connections"), "|");
    assert_string_equal(say(1200, "refused"), "|");
    assert_true(note_read(&note, text, sizeof(text)));
    assert_string_equal(text, "refused");
    assert_string_equal(say(1300, "too many connections"), "|");
    assert_non_null(strstr(say(9000, NULL), "after_ms=8000"));
    assert_false(note_read(&note, text, sizeof(text)));
}

static void every_new_reason_is_logged(void **state)
{
    char text[32];

    (void)state;
    for (int i = 0; i < 3 * NOTE_SAID_MAX; i++) {
        snprintf(text, sizeof(text), "key %d", i);
        assert_string_not_equal(say(1000, text), "|");
        assert_string_equal(say(1000, text), "|");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            a_failure_is_logged_once_when_it_begins_and_once_when_it_ends, set_up, tear_down),
        cmocka_unit_test_setup_teardown(alternating_reasons_are_logged_once_each, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(every_new_reason_is_logged, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
