/* SPDX-License-Identifier: MIT */
#include "common/nearest.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void distance_counts_single_mistakes(void **state)
{
    (void)state;
    assert_int_equal(nearest_distance("", ""), 0);
    assert_int_equal(nearest_distance("relay", "relay"), 0);
    assert_int_equal(nearest_distance("RELAY", "relay"), 0);
    assert_int_equal(nearest_distance("", "relay"), 5);
    assert_int_equal(nearest_distance("relay", ""), 5);
    assert_int_equal(nearest_distance("rely", "relay"), 1);
    assert_int_equal(nearest_distance("relays", "relay"), 1);
    assert_int_equal(nearest_distance("relax", "relay"), 1);
    assert_int_equal(nearest_distance("realy", "relay"), 1);
    assert_int_equal(nearest_distance("kitten", "sitting"), 3);
    assert_int_equal(nearest_distance("sunday", "saturday"), 3);
}

static void distance_is_the_same_both_ways(void **state)
{
    static const char *const words[] = {"serve", "relay", "lease_ms", "eslaems", "a", "ab", "ba"};

    (void)state;
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        for (size_t k = 0; k < i; k++)
            assert_int_equal(nearest_distance(words[i], words[k]),
                             nearest_distance(words[k], words[i]));
}

static void words_too_long_are_never_near(void **state)
{
    char word[NEAREST_WORD_MAX + 2];
    struct nearest nearest = {.typed = word};

    (void)state;
    memset(word, 'w', sizeof(word));
    word[NEAREST_WORD_MAX + 1] = '\0';
    assert_int_equal(nearest_distance(word, word), NEAREST_WORD_MAX + 1);
    nearest_offer(&nearest, word);
    assert_null(nearest.word);
    word[NEAREST_WORD_MAX] = '\0';
    assert_int_equal(nearest_distance(word, word), 0);
}

static const char *nearest_of(const char *typed)
{
    static const char *const words[] = {"run", "serve", "relay", "consume", "verify", "status"};
    struct nearest nearest = {.typed = typed};

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        nearest_offer(&nearest, words[i]);
    return nearest.word ? nearest.word : "";
}

static void the_nearest_word_wins(void **state)
{
    (void)state;
    assert_string_equal(nearest_of("realy"), "relay");
    assert_string_equal(nearest_of("consumer"), "consume");
    assert_string_equal(nearest_of("verfiy"), "verify");
    assert_string_equal(nearest_of("ran"), "run");
    assert_string_equal(nearest_of("sta"), "status");
    assert_string_equal(nearest_of("cons"), "consume");
    assert_string_equal(nearest_of("co"), "");
}

static void a_stranger_has_no_nearest_word(void **state)
{
    (void)state;
    assert_string_equal(nearest_of("publish"), "");
    assert_string_equal(nearest_of(""), "");
    assert_string_equal(nearest_of("xyz"), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(distance_counts_single_mistakes),
        cmocka_unit_test(distance_is_the_same_both_ways),
        cmocka_unit_test(words_too_long_are_never_near),
        cmocka_unit_test(the_nearest_word_wins),
        cmocka_unit_test(a_stranger_has_no_nearest_word),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
