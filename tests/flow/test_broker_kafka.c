/* SPDX-License-Identifier: MIT */
/* The relay's producer on librdkafka's in-process broker. */
#include "common/kafka/kafka.h"
#include "outbox/relay/broker_kafka.h"
#include "tests/flow/mock_kafka.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#define TOPIC "vote-events"
#define ROWS 2
#define PRODUCE_REQUEST 0 /* its number in the protocol */
#define POLLS_MAX 3000    /* 30 s */

struct fixture {
    struct mock_kafka mock;
    struct settings settings;
    struct broker_kafka kafka;
    struct broker broker;
    enum rc reports[ROWS];
    int report_count;
};

static int setup(void **state)
{
    static const struct lane_settings lane = {.name = "outbox", .table = "outbox"};
    static struct fixture fixture;
    struct settings *settings = &fixture.settings;

    memset(&fixture, 0, sizeof(fixture));
    mock_kafka_begin(&fixture.mock, settings);
    mock_kafka_add_topic(&fixture.mock, TOPIC);
    settings->relay.lease_ms = 15000;
    settings->relay.send_timeout_ms = 8000;
    snprintf(settings->relay.ce_source, sizeof(settings->relay.ce_source), "test");
    mock_kafka_set(settings, "linger.ms", "0");
    mock_kafka_set(settings, "batch.num.messages", "1");
    broker_kafka_open(&fixture.kafka, &lane, settings, -1);
    fixture.broker = broker_kafka_ops(&fixture.kafka);
    *state = &fixture;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *fixture = *state;

    broker_kafka_close(&fixture->kafka);
    mock_kafka_end(&fixture->mock);
    return 0;
}

static struct bytes bytes_of(const char *text)
{
    return (struct bytes){.data = text, .len = strlen(text)};
}

static void send_row(struct fixture *fixture, int64_t seq)
{
    struct relay_row row = {
        .seq = seq,
        .table_seq = seq,
        .id = bytes_of("01890000-0000-7000-8000-000000000001"),
        .aggregate_type = bytes_of("vote"),
        .aggregate_id = bytes_of("1"),
        .type = bytes_of("VoteChanged"),
        .payload = bytes_of("{}"),
    };
    struct err err = {0};

    if (fixture->broker.send(fixture->broker.ctx, TOPIC, 0, &row, (uint64_t)seq, &err) != RC_OK)
        fail_msg("%s", err.text);
}

static void on_report(void *ctx, uint64_t ticket, enum rc rc, const struct err *err)
{
    struct fixture *fixture = ctx;

    (void)err;
    assert_true(ticket < ROWS);
    fixture->reports[ticket] = rc;
    fixture->report_count++;
}

static void await_reports(struct fixture *fixture)
{
    struct err err = {0};

    for (int i = 0; i < POLLS_MAX && fixture->report_count < ROWS; i++) {
        fixture->broker.poll(fixture->broker.ctx, on_report, fixture, &err);
        poll(NULL, 0, 10);
    }
    assert_int_equal(fixture->report_count, ROWS);
}

static int64_t records_in_the_log(struct fixture *fixture)
{
    int64_t low = -1;
    int64_t high = -1;

    assert_int_equal(
        rd_kafka_query_watermark_offsets(fixture->kafka.kafka, TOPIC, 0, &low, &high, 20000),
        RD_KAFKA_RESP_ERR_NO_ERROR);
    return high;
}

static void rows_are_acknowledged_when_they_are_in_the_log(void **state)
{
    struct fixture *fixture = *state;

    for (int64_t seq = 0; seq < ROWS; seq++)
        send_row(fixture, seq);
    await_reports(fixture);
    for (int i = 0; i < ROWS; i++)
        assert_int_equal(fixture->reports[i], RC_OK);
    assert_int_equal(records_in_the_log(fixture), ROWS);
}

/* KAFKA-15591: a partition that has just got its leader may refuse the first request of a producer
 * and take the second one. librdkafka then counts the first as delivered along with the second.
 * Both requests have to be on their way before the first answer: the rows wait for the broker
 * together, however long this thread takes to send them. */
static void a_row_that_only_its_successor_vouches_for_is_not_acknowledged(void **state)
{
    struct fixture *fixture = *state;
    int64_t acknowledged = 0;

    rd_kafka_mock_broker_set_down(fixture->mock.cluster, 1);
    rd_kafka_mock_broker_set_rtt(fixture->mock.cluster, 1, 300);
    rd_kafka_mock_push_request_errors(fixture->mock.cluster, PRODUCE_REQUEST, 1,
                                      RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION);
    for (int64_t seq = 0; seq < ROWS; seq++)
        send_row(fixture, seq);
    rd_kafka_mock_broker_set_up(fixture->mock.cluster, 1);
    await_reports(fixture);
    rd_kafka_mock_broker_set_rtt(fixture->mock.cluster, 1, 0);
    for (int i = 0; i < ROWS; i++)
        acknowledged += fixture->reports[i] == RC_OK;
    assert_true(acknowledged <= records_in_the_log(fixture));
    /* The failure did happen. */
    assert_int_equal(records_in_the_log(fixture), 1);
    assert_int_equal(fixture->reports[0], RC_RETRY);
    assert_int_equal(fixture->reports[1], RC_OK);
}

/* One answer of the broker to one request, and the result of its row. */
static const struct answer {
    rd_kafka_resp_err_t code;
    bool passes;  /* a failure of the broker: the row is acknowledged, or must be sent again */
    bool refused; /* only this row; otherwise the producer is finished, or continues */
} answers[] = {
    {RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE, true, false},
    {RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION, true, false},
    {RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT, true, false},
    /* The broker hangs up. Whether it had the row, librdkafka does not always know, and then it
     * would rather end than leave a gap. */
    {RD_KAFKA_RESP_ERR_NETWORK_EXCEPTION, false, false},
    {RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS, true, false},
    {RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS_AFTER_APPEND, true, false},
    {RD_KAFKA_RESP_ERR_KAFKA_STORAGE_ERROR, true, false},
    /* librdkafka does not send it again: it reports the row and ends, in either order. */
    {RD_KAFKA_RESP_ERR_THROTTLING_QUOTA_EXCEEDED, false, false},
    {RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE, false, true},
    {RD_KAFKA_RESP_ERR_RECORD_LIST_TOO_LARGE, false, true},
    {RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED, false, true},
    {RD_KAFKA_RESP_ERR_INVALID_RECORD, false, true},
    {RD_KAFKA_RESP_ERR_POLICY_VIOLATION, false, true},
    {RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED, false, false},
    {RD_KAFKA_RESP_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER, false, false},
    {RD_KAFKA_RESP_ERR_INVALID_PRODUCER_EPOCH, false, false},
    {RD_KAFKA_RESP_ERR_INVALID_PRODUCER_ID_MAPPING, false, false},
};

/* Until the row is reported or the producer is at its end, which is RC_FATAL. A refusal makes both,
 * in either order. */
static enum rc send_and_await(struct fixture *fixture, bool refused)
{
    struct err err = {0};
    enum rc rc = RC_OK;

    fixture->report_count = 0;
    send_row(fixture, 0);
    for (int i = 0; i < POLLS_MAX && fixture->report_count == 0; i++) {
        if (rc == RC_FATAL && !refused)
            break;
        rc = fixture->broker.poll(fixture->broker.ctx, on_report, fixture, &err);
        poll(NULL, 0, 10);
    }
    if (fixture->report_count > 0)
        return fixture->reports[0];
    assert_int_equal(rc, RC_FATAL);
    return rc;
}

static void every_answer_of_the_broker_means_one_thing(void **state)
{
    struct fixture *fixture = *state;
    struct err err = {0};

    for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
        const struct answer *answer = &answers[i];
        int64_t before;
        enum rc rc;

        fixture->broker.reset(fixture->broker.ctx);
        assert_int_equal(fixture->broker.topic_open(fixture->broker.ctx, TOPIC, 0, &err), RC_OK);
        before = records_in_the_log(fixture);
        rd_kafka_mock_push_request_errors(fixture->mock.cluster, PRODUCE_REQUEST, 1, answer->code);
        rc = send_and_await(fixture, answer->refused);
        if (answer->refused != (rc == RC_REJECT) || (answer->passes && rc == RC_FATAL))
            fail_msg("%s made %s", rd_kafka_err2name(answer->code), rc_name(rc));
        /* Exactly the records of the log are acknowledged. */
        if (rc == RC_OK)
            assert_int_equal(records_in_the_log(fixture), before + 1);
        rd_kafka_mock_clear_request_errors(fixture->mock.cluster, PRODUCE_REQUEST);
        /* A new producer is always of use. */
        fixture->broker.reset(fixture->broker.ctx);
        assert_int_equal(fixture->broker.topic_open(fixture->broker.ctx, TOPIC, 0, &err), RC_OK);
        assert_int_equal(send_and_await(fixture, false), RC_OK);
    }
}

/* librdkafka drops a record that timed out and sends the younger ones of its key. */
static void a_time_out_of_single_records_is_refused(void **state)
{
    struct fixture *fixture = *state;
    struct err err = {0};

    mock_kafka_set(&fixture->settings, "message.timeout.ms", "5000");
    assert_int_equal(broker_kafka_check(&fixture->settings, &err), RC_REJECT);
    assert_non_null(strstr(err.text, "message.timeout.ms"));
    assert_non_null(strstr(err.text, "relay.send_timeout_ms"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_answer_of_the_broker_means_one_thing, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_time_out_of_single_records_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(rows_are_acknowledged_when_they_are_in_the_log, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(
            a_row_that_only_its_successor_vouches_for_is_not_acknowledged, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
