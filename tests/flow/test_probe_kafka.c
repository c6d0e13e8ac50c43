/* SPDX-License-Identifier: MIT */
/* The relay's probe on librdkafka's in-process broker. */
#include "outbox/relay/probe_kafka.h"

#include "common/os.h"

#include <librdkafka/rdkafka.h>
#include <librdkafka/rdkafka_mock.h>

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#define STEPS_MAX 300
#define BROKER 1
#define RTT_MS 800 /* longer than a step waits */
#define SILENT_MS 3000

static void set_servers(struct settings *settings, const char *servers)
{
    struct kafka_property *property = &settings->kafka.properties[0];

    memset(settings, 0, sizeof(*settings));
    settings->relay.send_timeout_ms = SILENT_MS;
    settings->kafka.count = 1;
    snprintf(property->name, sizeof(property->name), "bootstrap.servers");
    snprintf(property->value, sizeof(property->value), "%s", servers);
}

/* Steps until the probe is in this state; the clock is the test's. */
static void step_until(struct probe_kafka *probe, bool failing, int64_t *now_ms)
{
    for (int i = 0; i < STEPS_MAX && probe_kafka_failing(probe, NULL) != failing; i++) {
        *now_ms += probe_kafka_step(probe, *now_ms);
        poll(NULL, 0, 10);
    }
    assert_int_equal(probe_kafka_failing(probe, NULL), failing);
}

static void a_broker_that_does_not_answer_is_named_after_a_while(void **state)
{
    static struct settings settings;
    struct probe_kafka probe;
    struct err err = {0};
    int64_t now_ms = 1000;

    (void)state;
    set_servers(&settings, "127.0.0.1:1");
    probe_kafka_open(&probe, &settings);
    assert_true(probe_kafka_failing(&probe, &err));
    assert_string_equal(err.text, "not reached yet");
    for (; now_ms < 1000 + SILENT_MS; now_ms += 1000)
        probe_kafka_step(&probe, now_ms);
    probe_kafka_failing(&probe, &err);
    assert_string_equal(err.text, "not reached yet");
    probe_kafka_step(&probe, now_ms);
    assert_true(probe_kafka_failing(&probe, &err));
    if (!strstr(err.text, "no answer from kafka.bootstrap.servers = 127.0.0.1:1: "))
        fail_msg("%s", err.text);
    probe_kafka_close(&probe);
}

static void an_idle_relay_notices_that_the_broker_goes_and_comes(void **state)
{
    static struct settings settings;
    rd_kafka_t *host = rd_kafka_new(RD_KAFKA_PRODUCER, rd_kafka_conf_new(), NULL, 0);
    rd_kafka_mock_cluster_t *cluster = rd_kafka_mock_cluster_new(host, 1);
    struct probe_kafka probe;
    int64_t now_ms = 1000;

    (void)state;
    set_servers(&settings, rd_kafka_mock_cluster_bootstraps(cluster));
    probe_kafka_open(&probe, &settings);
    step_until(&probe, false, &now_ms);
    rd_kafka_mock_broker_set_down(cluster, BROKER);
    step_until(&probe, true, &now_ms);
    rd_kafka_mock_broker_set_up(cluster, BROKER);
    step_until(&probe, false, &now_ms);
    probe_kafka_close(&probe);
    rd_kafka_mock_cluster_destroy(cluster);
    rd_kafka_destroy(host);
}

/* Records are acknowledged by such a broker, so it is not down. */
static void a_slow_broker_answers(void **state)
{
    static struct settings settings;
    rd_kafka_t *host = rd_kafka_new(RD_KAFKA_PRODUCER, rd_kafka_conf_new(), NULL, 0);
    rd_kafka_mock_cluster_t *cluster = rd_kafka_mock_cluster_new(host, 1);
    struct probe_kafka probe;
    int64_t now_ms = 1000;
    int64_t ahead_ms;

    (void)state;
    set_servers(&settings, rd_kafka_mock_cluster_bootstraps(cluster));
    settings.relay.send_timeout_ms = 8000;
    rd_kafka_mock_broker_set_rtt(cluster, BROKER, RTT_MS);
    probe_kafka_open(&probe, &settings);
    step_until(&probe, false, &now_ms);
    /* The probe's clock goes as fast as the broker's, and never back. */
    ahead_ms = now_ms - os_now_ms();
    for (int64_t until_ms = now_ms + INT64_C(10) * RTT_MS; now_ms < until_ms;) {
        now_ms = os_now_ms() + ahead_ms;
        probe_kafka_step(&probe, now_ms);
        assert_false(probe_kafka_failing(&probe, NULL));
        poll(NULL, 0, 100);
    }
    rd_kafka_mock_broker_set_down(cluster, BROKER);
    step_until(&probe, true, &now_ms);
    probe_kafka_close(&probe);
    rd_kafka_mock_cluster_destroy(cluster);
    rd_kafka_destroy(host);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_broker_that_does_not_answer_is_named_after_a_while),
        cmocka_unit_test(an_idle_relay_notices_that_the_broker_goes_and_comes),
        cmocka_unit_test(a_slow_broker_answers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
