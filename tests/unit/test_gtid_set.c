/* SPDX-License-Identifier: MIT */
/* Sets of GTIDs as text, in binary form, and against a model of single numbers. */
#include "outbox/relay/binlog/gtid_set.h"

#include "common/hash.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#define A "3e11fa47-71ca-11e1-9e33-c80aa9429562"
#define B "ffffffff-0000-0000-0000-000000000001"

#define NUMBERS 200
#define ROUNDS 2000

static struct gtid_set set;
static struct buf out;
static struct err err;

static int clear(void **state)
{
    (void)state;
    gtid_set_done(&set);
    buf_done(&out);
    memset(&err, 0, sizeof(err));
    return 0;
}

static const char *text_of_set(void)
{
    buf_reset(&out);
    gtid_set_put_text(&set, &out);
    return buf_text(&out);
}

static void expect_mysql(const char *text, const char *expected)
{
    gtid_set_done(&set);
    assert_int_equal(gtid_set_parse_mysql(&set, text, &err), RC_OK);
    assert_string_equal(text_of_set(), expected);
}

static void sets_of_mysql_are_read_and_written_as_the_server_does(void **state)
{
    (void)state;
    expect_mysql("", "");
    expect_mysql(" \n", "");
    expect_mysql(A ":1", A ":1");
    expect_mysql(A ":1-5:7-9:11", A ":1-5:7-9:11");
    expect_mysql("3E11FA47-71CA-11E1-9E33-C80AA9429562:1", A ":1");
    expect_mysql(B ":5,\n" A ":1-3", A ":1-3," B ":5");
    expect_mysql(A ":7:1-3:4-6", A ":1-7");
    expect_mysql(A ":1-3:2-5:10-12:11", A ":1-5:10-12");
    expect_mysql(A ":1-9223372036854775806", A ":1-9223372036854775806");
    expect_mysql(A ":1-3:my_tag:1-2:other:7," B ":_t:1", A ":1-3:my_tag:1-2:other:7," B ":_t:1");
    expect_mysql(A ":Upper:1", A ":upper:1");
    expect_mysql(A ":z:1:a:2:3-4", A ":a:2-4:z:1");
}

static void expect_refused(enum rc (*parse)(struct gtid_set *, const char *, struct err *),
                           const char *text, const char *words)
{
    assert_int_equal(parse(&set, text, &err), RC_REJECT);
    if (!strstr(err.text, words))
        fail_msg("%s does not contain %s", err.text, words);
    assert_int_equal(set.source_count + set.domain_count, 0);
}

static void what_is_no_set_is_refused_with_its_place(void **state)
{
    /* Behind the uuid of a server. */
    static const char *const bad_behind[] = {
        "",
        ":",
        ":0",
        ":1-",
        ":5-3",
        ":1,",
        ":1 2",
        ":-1",
        ":tag",
        ":1:tag",
        "x:1",
        ":1,,",
        ":1:2-",
        ":a-b:1",
        ":1:9tag",
        ":1;2",
        ":9223372036854775807",
        ":a23456789012345678901234567890123:1",
    };
    static const char *const bad_of_mariadb[] = {
        "x",
        "1",
        "1-2",
        "1-2-",
        "1-2-3,",
        "1-2-3 4",
        "1-2-3-4",
        "-1-2-3",
        "4294967296-1-1",
        "1-4294967296-1",
        "1-1-18446744073709551616",
    };
    char text[128];

    (void)state;
    for (size_t i = 0; i < sizeof(bad_behind) / sizeof(bad_behind[0]); i++) {
        snprintf(text, sizeof(text), "%s%s", A, bad_behind[i]);
        expect_refused(gtid_set_parse_mysql, text, "not a set of GTIDs");
        expect_refused(gtid_set_parse_mariadb, text, "domain-server-sequence");
    }
    expect_refused(gtid_set_parse_mysql, "x", "not a set of GTIDs");
    expect_refused(gtid_set_parse_mysql, "1-1-1", "not a set of GTIDs");
    for (size_t i = 0; i < sizeof(bad_of_mariadb) / sizeof(bad_of_mariadb[0]); i++)
        expect_refused(gtid_set_parse_mariadb, bad_of_mariadb[i], "domain-server-sequence");
    expect_refused(gtid_set_parse_mysql, A ":1," B ":0", "at character 77 of");
}

static void the_last_gtid_of_each_domain_counts_on_mariadb(void **state)
{
    struct binlog_gtid gtid = {.mariadb = true, .domain = 0, .server_id = 7, .sequence = 9};

    (void)state;
    assert_int_equal(gtid_set_parse_mariadb(&set, "5-2-18446744073709551615, 0-1-5,\n3-3-1", &err),
                     RC_OK);
    assert_string_equal(text_of_set(), "0-1-5,3-3-1,5-2-18446744073709551615");
    assert_false(gtid_set_has(&set, &gtid));
    assert_int_equal(gtid_set_add(&set, &gtid, &err), RC_OK);
    assert_string_equal(text_of_set(), "0-7-9,3-3-1,5-2-18446744073709551615");
    assert_true(gtid_set_has(&set, &gtid));
    gtid.sequence = 8;
    assert_true(gtid_set_has(&set, &gtid));
    gtid.domain = 4;
    assert_false(gtid_set_has(&set, &gtid));
    assert_int_equal(gtid_set_add(&set, &gtid, &err), RC_OK);
    assert_string_equal(text_of_set(), "0-7-9,3-3-1,4-7-8,5-2-18446744073709551615");
    buf_reset(&out);
    gtid_put_text(&gtid, &out);
    assert_string_equal(buf_text(&out), "4-7-8");
}

static void an_anonymous_transaction_is_in_no_set(void **state)
{
    struct binlog_gtid gtid = {.anonymous = true, .sequence = 1};

    (void)state;
    assert_int_equal(gtid_set_add(&set, &gtid, &err), RC_OK);
    assert_string_equal(text_of_set(), "");
    assert_false(gtid_set_has(&set, &gtid));
    gtid_put_text(&gtid, &out);
    assert_int_equal(out.len, 0);
}

static void expect_bytes(const char *hex)
{
    struct buf bytes = {0};

    gtid_set_put_bytes(&set, &bytes);
    buf_reset(&out);
    buf_hex(&out, bytes.data, bytes.len);
    assert_string_equal(buf_text(&out), hex);
    buf_done(&bytes);
}

/* As Gtid_set::encode() of MySQL 9.7 writes them (rpl_gtid_set.cc). */
static void the_binary_form_has_tags_only_where_there_are_some(void **state)
{
    (void)state;
    expect_bytes("0000000000000000");
    expect_mysql(A ":1-5:7", A ":1-5:7");
    expect_bytes("0100000000000000"
                 "3e11fa4771ca11e19e33c80aa9429562"
                 "0200000000000000"
                 "0100000000000000"
                 "0600000000000000"
                 "0700000000000000"
                 "0800000000000000");
    expect_mysql(A ":1:ab:3", A ":1:ab:3");
    expect_bytes("0102000000000001"
                 "3e11fa4771ca11e19e33c80aa9429562"
                 "00"
                 "0100000000000000"
                 "0100000000000000"
                 "0200000000000000"
                 "3e11fa4771ca11e19e33c80aa9429562"
                 "046162"
                 "0100000000000000"
                 "0300000000000000"
                 "0400000000000000");
}

static void expect_model(const bool *has)
{
    struct buf text = {0};
    struct gtid_set again = {0};
    uint64_t number = 1;

    while (number < NUMBERS) {
        uint64_t from = number;

        while (number < NUMBERS && has[number])
            number++;
        if (number > from)
            buf_print(&text, number > from + 1 ? ":%d-%d" : ":%d", (int)from, (int)number - 1);
        else
            number++;
    }
    assert_string_equal(text_of_set() + strlen(A), buf_text(&text));
    assert_int_equal(gtid_set_parse_mysql(&again, text_of_set(), &err), RC_OK);
    buf_reset(&text);
    gtid_set_put_text(&again, &text);
    assert_string_equal(buf_text(&text), text_of_set());
    gtid_set_done(&again);
    buf_done(&text);
}

static void numbers_in_any_order_give_the_same_set_as_a_model(void **state)
{
    struct binlog_gtid gtid = {0};
    uint64_t rng = 4711;

    (void)state;
    memcpy(gtid.uuid, "\x3e\x11\xfa\x47\x71\xca\x11\xe1\x9e\x33\xc8\x0a\xa9\x42\x95\x62", 16);
    for (int round = 0; round < ROUNDS; round++) {
        bool has[NUMBERS + 1] = {false};
        uint64_t count = 1 + rng_next(&rng) % NUMBERS;

        gtid_set_done(&set);
        for (uint64_t i = 0; i < count; i++) {
            gtid.sequence = 1 + rng_next(&rng) % (NUMBERS - 1);
            assert_int_equal(gtid_set_has(&set, &gtid), has[gtid.sequence]);
            assert_int_equal(gtid_set_add(&set, &gtid, &err), RC_OK);
            has[gtid.sequence] = true;
            assert_true(gtid_set_has(&set, &gtid));
        }
        expect_model(has);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(sets_of_mysql_are_read_and_written_as_the_server_does, clear),
        cmocka_unit_test_teardown(what_is_no_set_is_refused_with_its_place, clear),
        cmocka_unit_test_teardown(the_last_gtid_of_each_domain_counts_on_mariadb, clear),
        cmocka_unit_test_teardown(an_anonymous_transaction_is_in_no_set, clear),
        cmocka_unit_test_teardown(the_binary_form_has_tags_only_where_there_are_some, clear),
        cmocka_unit_test_teardown(numbers_in_any_order_give_the_same_set_as_a_model, clear),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
