/* SPDX-License-Identifier: MIT */
/* A broker of librdkafka's mock cluster, and the settings of a program that uses it. */
#ifndef TESTS_FLOW_MOCK_KAFKA_H
#define TESTS_FLOW_MOCK_KAFKA_H

#include "common/config/settings.h"

#include <librdkafka/rdkafka.h>
#include <librdkafka/rdkafka_mock.h>

struct mock_kafka {
    rd_kafka_t *host;
    rd_kafka_mock_cluster_t *cluster;
};

/* Starts it, and adds to zeroed settings how it is reached, and that its topics have one partition.
 * Fails the test when it cannot. */
void mock_kafka_begin(struct mock_kafka *mock, struct settings *settings);
void mock_kafka_end(struct mock_kafka *mock);

/* With one partition. */
void mock_kafka_add_topic(struct mock_kafka *mock, const char *name);

/* Adds a property of [kafka]. */
void mock_kafka_set(struct settings *settings, const char *name, const char *value);

#endif
