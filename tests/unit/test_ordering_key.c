/* SPDX-License-Identifier: MIT */
#include "common/hash.h"
#include "outbox/relay/relay_row.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <string.h>

static char key[ORDERING_KEY_SIZE];

static const char *make(const char *topic, const char *id, size_t len)
{
    ordering_key_make_text(key, topic, (struct bytes){id, len});
    return key;
}

/* The relay knows a row by its columns, and a task by this text. */
static void assert_same(const char *topic, const char *id, size_t len)
{
    uint64_t hash = topic[0] ? hash_bytes(HASH_START, topic, strlen(topic)) : HASH_START;

    make(topic, id, len);
    assert_true(strlen(key) < ORDERING_KEY_SIZE);
    assert_true(ordering_key_hash_of_text(key) ==
                ordering_key_hash_of_row(hash, (struct bytes){id, len}));
}

static void a_key_is_the_topic_and_the_aggregateid(void **state)
{
    (void)state;
    assert_string_equal(make("vote-events", "4711", 4), "vote-events/4711");
    assert_string_equal(make("t", "a/b", 3), "t/a/b");
    assert_string_equal(make("t", "\xc3\xa4", 2), "t/\xc3\xa4");
    assert_string_equal(make("t", NULL, 0), "t/");
    assert_string_equal(make("", "x", 1), "/x");
}

static void bytes_that_are_no_text_become_hexadecimal_digits(void **state)
{
    (void)state;
    assert_string_equal(make("t", "\xff\x00", 2), "t/hex:ff00");
    assert_string_equal(make("t", "a\0b", 3), "t/hex:610062");
    assert_string_equal(make("t", "hex:61", 6), "t/hex:6865783a3631");
    assert_string_equal(make("t", "hash:1", 6), "t/hex:686173683a31");
}

static void a_key_that_is_too_long_becomes_its_hash(void **state)
{
    char id[1025];

    (void)state;
    memset(id, 'x', sizeof(id));
    assert_int_equal(strlen(make("t", id, 510)), 512);
    assert_int_equal(strncmp(make("t", id, 511), "t/hash:", 7), 0);
    assert_int_equal(strlen(key), 2 + 5 + 16);
    id[0] = '\xff';
    assert_int_equal(strncmp(make("t", id, 253), "t/hex:", 6), 0);
    assert_int_equal(strlen(key), 512);
    assert_int_equal(strncmp(make("t", id, 254), "t/hash:", 7), 0);
}

static void a_row_and_its_task_have_one_number(void **state)
{
    char id[1025];

    (void)state;
    memset(id, 'y', sizeof(id));
    assert_same("vote-events", "4711", 4);
    assert_same("t", "a/b/c", 5);
    assert_same("t", NULL, 0);
    assert_same("", "x", 1);
    assert_same("", "/x", 2);
    assert_same("t", "\xff\x00\x01", 3);
    assert_same("t", "hex:61", 6);
    assert_same("t", "hash:0123456789abcdef", 21);
    assert_same("t", id, 510);
    assert_same("t", id, 511);
    assert_same("t", id, 1025);
    id[7] = '\xfe';
    assert_same("t", id, 253);
    assert_same("t", id, 254);
}

static void text_that_was_not_made_here_has_some_number(void **state)
{
    static const char *const texts[] = {
        "", "/", "x", "t/hex:", "t/hex:0", "t/hex:zz", "t/hash:", "t/hash:zz"};

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        assert_true(ordering_key_hash_of_text(texts[i]) != 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_key_is_the_topic_and_the_aggregateid),
        cmocka_unit_test(bytes_that_are_no_text_become_hexadecimal_digits),
        cmocka_unit_test(a_key_that_is_too_long_becomes_its_hash),
        cmocka_unit_test(a_row_and_its_task_have_one_number),
        cmocka_unit_test(text_that_was_not_made_here_has_some_number),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
