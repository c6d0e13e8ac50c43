/* SPDX-License-Identifier: MIT */
#include "common/hash.h"
#include "outbox/relay/window.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <string.h>

#define SEQS 4000

static void an_added_seq_is_inside_until_it_is_removed(void **state)
{
    struct window window;

    (void)state;
    assert_int_equal(window_init(&window, 10, NULL), RC_OK);
    window_add(&window, 5);
    window_add(&window, INT64_MAX);
    assert_true(window_has(&window, 5));
    assert_true(window_has(&window, INT64_MAX));
    assert_false(window_has(&window, 6));
    window_remove(&window, 5);
    assert_false(window_has(&window, 5));
    assert_true(window_has(&window, INT64_MAX));
    assert_int_equal(window.count, 1);
    window_done(&window);
}

/* Random adds and removes against a plain table of flags. */
static void it_agrees_with_a_plain_table_at_every_step(void **state)
{
    static bool inside[SEQS + 1];
    struct window window;
    uint64_t rng = 3;

    (void)state;
    assert_int_equal(window_init(&window, 1000, NULL), RC_OK);
    for (int i = 0; i < 200000; i++) {
        int64_t seq = 1 + (int64_t)(rng_next(&rng) % SEQS);

        assert_int_equal(window_has(&window, seq), inside[seq]);
        if (inside[seq])
            window_remove(&window, seq);
        else if (window.count < window.count_max)
            window_add(&window, seq);
        else
            continue;
        inside[seq] = !inside[seq];
    }
    for (int64_t seq = 1; seq <= SEQS; seq++)
        assert_int_equal(window_has(&window, seq), inside[seq]);
    window_done(&window);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_added_seq_is_inside_until_it_is_removed),
        cmocka_unit_test(it_agrees_with_a_plain_table_at_every_step),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
