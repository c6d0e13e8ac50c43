/* SPDX-License-Identifier: MIT */
#include "consumer/ingest/group_check_kafka.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <librdkafka/rdkafka.h>
#include <string.h>

static void a_member_tells_its_installation(void **state)
{
    char client[GROUP_CLIENT_SIZE];
    char other[64] = "";

    (void)state;
    group_client_id(client, "1f2e3d4c", "db-1-ab12");
    assert_string_equal(client, "tallybox-1f2e3d4c.db-1-ab12");
    assert_false(group_client_is_foreign(client, "1f2e3d4c", other, sizeof(other)));
    assert_true(group_client_is_foreign(client, "1f2e3d4", other, sizeof(other)));
    assert_true(group_client_is_foreign(client, "1f2e3d4cc", other, sizeof(other)));
    assert_string_equal(other, "1f2e3d4c");
}

static void a_member_that_tells_none_is_not_foreign(void **state)
{
    static const char *const clients[] = {"",          "rdkafka",     "tallybox",
                                          "tallybox-", "tallybox-.x", "tallybox-1f2e3d4c"};
    char client[GROUP_CLIENT_SIZE];
    char other[64];

    (void)state;
    for (size_t i = 0; i < sizeof(clients) / sizeof(clients[0]); i++)
        assert_false(group_client_is_foreign(clients[i], "1f2e3d4c", other, sizeof(other)));
    group_client_id(client, "", "db-1-ab12");
    assert_string_equal(client, "db-1-ab12");
    assert_false(group_client_is_foreign("tallybox-1f2e3d4c.x", "2", other, 8));
}

static const struct group_member own = {"tallybox-bbbb0002.one", "/10.0.0.2"};
static const struct group_member lower = {"tallybox-aaaa0001.two", "/10.0.0.1"};
static const struct group_member higher = {"tallybox-cccc0003.three", NULL};

static struct group_check make_check(void)
{
    return (struct group_check){.group = "votes", .installation = "bbbb0002", .rc = RC_RETRY};
}

static void judge(struct group_check *check, struct group_member first, struct group_member second)
{
    const struct group_member members[] = {first, second};

    group_check_judge(check, members, 2);
}

static void a_group_of_this_installation_may_be_joined(void **state)
{
    struct group_check check = make_check();

    (void)state;
    group_check_judge(&check, NULL, 0);
    assert_int_equal(check.rc, RC_OK);
    judge(&check, own, (struct group_member){NULL, NULL});
    assert_int_equal(check.rc, RC_OK);
    assert_false(check.foreign);
}

static void a_group_of_another_installation_is_not_joined(void **state)
{
    struct group_check check = make_check();

    (void)state;
    judge(&check, own, higher);
    assert_int_equal(check.rc, RC_REJECT);
    assert_true(check.foreign);
    assert_string_equal(check.err.text,
                        "installation cccc0003 uses the consumer group votes, too (member "
                        "tallybox-cccc0003.three at an unknown host), and would take partitions of "
                        "this installation, bbbb0002: set consumer.group to another name in one of "
                        "them; until then bbbb0002 stays out of the group");
    judge(&check, own, own);
    assert_int_equal(check.rc, RC_OK);
    assert_false(check.foreign);
}

static void of_installations_that_joined_together_the_lowest_id_stays(void **state)
{
    struct group_check check = make_check();

    (void)state;
    check.joined = true;
    judge(&check, own, higher);
    assert_int_equal(check.rc, RC_OK);
    assert_true(check.foreign);
    assert_non_null(strstr(check.err.text, "until then bbbb0002 stays in the group"));
    judge(&check, higher, lower);
    assert_int_equal(check.rc, RC_REJECT);
    assert_non_null(strstr(check.err.text, "installation aaaa0001 uses"));
    assert_non_null(strstr(check.err.text, "until then bbbb0002 stays out of the group"));
    judge(&check, lower, higher);
    assert_int_equal(check.rc, RC_REJECT);
}

static void a_broker_that_refuses_to_describe_the_group_gives_no_reason_to_wait(void **state)
{
    static const int codes[] = {RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED,
                                RD_KAFKA_RESP_ERR__UNSUPPORTED_FEATURE};

    (void)state;
    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
        struct group_check check = make_check();

        group_check_miss(&check, codes[i], false, 0);
        assert_int_equal(check.rc, RC_OK);
        assert_false(check.foreign);
    }
}

/* Only queries that a reachable broker leaves unanswered count. */
static void after_three_unanswered_queries_the_check_is_given_up(void **state)
{
    struct group_check check = make_check();

    (void)state;
    for (int i = 0; i < 10; i++)
        group_check_miss(&check, RD_KAFKA_RESP_ERR__TIMED_OUT, false, 3000 * (int64_t)i);
    assert_int_equal(check.rc, RC_RETRY);
    group_check_miss(&check, RD_KAFKA_RESP_ERR__TIMED_OUT, true, 40000);
    group_check_miss(&check, RD_KAFKA_RESP_ERR__TIMED_OUT, true, 43000);
    assert_int_equal(check.rc, RC_RETRY);
    group_check_miss(&check, RD_KAFKA_RESP_ERR__TIMED_OUT, true, 46000);
    assert_int_equal(check.rc, RC_OK);
}

/* A broker that is not the coordinator answers so at once. */
static void queries_that_fail_at_once_count_as_one_in_three_seconds(void **state)
{
    struct group_check check = make_check();

    (void)state;
    for (int64_t now_ms = 0; now_ms < 6000; now_ms += 500)
        group_check_miss(&check, RD_KAFKA_RESP_ERR_NOT_COORDINATOR, true, now_ms);
    assert_int_equal(check.rc, RC_RETRY);
    group_check_miss(&check, RD_KAFKA_RESP_ERR_NOT_COORDINATOR, true, 6000);
    assert_int_equal(check.rc, RC_OK);
}

static void a_failed_query_changes_no_earlier_answer(void **state)
{
    struct group_check check = make_check();

    (void)state;
    judge(&check, own, lower);
    for (int i = 0; i < 10; i++)
        group_check_miss(&check, RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED, true, 0);
    assert_int_equal(check.rc, RC_REJECT);
    assert_true(check.foreign);
    judge(&check, own, own);
    group_check_miss(&check, RD_KAFKA_RESP_ERR__TIMED_OUT, true, 0);
    assert_int_equal(check.rc, RC_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_member_tells_its_installation),
        cmocka_unit_test(a_member_that_tells_none_is_not_foreign),
        cmocka_unit_test(a_group_of_this_installation_may_be_joined),
        cmocka_unit_test(a_group_of_another_installation_is_not_joined),
        cmocka_unit_test(of_installations_that_joined_together_the_lowest_id_stays),
        cmocka_unit_test(a_broker_that_refuses_to_describe_the_group_gives_no_reason_to_wait),
        cmocka_unit_test(after_three_unanswered_queries_the_check_is_given_up),
        cmocka_unit_test(queries_that_fail_at_once_count_as_one_in_three_seconds),
        cmocka_unit_test(a_failed_query_changes_no_earlier_answer),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
