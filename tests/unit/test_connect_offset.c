/* SPDX-License-Identifier: MIT */
/* Offsets of Debezium: what is read, what is refused, and what is written is read again. */
#include "outbox/adopt/connect_offset.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <string.h>

static struct connect_offset offset;
static struct err err;

static enum rc parse(const char *text)
{
    connect_offset_done(&offset);
    memset(&offset, 0, sizeof(offset));
    err.text[0] = '\0';
    return connect_offset_parse(&offset, text, strlen(text), "peer", &err);
}

/* One offset of the server "peer". */
static enum rc parse_one(const char *inner)
{
    struct buf text = {0};
    enum rc rc;

    buf_print(&text, "{\"offsets\": [{\"partition\": {\"server\": \"peer\"}, \"offset\": %s}]}",
              inner);
    rc = parse(buf_text(&text));
    buf_done(&text);
    return rc;
}

static void expect_refused(enum rc rc, const char *words)
{
    assert_int_equal(rc, RC_REJECT);
    if (!strstr(err.text, words))
        fail_msg("'%s' does not say '%s'", err.text, words);
}

static void all_parts_of_an_offset_are_read(void **state)
{
    (void)state;
    assert_int_equal(
        parse("{\"offsets\": [{\"partition\": {\"server\": \"other\"}, \"offset\": {}},"
              "{\"partition\": {\"server\": \"peer\"}, \"offset\": {\"ts_sec\": 17, \"file\": "
              "\"b.1\","
              "\"pos\": 42, \"gtids\": \"0-1-5,\\n1-1-6\", \"event\": 3, \"row\": 2,"
              "\"server_id\": 9, \"transaction_id\": null}}]}"),
        RC_OK);
    assert_true(offset.by_gtid);
    assert_string_equal(buf_text(&offset.gtids), "0-1-5,1-1-6");
    assert_string_equal(offset.file, "b.1");
    assert_int_equal(offset.pos, 42);
    assert_int_equal(offset.event, 3);
    assert_int_equal(offset.row, 2);
    assert_int_equal(offset.server_id, 9);
    assert_int_equal(offset.time_s, 17);
}

static void a_place_without_gtids_is_enough(void **state)
{
    (void)state;
    assert_int_equal(parse_one("{\"file\": \"b.1\", \"pos\": 157}"), RC_OK);
    assert_false(offset.by_gtid);
}

static void rubbish_is_refused_with_what_is_wrong(void **state)
{
    (void)state;
    expect_refused(parse(""), "is empty");
    expect_refused(parse("{\"offsets\": ["), "not JSON");
    expect_refused(parse("7"), "no offsets");
    expect_refused(parse("{\"offsets\": {}}"), "no offsets");
    expect_refused(parse("{\"offsets\": []}"), "stored none");
    expect_refused(parse("{\"offsets\": [7, null, {\"partition\": []}]}"), "among 3");
    expect_refused(parse_one("null"), "stored none");
    expect_refused(parse_one("[]"), "not a JSON object");
    expect_refused(parse_one("{}"), "neither");
    expect_refused(parse_one("{\"file\": \"b.1\"}"), "neither");
    expect_refused(parse_one("{\"file\": 7, \"pos\": 4}"), "\"file\" is not a text");
    expect_refused(parse_one("{\"file\": \"b.1\", \"pos\": \"4\"}"), "\"pos\" is not a number");
    expect_refused(parse_one("{\"file\": \"b.1\", \"pos\": -4}"), "\"pos\" is not a number");
    expect_refused(parse_one("{\"file\": \"b.1\", \"pos\": 4, \"row\": 1.5}"), "\"row\" is not");
    expect_refused(parse_one("{\"file\": \"b.1\", \"pos\": 4, \"pos\": 5}"), "not JSON");
}

static void a_snapshot_has_to_be_finished(void **state)
{
    (void)state;
    expect_refused(parse_one("{\"file\": \"b.1\", \"pos\": 4, \"snapshot\": true}"), "snapshot");
    expect_refused(parse_one("{\"file\": \"b.1\", \"pos\": 4, \"snapshot\": \"INITIAL\"}"),
                   "snapshot");
    assert_int_equal(parse_one("{\"file\": \"b.1\", \"pos\": 4, \"snapshot\": false}"), RC_OK);
}

static void rows_without_events_are_of_xa(void **state)
{
    (void)state;
    expect_refused(parse_one("{\"file\": \"b.1\", \"pos\": 4, \"row\": 1}"), "XA");
}

static void what_is_written_is_read_again(void **state)
{
    struct buf out = {0};

    (void)state;
    assert_int_equal(
        parse_one("{\"file\": \"b.1\", \"pos\": 42, \"gtids\": \"0-1-5\", \"event\": 3,"
                  "\"row\": 2, \"server_id\": 9, \"ts_sec\": 17}"),
        RC_OK);
    connect_offset_put(&out, &offset, "peer");
    assert_int_equal(parse(buf_text(&out)), RC_OK);
    assert_string_equal(buf_text(&offset.gtids), "0-1-5");
    assert_int_equal(offset.pos, 42);
    assert_int_equal(offset.event, 3);
    assert_int_equal(offset.row, 2);
    assert_int_equal(offset.server_id, 9);
    assert_int_equal(offset.time_s, 17);
    buf_done(&out);
}

static bool is_key(const char *key)
{
    return connect_offset_is_key(key, strlen(key), "shop", "peer");
}

static void keys_name_the_connector_and_the_server(void **state)
{
    (void)state;
    assert_true(is_key("[\"shop\",{\"server\":\"peer\"}]"));
    assert_false(is_key("[\"shop2\",{\"server\":\"peer\"}]"));
    assert_false(is_key("[\"shop\",{\"server\":\"peer2\"}]"));
    assert_false(is_key("[\"shop\"]"));
    assert_false(is_key("\"shop\""));
    assert_false(is_key(""));
    assert_false(connect_offset_is_key(NULL, 0, "shop", "peer"));
}

static int tear_down(void **state)
{
    (void)state;
    connect_offset_done(&offset);
    memset(&offset, 0, sizeof(offset));
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_parts_of_an_offset_are_read),
        cmocka_unit_test(a_place_without_gtids_is_enough),
        cmocka_unit_test(rubbish_is_refused_with_what_is_wrong),
        cmocka_unit_test(a_snapshot_has_to_be_finished),
        cmocka_unit_test(rows_without_events_are_of_xa),
        cmocka_unit_test(what_is_written_is_read_again),
        cmocka_unit_test(keys_name_the_connector_and_the_server),
    };

    return cmocka_run_group_tests(tests, NULL, tear_down);
}
