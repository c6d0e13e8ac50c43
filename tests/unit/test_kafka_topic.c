/* SPDX-License-Identifier: MIT */
#include "common/kafka/topic.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void a_limit_that_the_broker_does_not_report_is_kafka_s_default(void **state)
{
    struct kafka_topic_config config;

    (void)state;
    kafka_topic_config_default(&config);
    assert_false(config.known);
    assert_false(config.compacted);
    assert_int_equal(config.retention_ms, 604800000);
    assert_int_equal(config.batch_bytes_max, 1048588);
    assert_int_equal(config.older_ms_max, INT64_MAX);
    assert_int_equal(config.newer_ms_max, 3600000);
}

static void entries_are_taken_by_their_names(void **state)
{
    struct kafka_topic_config config;

    (void)state;
    kafka_topic_config_default(&config);
    kafka_topic_config_set(&config, "cleanup.policy", "delete");
    assert_false(config.compacted);
    kafka_topic_config_set(&config, "cleanup.policy", "compact,delete");
    kafka_topic_config_set(&config, "retention.ms", "-1");
    kafka_topic_config_set(&config, "max.message.bytes", "2048");
    kafka_topic_config_set(&config, "message.timestamp.before.max.ms", "9223372036854775807");
    kafka_topic_config_set(&config, "message.timestamp.after.max.ms", "10");
    kafka_topic_config_set(&config, "retention.bytes", "7");
    assert_true(config.compacted);
    assert_true(config.deletes);
    kafka_topic_config_set(&config, "cleanup.policy", "compact");
    assert_true(config.compacted);
    assert_false(config.deletes);
    assert_int_equal(config.retention_ms, -1);
    assert_int_equal(config.batch_bytes_max, 2048);
    assert_int_equal(config.older_ms_max, INT64_MAX);
    assert_int_equal(config.newer_ms_max, 10);
}

static void a_value_that_is_no_number_changes_nothing(void **state)
{
    static const char *const values[] = {"", "x", "12x", "-2", "9223372036854775808"};

    (void)state;
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        struct kafka_topic_config config;

        kafka_topic_config_default(&config);
        kafka_topic_config_set(&config, "retention.ms", values[i]);
        kafka_topic_config_set(&config, "max.message.bytes", values[i]);
        assert_int_equal(config.retention_ms, 604800000);
        assert_int_equal(config.batch_bytes_max, 1048588);
    }
}

static void a_record_may_be_as_old_as_half_of_the_retention(void **state)
{
    struct kafka_topic_config config;

    (void)state;
    kafka_topic_config_default(&config);
    assert_int_equal(kafka_topic_older_ms_max(&config), 302400000);
    config.retention_ms = -1;
    assert_int_equal(kafka_topic_older_ms_max(&config), INT64_MAX);
    config.older_ms_max = 1000;
    assert_int_equal(kafka_topic_older_ms_max(&config), 500);
    config.retention_ms = 0;
    assert_int_equal(kafka_topic_older_ms_max(&config), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_limit_that_the_broker_does_not_report_is_kafka_s_default),
        cmocka_unit_test(entries_are_taken_by_their_names),
        cmocka_unit_test(a_record_may_be_as_old_as_half_of_the_retention),
        cmocka_unit_test(a_value_that_is_no_number_changes_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
