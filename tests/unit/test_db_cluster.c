/* SPDX-License-Identifier: MIT */
#include "common/db_cluster.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static struct db_cluster cluster_of(const char *const (*variables)[2], size_t count)
{
    struct db_cluster cluster = {0};

    for (size_t i = 0; i < count; i++)
        db_cluster_set(&cluster, variables[i][0], variables[i][1]);
    return cluster;
}

static void a_server_without_such_variables_stands_alone(void **state)
{
    const struct db_cluster cluster = {0};

    (void)state;
    assert_string_equal(db_cluster_text(&cluster), "");
}

static void galera_is_known_by_wsrep_on(void **state)
{
    static const char *const on[][2] = {{"wsrep_on", "ON"}};
    static const char *const off[][2] = {{"wsrep_on", "OFF"}};
    struct db_cluster cluster = cluster_of(on, 1);

    (void)state;
    assert_non_null(strstr(db_cluster_text(&cluster), "Galera"));
    cluster = cluster_of(off, 1);
    assert_string_equal(db_cluster_text(&cluster), "");
}

static void group_replication_counts_with_several_primaries_only(void **state)
{
    static const char *const several[][2] = {
        {"group_replication_group_name", "aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa"},
        {"group_replication_single_primary_mode", "OFF"},
    };
    static const char *const one[][2] = {
        {"group_replication_group_name", "aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa"},
        {"group_replication_single_primary_mode", "ON"},
    };
    static const char *const none[][2] = {
        {"group_replication_group_name", ""},
        {"group_replication_single_primary_mode", "OFF"},
    };
    struct db_cluster cluster = cluster_of(several, 2);

    (void)state;
    assert_non_null(strstr(db_cluster_text(&cluster), "several primaries"));
    cluster = cluster_of(one, 2);
    assert_string_equal(db_cluster_text(&cluster), "");
    cluster = cluster_of(none, 2);
    assert_string_equal(db_cluster_text(&cluster), "");
    assert_true(strlen(db_cluster_text(&cluster)) < DB_CLUSTER_SIZE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_server_without_such_variables_stands_alone),
        cmocka_unit_test(galera_is_known_by_wsrep_on),
        cmocka_unit_test(group_replication_counts_with_several_primaries_only),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
