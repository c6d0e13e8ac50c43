/* SPDX-License-Identifier: MIT */
#include "consumer/ingest/group_check_kafka.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_member_tells_its_installation),
        cmocka_unit_test(a_member_that_tells_none_is_not_foreign),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
