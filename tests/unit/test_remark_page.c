/* SPDX-License-Identifier: MIT */
#include "producer/remark/remark_page.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdint.h>
#include <string.h>

static void a_cursor_is_read_as_it_was_written(void **state)
{
    const struct remark_place places[] = {
        {.item_id = 7, .sort = REMARK_NEWEST, .after = true, .id = 99},
        {.item_id = INT64_MAX,
         .sort = REMARK_VOTES,
         .after = true,
         .id = INT64_MAX,
         .votes = INT64_MIN,
         .window = INT64_MAX},
        {.item_id = 1, .sort = REMARK_VOTES, .after = true, .id = 1, .votes = -3, .window = 0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        char cursor[REMARK_CURSOR_SIZE];
        struct remark_place read;

        remark_cursor_write(&places[i], cursor);
        assert_true(remark_cursor_read(cursor, places[i].item_id, places[i].sort, &read));
        assert_int_equal(read.id, places[i].id);
        assert_int_equal(read.votes, places[i].votes);
        assert_int_equal(read.window, places[i].window);
        assert_true(read.after);
        assert_false(remark_cursor_read(cursor, places[i].item_id - 1, places[i].sort, &read));
        assert_false(remark_cursor_read(
            cursor, places[i].item_id,
            places[i].sort == REMARK_VOTES ? REMARK_NEWEST : REMARK_VOTES, &read));
    }
}

static void what_is_no_cursor_is_refused(void **state)
{
    static const char *const bad[] = {
        "",        "n",       "n1",      "n1.",      "n1.7",
        "n1.7.",   "n1.7.9x", "n1.7.9.", "n1.7.9.1", "n2.7.9",
        "n1.07.9", "n1.7.+9", "n1.7. 9", "N1.7.9",   "n1.7.99999999999999999999",
        "n1.7.-0", "n1..9",   "n1.7.9 ", "v1.7.9",   "n1.7.9.2.3",
        "n1,7,9",
    };
    struct remark_place place;

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        if (remark_cursor_read(bad[i], 7, REMARK_NEWEST, &place))
            fail_msg("\"%s\" was taken for a cursor", bad[i]);
    assert_false(remark_cursor_read("v1.7.9.3", 7, REMARK_VOTES, &place));
    assert_true(remark_cursor_read("v1.7.9.3.1", 7, REMARK_VOTES, &place));
}

static void add_remark(struct remark_page *page, int64_t id, int64_t votes, const char *content)
{
    const struct remark_row row = {
        .id = id,
        .item_id = 7,
        .created_ms = 1700000000000,
        .votes = votes,
        .header = "h\"1",
        .content = content,
        .user_name = "",
        .user_face = "",
    };
    struct err err;

    assert_int_equal(remark_page_add(page, &row, &err), RC_OK);
}

static void an_answer_has_the_remarks_their_totals_and_the_next_cursor(void **state)
{
    const struct remark_place place = {.item_id = 7};
    struct remark_page *page = remark_page_new(&place, 2);
    struct totals_row rows[2] = {{.votes = 5, .voting = 1}, {.votes = 6}};
    const struct remark_totals live = {.rows = rows, .voter_id = 3, .age_ms = 0};
    const struct remark_totals old = {.age_ms = -1, .stale = true};
    struct buf out = {0};

    (void)state;
    assert_non_null(page);
    add_remark(page, 9, 1, "a\nb");
    add_remark(page, 8, 2, NULL);
    assert_false(page->has_next);
    add_remark(page, 5, 2, NULL);
    assert_true(page->has_next);
    assert_int_equal(page->count, 2);
    remark_page_put(&out, page, &live);
    assert_string_equal(
        buf_text(&out),
        "{\"remarks\":[{\"id\":9,\"itemId\":7,\"consumerId\":0,\"orderId\":0,\"score\":0,"
        "\"header\":\"h\\\"1\",\"content\":\"a\\u000ab\",\"images\":null,\"userName\":\"\","
        "\"userFace\":\"\",\"status\":0,\"createdAt\":1700000000000,\"votes\":5,\"voting\":1},"
        "{\"id\":8,\"itemId\":7,\"consumerId\":0,\"orderId\":0,\"score\":0,"
        "\"header\":\"h\\\"1\",\"content\":null,\"images\":null,\"userName\":\"\","
        "\"userFace\":\"\",\"status\":0,\"createdAt\":1700000000000,\"votes\":6,\"voting\":0}],"
        "\"next\":\"n1.7.8\",\"totalsAgeMs\":0,\"stale\":false}");
    buf_reset(&out);
    remark_page_put(&out, page, &old);
    assert_non_null(strstr(buf_text(&out), "\"votes\":1}"));
    assert_non_null(strstr(buf_text(&out), "\"totalsAgeMs\":null,\"stale\":true}"));
    remark_page_clear(page);
    buf_reset(&out);
    remark_page_put(&out, page, &live);
    assert_string_equal(buf_text(&out),
                        "{\"remarks\":[],\"next\":null,\"totalsAgeMs\":0,\"stale\":false}");
    buf_done(&out);
    remark_page_release(page);
}

/* Six bytes of JSON for each byte. */
static void fill_content(char *content, size_t size)
{
    memset(content, 1, size - 1);
    content[size - 1] = '\0';
}

static void a_page_ends_at_its_bytes_but_has_one_remark(void **state)
{
    static char content[40001];
    static char longest[REMARK_PAGE_BYTES_MAX / 6 + 100];
    const struct remark_place place = {.item_id = 7};
    struct remark_page *page = remark_page_new(&place, 100);

    (void)state;
    assert_non_null(page);
    fill_content(content, sizeof(content));
    fill_content(longest, sizeof(longest));
    for (int64_t id = 100; id > 0; id--)
        add_remark(page, id, 0, content);
    assert_int_equal(page->count, 4);
    assert_true(page->has_next);
    assert_int_equal(page->next.id, 97);
    assert_in_range(page->json.len, 1, REMARK_PAGE_BYTES_MAX);
    assert_int_equal(page->json.len, page->rows[3].end);
    remark_page_clear(page);
    add_remark(page, 100, 0, longest);
    assert_false(page->has_next);
    add_remark(page, 99, 0, NULL);
    add_remark(page, 98, 0, NULL);
    assert_int_equal(page->count, 1);
    assert_true(page->has_next);
    remark_page_release(page);
}

static void list_remarks(struct remark_page *page, size_t count)
{
    page->list.count = 50;
    page->listed_count = count;
    for (size_t i = 0; i < count; i++)
        page->rows[i].listed = 1000 + (int64_t)i;
}

static void expect_next(const struct remark_page *page, const char *next)
{
    const struct remark_totals old = {.age_ms = -1};
    struct buf out = {0};

    remark_page_put(&out, page, &old);
    assert_non_null(strstr(buf_text(&out), next));
    buf_done(&out);
}

/* Remarks 1000 and 1003 were removed since the list was built. */
static void a_part_of_a_recommended_list_tells_where_the_rest_begins(void **state)
{
    static char content[40001];
    const struct remark_place place = {.item_id = 7, .sort = REMARK_RECOMMENDED, .id = 10};
    struct remark_page *page = remark_page_new(&place, 40);

    (void)state;
    assert_non_null(page);
    fill_content(content, sizeof(content));
    list_remarks(page, 20);
    add_remark(page, 1001, 0, NULL);
    expect_next(page, "\"rank\":12}");
    expect_next(page, "\"next\":30,");
    add_remark(page, 1002, 0, content);
    for (int64_t id = 1004; id < 1020; id++)
        add_remark(page, id, 0, content);
    assert_int_equal(page->count, 5);
    expect_next(page, "\"next\":17,");
    remark_page_clear(page);
    list_remarks(page, 40);
    expect_next(page, "\"next\":null,");
    remark_page_release(page);
}

/* 64 MiB of pages shall be 64 MiB of remarks. */
static void a_trimmed_page_takes_no_more_than_its_remarks(void **state)
{
    const struct remark_place place = {.item_id = 7};
    struct remark_page *page = remark_page_new(&place, 20);
    char content[300];
    size_t text;

    (void)state;
    assert_non_null(page);
    memset(content, 'x', sizeof(content) - 1);
    content[sizeof(content) - 1] = '\0';
    for (int64_t id = 20; id > 0; id--)
        add_remark(page, id, 1, content);
    text = page->json.len;
    assert_true(remark_page_bytes(page) > text + text / 4);
    remark_page_trim(page);
    assert_int_equal(page->json.len, text);
    assert_true(remark_page_bytes(page) < text + text / 8);
    remark_page_release(page);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cursor_is_read_as_it_was_written),
        cmocka_unit_test(what_is_no_cursor_is_refused),
        cmocka_unit_test(an_answer_has_the_remarks_their_totals_and_the_next_cursor),
        cmocka_unit_test(a_page_ends_at_its_bytes_but_has_one_remark),
        cmocka_unit_test(a_part_of_a_recommended_list_tells_where_the_rest_begins),
        cmocka_unit_test(a_trimmed_page_takes_no_more_than_its_remarks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
