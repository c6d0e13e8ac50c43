/* SPDX-License-Identifier: MIT */
#include "consumer/dead/dead.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <string.h>

static struct dead_item item(const char *topic, int32_t partition, const char *key)
{
    return (struct dead_item){
        .topic = topic, .partition = partition, .key = key, .key_len = key ? strlen(key) : 0};
}

static uint64_t key_of(const char *topic, int32_t partition, const char *key)
{
    struct dead_item one = item(topic, partition, key);

    return dead_key_of(&one);
}

static void a_key_belongs_to_its_partition(void **state)
{
    (void)state;
    assert_int_equal(key_of("t", 1, "5"), key_of("t", 1, "5"));
    assert_int_not_equal(key_of("t", 1, "5"), key_of("t", 2, "5"));
    assert_int_not_equal(key_of("t", 1, "5"), key_of("u", 1, "5"));
    assert_int_not_equal(key_of("t", 1, "5"), key_of("t", 1, "6"));
    assert_int_equal(key_of("t", 1, NULL), 0);
    assert_int_not_equal(key_of("t", 1, ""), 0);
}

static void every_key_is_found_with_its_first_record(void **state)
{
    struct dead_keys keys = {0};
    char text[2] = {0};

    (void)state;
    assert_int_equal(dead_keys_find(&keys, 7), 0);
    for (int i = 0; i < 1000; i++) {
        text[0] = (char)(i % 250 + 1);
        assert_int_equal(dead_keys_add(&keys, key_of("t", i / 250, text), i + 1, NULL), RC_OK);
        assert_int_equal(dead_keys_add(&keys, key_of("t", i / 250, text), i + 5000, NULL), RC_OK);
    }
    assert_int_equal(dead_keys_add(&keys, 0, 1, NULL), RC_OK);
    assert_int_equal(keys.count, 1000);
    for (int i = 0; i < 1000; i++) {
        text[0] = (char)(i % 250 + 1);
        assert_int_equal(dead_keys_find(&keys, key_of("t", i / 250, text)), i + 1);
    }
    assert_int_equal(dead_keys_find(&keys, key_of("t", 4, "x")), 0);
    assert_int_equal(dead_keys_find(&keys, 0), 0);
    dead_keys_done(&keys);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_key_belongs_to_its_partition),
        cmocka_unit_test(every_key_is_found_with_its_first_record),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
