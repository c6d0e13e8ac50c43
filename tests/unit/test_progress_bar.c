/* SPDX-License-Identifier: MIT */
#include "common/progress_bar.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void check(const struct progress_bar *progress, int64_t now_ms, const char *line)
{
    struct buf out = {0};

    progress_bar_render(progress, now_ms, &out);
    assert_string_equal(buf_text(&out), line);
    buf_done(&out);
}

static void a_known_total_gives_a_bar(void **state)
{
    struct progress_bar progress;

    (void)state;
    progress_bar_open(&progress, "votes", 2000, 10000);
    check(&progress, 10000, "[..............................]   0%  0 of 2,000 votes, 0/s");
    progress.done = 1000;
    check(&progress, 12000, "[###############...............]  50%  1,000 of 2,000 votes, 500/s");
    progress.done = 2000;
    check(&progress, 14000, "[##############################] 100%  2,000 of 2,000 votes, 500/s");
}

static void more_than_the_total_stays_a_hundred_percent(void **state)
{
    struct progress_bar progress;

    (void)state;
    progress_bar_open(&progress, "rows", 10, 0);
    progress.done = 1234567;
    check(&progress, 1000,
          "[##############################] 100%  1,234,567 of 10 rows, 1,234,567/s");
}

static void an_unknown_total_gives_no_bar(void **state)
{
    struct progress_bar progress;

    (void)state;
    progress_bar_open(&progress, "votes", 0, 0);
    progress.done = 5;
    check(&progress, 1000, "5 votes, 5/s");
}

static void a_share_stands_for_an_unknown_total(void **state)
{
    struct progress_bar progress;

    (void)state;
    progress_bar_open(&progress, "votes", 0, 0);
    progress.done = 5;
    progress_bar_set_share(&progress, 0.5);
    check(&progress, 1000, "[###############...............]  50%  5 votes, 5/s");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_known_total_gives_a_bar),
        cmocka_unit_test(more_than_the_total_stays_a_hundred_percent),
        cmocka_unit_test(an_unknown_total_gives_no_bar),
        cmocka_unit_test(a_share_stands_for_an_unknown_total),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
