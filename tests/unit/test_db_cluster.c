/* SPDX-License-Identifier: MIT */
#include "common/db/cluster.h"

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
        db_cluster_take_variable(&cluster, variables[i][0], variables[i][1]);
    return cluster;
}

static void a_server_without_such_variables_is_no_cluster(void **state)
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

/* Percona XtraDB Cluster and other MySQL forks have wsrep_on per session only, so that SHOW GLOBAL
 * VARIABLES has no row of it. */
static void galera_without_a_global_wsrep_on_is_known_by_its_provider(void **state)
{
    static const char *const node[][2] = {
        {"wsrep_provider", "/usr/lib/galera4/libgalera_smm.so"},
        {"wsrep_cluster_address", "gcomm://10.0.0.1,10.0.0.2"},
    };
    static const char *const reversed[][2] = {
        {"WSREP_CLUSTER_ADDRESS", "gcomm://"},
        {"WSREP_PROVIDER", "/usr/lib/galera4/libgalera_smm.so"},
    };
    struct db_cluster cluster = cluster_of(node, 2);

    (void)state;
    assert_non_null(strstr(db_cluster_text(&cluster), "Galera (wsrep_provider"));
    assert_true(strlen(db_cluster_text(&cluster)) < DB_CLUSTER_SIZE);
    cluster = cluster_of(reversed, 2);
    assert_non_null(strstr(db_cluster_text(&cluster), "Galera (wsrep_provider"));
}

static void a_server_without_provider_or_cluster_address_is_no_cluster(void **state)
{
    static const char *const alone[][2][2] = {
        {{"wsrep_provider", "none"}, {"wsrep_cluster_address", "gcomm://10.0.0.1"}},
        {{"wsrep_provider", "NONE"}, {"wsrep_cluster_address", "gcomm://10.0.0.1"}},
        {{"wsrep_provider", ""}, {"wsrep_cluster_address", "gcomm://10.0.0.1"}},
        {{"wsrep_provider", "/usr/lib/libgalera_smm.so"}, {"wsrep_cluster_address", ""}},
    };
    static const char *const mariadb[][2] = {
        {"wsrep_cluster_address", ""},
        {"wsrep_on", "OFF"},
        {"wsrep_provider", "none"},
    };
    struct db_cluster cluster = cluster_of(mariadb, 3);

    (void)state;
    assert_string_equal(db_cluster_text(&cluster), "");
    for (size_t i = 0; i < sizeof(alone) / sizeof(alone[0]); i++) {
        cluster = cluster_of(alone[i], 2);
        assert_string_equal(db_cluster_text(&cluster), "");
    }
}

/* Such a node keeps its own writes to itself, but still applies those of the others. */
static void a_node_with_wsrep_switched_off_has_other_writers_still(void **state)
{
    static const char *const node[][2] = {
        {"wsrep_cluster_address", "gcomm://10.0.0.1"},
        {"wsrep_on", "OFF"},
        {"wsrep_provider", "/usr/lib/galera/libgalera_smm.so"},
    };
    struct db_cluster cluster = cluster_of(node, 3);

    (void)state;
    assert_non_null(strstr(db_cluster_text(&cluster), "Galera"));
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
        cmocka_unit_test(a_server_without_such_variables_is_no_cluster),
        cmocka_unit_test(galera_is_known_by_wsrep_on),
        cmocka_unit_test(galera_without_a_global_wsrep_on_is_known_by_its_provider),
        cmocka_unit_test(a_server_without_provider_or_cluster_address_is_no_cluster),
        cmocka_unit_test(a_node_with_wsrep_switched_off_has_other_writers_still),
        cmocka_unit_test(group_replication_counts_with_several_primaries_only),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
