/* SPDX-License-Identifier: MIT */
#include "tests/flow/mock_kafka.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>

void mock_kafka_set(struct settings *settings, const char *name, const char *value)
{
    struct kafka_property *property = &settings->kafka.properties[settings->kafka.count++];

    snprintf(property->name, sizeof(property->name), "%s", name);
    snprintf(property->value, sizeof(property->value), "%s", value);
}

void mock_kafka_begin(struct mock_kafka *mock, struct settings *settings)
{
    mock->host = rd_kafka_new(RD_KAFKA_PRODUCER, rd_kafka_conf_new(), NULL, 0);
    assert_non_null(mock->host);
    mock->cluster = rd_kafka_mock_cluster_new(mock->host, 1);
    assert_non_null(mock->cluster);
    settings->relay.row_bytes_max = 1000000;
    settings->relay.topic_partitions = 1;
    settings->relay.topic_replication = -1;
    mock_kafka_set(settings, "bootstrap.servers", rd_kafka_mock_cluster_bootstraps(mock->cluster));
}

void mock_kafka_end(struct mock_kafka *mock)
{
    rd_kafka_mock_cluster_destroy(mock->cluster);
    rd_kafka_destroy(mock->host);
}

void mock_kafka_add_topic(struct mock_kafka *mock, const char *name)
{
    assert_int_equal(rd_kafka_mock_topic_create(mock->cluster, name, 1, 1),
                     RD_KAFKA_RESP_ERR_NO_ERROR);
}
