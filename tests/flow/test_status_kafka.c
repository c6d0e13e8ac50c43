/* SPDX-License-Identifier: MIT */
/* What `tallybox status` reads from Kafka, on librdkafka's in-process broker. */
#include "consumer/status/status_kafka.h"

#include <librdkafka/rdkafka.h>
#include <librdkafka/rdkafka_mock.h>

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TOPIC "vote-events"
#define RECORDS 3
#define NOW_MS INT64_C(1767225600000)
#define STALE_MS 60000
#define LIST_OFFSETS 2 /* ApiKey of the protocol */

struct fixture {
    struct settings settings;
    struct status status;
    rd_kafka_t *host;
    rd_kafka_mock_cluster_t *cluster;
};

/* One partition with records that are older than STALE_MS. */
static void produce_records(struct fixture *fixture)
{
    char value[] = "x";
    rd_kafka_vu_t parts[] = {
        {.vtype = RD_KAFKA_VTYPE_TOPIC, .u.cstr = TOPIC},
        {.vtype = RD_KAFKA_VTYPE_PARTITION, .u.i32 = 0},
        {.vtype = RD_KAFKA_VTYPE_VALUE, .u.mem = {value, 1}},
        {.vtype = RD_KAFKA_VTYPE_MSGFLAGS, .u.i = RD_KAFKA_MSG_F_COPY},
        {.vtype = RD_KAFKA_VTYPE_TIMESTAMP, .u.i64 = NOW_MS - INT64_C(2) * STALE_MS},
    };

    for (int i = 0; i < RECORDS; i++)
        assert_null(rd_kafka_produceva(fixture->host, parts, sizeof(parts) / sizeof(parts[0])));
    assert_int_equal(rd_kafka_flush(fixture->host, 10000), RD_KAFKA_RESP_ERR_NO_ERROR);
}

static int open_fixture(void **state)
{
    struct fixture *fixture = calloc(1, sizeof(*fixture));
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    struct kafka_property *property;

    assert_non_null(fixture);
    rd_kafka_conf_set(conf, "test.mock.num.brokers", "1", NULL, 0);
    fixture->host = rd_kafka_new(RD_KAFKA_PRODUCER, conf, NULL, 0);
    assert_non_null(fixture->host);
    fixture->cluster = rd_kafka_handle_mock_cluster(fixture->host);
    rd_kafka_mock_topic_create(fixture->cluster, TOPIC, 1, 1);
    produce_records(fixture);
    property = &fixture->settings.kafka.properties[0];
    fixture->settings.kafka.count = 1;
    snprintf(property->name, sizeof(property->name), "bootstrap.servers");
    snprintf(property->value, sizeof(property->value), "%s",
             rd_kafka_mock_cluster_bootstraps(fixture->cluster));
    snprintf(fixture->settings.consumer.topics, sizeof(fixture->settings.consumer.topics), TOPIC);
    fixture->status.now_ms = NOW_MS;
    fixture->status.stale_ms = STALE_MS;
    *state = fixture;
    return 0;
}

static int close_fixture(void **state)
{
    struct fixture *fixture = *state;

    rd_kafka_destroy(fixture->host);
    free(fixture);
    return 0;
}

static void the_records_that_wait_are_counted(void **state)
{
    struct fixture *fixture = *state;
    const struct status_partition *one = fixture->status.partitions;

    status_kafka_fill(&fixture->status, &fixture->settings);
    assert_string_equal(fixture->status.kafka_fault.err.text, "");
    assert_int_equal(fixture->status.partition_count, 1);
    assert_int_equal(one->high, RECORDS);
    assert_int_equal(status_lag(&fixture->status, one), RECORDS);
    assert_int_equal(one->late, RECORDS);
}

/* The broker answers about both watermarks, and then not about the age of the records. */
static void a_partition_whose_records_have_no_known_age_is_a_fault(void **state)
{
    struct fixture *fixture = *state;
    const struct status_partition *one = fixture->status.partitions;

    rd_kafka_mock_push_request_errors(fixture->cluster, LIST_OFFSETS, 3, RD_KAFKA_RESP_ERR_NO_ERROR,
                                      RD_KAFKA_RESP_ERR_NO_ERROR,
                                      RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED);
    status_kafka_fill(&fixture->status, &fixture->settings);
    assert_int_equal(one->high, RECORDS);
    assert_int_equal(one->late, STATUS_UNKNOWN);
    assert_int_not_equal(fixture->status.kafka_fault.rc, RC_OK);
    if (!strstr(fixture->status.kafka_fault.err.text, "no answer about the age of records"))
        fail_msg("%s", fixture->status.kafka_fault.err.text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_records_that_wait_are_counted, open_fixture,
                                        close_fixture),
        cmocka_unit_test_setup_teardown(a_partition_whose_records_have_no_known_age_is_a_fault,
                                        open_fixture, close_fixture),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
