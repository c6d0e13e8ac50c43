/* SPDX-License-Identifier: MIT */
#include "schema/migrate/migrate.h"

#include "schema/migrate/migration.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static struct settings settings;

static void settings_reset(void)
{
    memset(&settings, 0, sizeof(settings));
    snprintf(settings.mysql.host, sizeof(settings.mysql.host), "h");
    snprintf(settings.mysql.database, sizeof(settings.mysql.database), "d");
    settings.mysql.port = 3306;
    settings.sink = settings.mysql;
}

static void one_database_is_for_both_sides(void **state)
{
    struct migrate_target targets[MIGRATE_TARGETS_MAX];

    (void)state;
    settings_reset();
    snprintf(settings.sink.user, sizeof(settings.sink.user), "another account");
    assert_int_equal(migrate_targets(&settings, targets), 1);
    assert_int_equal(targets[0].sides, MIGRATION_OUTBOX | MIGRATION_VOTES | MIGRATION_SINK);
    assert_ptr_equal(targets[0].settings, &settings.mysql);
    assert_string_equal(targets[0].place, "database d at h:3306");
}

static void two_databases_have_a_side_each(void **state)
{
    struct migrate_target targets[MIGRATE_TARGETS_MAX];

    (void)state;
    settings_reset();
    snprintf(settings.sink.database, sizeof(settings.sink.database), "e");
    assert_int_equal(migrate_targets(&settings, targets), 2);
    assert_int_equal(targets[0].sides, MIGRATION_OUTBOX | MIGRATION_VOTES);
    assert_ptr_equal(targets[0].settings, &settings.mysql);
    assert_int_equal(targets[1].sides, MIGRATION_SINK);
    assert_ptr_equal(targets[1].settings, &settings.sink);
    assert_string_equal(targets[1].place, "database e at h:3306");
    settings_reset();
    settings.sink.port = 3307;
    assert_int_equal(migrate_targets(&settings, targets), 2);
    settings_reset();
    snprintf(settings.sink.host, sizeof(settings.sink.host), "g");
    assert_int_equal(migrate_targets(&settings, targets), 2);
}

static void a_socket_alone_names_the_target(void **state)
{
    struct migrate_target targets[MIGRATE_TARGETS_MAX];

    (void)state;
    settings_reset();
    snprintf(settings.mysql.socket, sizeof(settings.mysql.socket), "/run/s");
    assert_int_equal(migrate_targets(&settings, targets), 2);
    settings.sink = settings.mysql;
    settings.sink.port = 3307;
    assert_int_equal(migrate_targets(&settings, targets), 1);
    assert_string_equal(targets[0].place, "database d at /run/s");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_database_is_for_both_sides),
        cmocka_unit_test(two_databases_have_a_side_each),
        cmocka_unit_test(a_socket_alone_names_the_target),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
