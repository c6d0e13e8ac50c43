/* SPDX-License-Identifier: MIT */
/* Ids of published rows as they are stored. */
#include "outbox/relay/stream/published_ids.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <string.h>

#define UUID "0199a1f0-0000-7000-8000-00000000abcd"

static struct buf stored;

static int teardown(void **state)
{
    (void)state;
    buf_done(&stored);
    return 0;
}

static bool put(const char *data, size_t len)
{
    struct published_id id;

    memset(&id, 7, sizeof(id));
    if (!published_id_set(&id, (struct bytes){data, len})) {
        assert_false(published_id_is_set(&id));
        return false;
    }
    assert_true(published_id_is_set(&id));
    published_ids_put(&stored, &id, 1);
    return true;
}

static void assert_next(struct published_ids *from, const char *data, size_t len)
{
    char uuid[ID_TEXT_SIZE];
    struct bytes id;
    bool found = false;

    assert_int_equal(published_ids_read(from, uuid, &id, &found, NULL), RC_OK);
    assert_true(found);
    assert_int_equal(id.len, len);
    assert_memory_equal(id.data, data, len);
}

static void ids_come_back_as_they_were(void **state)
{
    static const char bytes[16] = {'\0', '\x80', '\xff', '"', '\'', '\\'};
    static const char longest[] = "012345678901234567890123456789012345678901234567890123456789abc";
    static const char upper[] = "0199A1F0-0000-7000-8000-00000000ABCD";
    static const char no_uuid[] = "0199a1f0-0000-7000-8000-00000000abcx";
    struct published_ids from;
    char uuid[ID_TEXT_SIZE];
    struct bytes id;
    bool found = true;

    (void)state;
    assert_int_equal(strlen(longest), PUBLISHED_ID_BYTES_MAX);
    assert_true(put(UUID, 36));
    assert_int_equal(stored.len, 17);
    assert_true(put(bytes, sizeof(bytes)));
    assert_true(put(upper, 36));
    assert_true(put(longest, 63));
    assert_true(put(no_uuid, 36));
    assert_true(put("7", 1));
    from = (struct published_ids){.data = stored.data, .len = stored.len};
    assert_next(&from, UUID, 36);
    assert_next(&from, bytes, sizeof(bytes));
    assert_next(&from, upper, 36);
    assert_next(&from, longest, 63);
    assert_next(&from, no_uuid, 36);
    assert_next(&from, "7", 1);
    assert_int_equal(published_ids_read(&from, uuid, &id, &found, NULL), RC_OK);
    assert_false(found);
}

static void ids_that_cannot_be_stored_are_none(void **state)
{
    char text[PUBLISHED_ID_BYTES_MAX + 1];

    (void)state;
    memset(text, 'x', sizeof(text));
    assert_false(put(text, sizeof(text)));
    assert_false(put("", 0));
    assert_false(put(NULL, 0));
}

static void they_are_passed_in_pieces(void **state)
{
    struct published_ids from;
    size_t count;

    (void)state;
    for (int i = 0; i < 25; i++)
        assert_true(i % 2 ? put(UUID, 36) : put("abc", 3));
    from = (struct published_ids){.data = stored.data, .len = stored.len};
    for (size_t left = 25; left > 0; left -= count) {
        assert_int_equal(published_ids_skip(&from, 10, &count, NULL), RC_OK);
        assert_int_equal(count, left > 10 ? 10 : left);
    }
    assert_int_equal(published_ids_skip(&from, 10, &count, NULL), RC_OK);
    assert_int_equal(count, 0);
    assert_int_equal(from.at, from.len);
}

static void damaged_bytes_are_refused(void **state)
{
    static const struct bytes damaged[] = {{"\0a", 2}, {"\x02z", 2}, {"\x40z", 2}, {"\x80z", 2}};

    (void)state;
    for (size_t i = 0; i < sizeof(damaged) / sizeof(damaged[0]); i++) {
        struct published_ids from = {.data = damaged[i].data, .len = damaged[i].len};
        struct published_ids again = from;
        char uuid[ID_TEXT_SIZE];
        struct err err = {0};
        struct bytes id;
        size_t count;
        bool found;

        assert_int_equal(published_ids_read(&from, uuid, &id, &found, &err), RC_FATAL);
        assert_string_equal(err.text, "byte 0 of 2 is no id");
        assert_int_equal(published_ids_skip(&again, 9, &count, NULL), RC_FATAL);
    }
}

static void rows_are_known_by_one_of_both(void **state)
{
    (void)state;
    assert_int_equal(published_kind_choose(true, true, 1), PUBLISHED_BY_SEQ);
    assert_int_equal(published_kind_choose(true, false, 0), PUBLISHED_BY_SEQ);
    assert_int_equal(published_kind_choose(false, true, 1), PUBLISHED_BY_ID);
    assert_int_equal(published_kind_choose(false, true, 0), PUBLISHED_BY_NOTHING);
    assert_int_equal(published_kind_choose(false, false, 1), PUBLISHED_BY_NOTHING);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_known_by_one_of_both),
        cmocka_unit_test_teardown(ids_come_back_as_they_were, teardown),
        cmocka_unit_test_teardown(ids_that_cannot_be_stored_are_none, teardown),
        cmocka_unit_test_teardown(they_are_passed_in_pieces, teardown),
        cmocka_unit_test_teardown(damaged_bytes_are_refused, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
