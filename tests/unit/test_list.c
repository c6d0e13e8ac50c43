/* SPDX-License-Identifier: MIT */
#include "common/text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

static void assert_next(const char **rest, const char *word)
{
    size_t len = 0;
    const char *next = list_next(rest, ',', &len);

    assert_non_null(next);
    assert_int_equal(len, strlen(word));
    assert_memory_equal(next, word, len);
}

static void assert_end(const char *rest)
{
    size_t len;

    assert_null(list_next(&rest, ',', &len));
}

static void words_come_one_after_the_other(void **state)
{
    const char *rest = "outbox,b c,d";

    (void)state;
    assert_next(&rest, "outbox");
    assert_next(&rest, "b c");
    assert_next(&rest, "d");
    assert_end(rest);
    assert_end(NULL);
}

/* So a check of the words sees them, and notices a surplus comma. */
static void empty_words_count(void **state)
{
    const char *rest = "";

    (void)state;
    assert_next(&rest, "");
    assert_end(rest);
    rest = ",a,";
    assert_next(&rest, "");
    assert_next(&rest, "a");
    assert_next(&rest, "");
    assert_end(rest);
    assert_int_equal(list_count(""), 1);
    assert_int_equal(list_count(",a,"), 3);
    assert_int_equal(list_count("a,b"), 2);
}

static void another_separator_leaves_commas_alone(void **state)
{
    const char *rest = "a,b|c";
    size_t len;

    (void)state;
    assert_string_equal(list_next(&rest, '|', &len), "a,b|c");
    assert_int_equal(len, 3);
    assert_string_equal(list_next(&rest, '|', &len), "c");
    assert_null(list_next(&rest, '|', &len));
}

static void only_a_whole_word_is_in_a_list(void **state)
{
    (void)state;
    assert_true(list_has("votes,orders", "votes"));
    assert_true(list_has("votes,orders", "orders"));
    assert_false(list_has("votes,orders", "order"));
    assert_false(list_has("votes,orders", "votes,orders"));
    assert_false(list_has("", ""));
    assert_false(list_has("a,", ""));
    assert_false(list_has("", "a"));
}

static void a_list_for_people_ends_with_a_whole_word_or_an_ellipsis(void **state)
{
    char list[20] = "";

    (void)state;
    text_list_add(list, sizeof(list), "one");
    text_list_add(list, sizeof(list), "two");
    assert_string_equal(list, "one, two");
    text_list_add(list, sizeof(list), "three-and-more");
    assert_string_equal(list, "one, two, ...");
    text_list_add(list, sizeof(list), "x");
    assert_string_equal(list, "one, two, ...");
    list[0] = '\0';
    text_list_add(list, sizeof(list), "a-word-that-has-no-room");
    assert_string_equal(list, "...");
}

static void a_text_is_cut_behind_a_word(void **state)
{
    static const char whole[] = "some words that are too long";

    (void)state;
    for (size_t size = 6; size < sizeof(whole) + 3; size++) {
        char text[64];
        size_t len;

        snprintf(text, size, "%s", whole);
        text_cut(text, size, strlen(whole));
        len = strlen(text);
        assert_true(len < size);
        if (size >= sizeof(whole)) {
            assert_string_equal(text, whole);
            continue;
        }
        assert_string_equal(text + len - 3, "...");
        if (len > 4 && text[len - 4] == ' ')
            assert_true(whole[len - 4] == ' ' && memcmp(text, whole, len - 3) == 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_list_for_people_ends_with_a_whole_word_or_an_ellipsis),
        cmocka_unit_test(a_text_is_cut_behind_a_word),
        cmocka_unit_test(words_come_one_after_the_other),
        cmocka_unit_test(empty_words_count),
        cmocka_unit_test(another_separator_leaves_commas_alone),
        cmocka_unit_test(only_a_whole_word_is_in_a_list),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
