/* SPDX-License-Identifier: MIT */
/* The check of a group's members against librdkafka's in-process brokers, which do not know the
 * request that describes a group. */
#include "common/os.h"
#include "consumer/ingest/group_check_kafka.h"

#include <librdkafka/rdkafka.h>
#include <librdkafka/rdkafka_mock.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cmocka.h>

#define GROUP "votes"
#define BROKERS 2
#define COORDINATOR 2
#define OUTAGE_MS 5000 /* longer than a query waits */
#define WAIT_MS 60000

/* An older library cannot ask. */
#define WHILE_AWAY (RD_KAFKA_VERSION >= 0x020300ff ? RC_RETRY : RC_OK)

struct fixture {
    rd_kafka_t *host; /* runs the brokers */
    rd_kafka_mock_cluster_t *cluster;
    rd_kafka_t *member;
    struct group_check check;
    int wakeup_fd;
};

static void set_value(rd_kafka_conf_t *conf, const char *name, const char *value)
{
    char text[256];

    if (rd_kafka_conf_set(conf, name, value, text, sizeof(text)) != RD_KAFKA_CONF_OK)
        fail_msg("%s", text);
}

static int setup(void **state)
{
    static struct fixture fixture;
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    char text[256];

    fixture.host = rd_kafka_new(RD_KAFKA_PRODUCER, NULL, text, sizeof(text));
    fixture.cluster = rd_kafka_mock_cluster_new(fixture.host, BROKERS);
    rd_kafka_mock_coordinator_set(fixture.cluster, "group", GROUP, COORDINATOR);
    set_value(conf, "bootstrap.servers", rd_kafka_mock_cluster_bootstraps(fixture.cluster));
    set_value(conf, "group.id", GROUP);
    fixture.member = rd_kafka_new(RD_KAFKA_CONSUMER, conf, text, sizeof(text));
    assert_non_null(fixture.member);
    rd_kafka_poll_set_consumer(fixture.member);
    fixture.wakeup_fd = eventfd(0, EFD_NONBLOCK);
    group_check_init(&fixture.check, fixture.member, GROUP, "aaaa0001", fixture.wakeup_fd);
    *state = &fixture;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *fixture = *state;

    group_check_done(&fixture->check);
    rd_kafka_destroy(fixture->member);
    rd_kafka_mock_cluster_destroy(fixture->cluster);
    rd_kafka_destroy(fixture->host);
    close(fixture->wakeup_fd);
    return 0;
}

/* These brokers name no controller, so they do not answer who the brokers are. */
static void know_coordinator(struct fixture *fixture)
{
    if (fixture->check.pending == 0)
        fixture->check.coordinator = COORDINATOR;
}

/* Polls up to the first answer, and not longer than wait_ms. */
static enum rc poll_check(struct fixture *fixture, bool reachable, int64_t wait_ms)
{
    int64_t until_ms = os_now_ms() + wait_ms;
    enum rc rc = RC_RETRY;

    while (rc == RC_RETRY && os_now_ms() < until_ms) {
        rd_kafka_message_t *message = rd_kafka_consumer_poll(fixture->member, 10);

        if (message)
            rd_kafka_message_destroy(message);
        know_coordinator(fixture);
        rc = group_check_poll(&fixture->check, reachable, os_now_ms());
    }
    return rc;
}

static void a_broker_that_does_not_know_the_request_gives_no_reason_to_wait(void **state)
{
    struct fixture *fixture = *state;

    assert_int_equal(poll_check(fixture, false, WAIT_MS), RC_OK);
    assert_false(fixture->check.foreign);
}

/* librdkafka up to 2.14.2 uses freed memory here if it looks for the coordinator itself. */
static void a_coordinator_may_come_after_the_time_of_the_query(void **state)
{
    struct fixture *fixture = *state;

    rd_kafka_mock_broker_set_down(fixture->cluster, COORDINATOR);
    assert_int_equal(poll_check(fixture, false, OUTAGE_MS), WHILE_AWAY);
    rd_kafka_mock_broker_set_up(fixture->cluster, COORDINATOR);
    assert_int_equal(poll_check(fixture, false, WAIT_MS), RC_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            a_broker_that_does_not_know_the_request_gives_no_reason_to_wait, setup, teardown),
        cmocka_unit_test_setup_teardown(a_coordinator_may_come_after_the_time_of_the_query, setup,
                                        teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
