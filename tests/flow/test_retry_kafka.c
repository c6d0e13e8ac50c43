/* SPDX-License-Identifier: MIT */
/* The retry queue's handler `kafka` on librdkafka's in-process broker. */
#include "common/os.h"
#include "outbox/retry/handlers/kafka_handler.h"
#include "tests/flow/mock_kafka.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define TOPIC "orders"
#define PRODUCE_REQUEST 0 /* its number in the protocol */
#define WORKERS 2
#define LONG_MS 20000

struct fixture {
    struct mock_kafka mock;
    struct settings settings;
    struct stop stop;
    struct retry_handler_env env;
    void *handler;
    atomic_llong lease_until_ms; /* of worker 0 */
};

static atomic_llong far_lease; /* of all that no test shortens */

static int setup(void **state)
{
    static struct fixture fixture;
    struct settings *settings = &fixture.settings;
    struct err err = {0};

    memset(&fixture, 0, sizeof(fixture));
    atomic_store(&far_lease, os_now_ms() + (int64_t)10 * LONG_MS);
    mock_kafka_begin(&fixture.mock, settings);
    mock_kafka_add_topic(&fixture.mock, TOPIC);
    settings->relay.send_timeout_ms = LONG_MS;
    assert_int_equal(stop_init(&fixture.stop, &err), RC_OK);
    fixture.env = (struct retry_handler_env){
        .settings = settings, .stop = &fixture.stop, .instance = "test", .workers = WORKERS};
    assert_int_equal(retry_kafka_handler.open(&fixture.handler, &fixture.env, &err), RC_OK);
    *state = &fixture;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *fixture = *state;

    retry_kafka_handler.close(fixture->handler);
    stop_done(&fixture->stop);
    mock_kafka_end(&fixture->mock);
    return 0;
}

static struct retry_job job_of(const char *options, const char *params)
{
    return (struct retry_job){
        .id = 1,
        .group = "default",
        .scene = "test",
        .idempotency_key = "k",
        .options = options,
        .params = params,
        .params_len = params ? strlen(params) : 0,
        .params_type = "application/json",
        .attempt = 3,
        .lease_until_ms = &far_lease,
    };
}

static struct attempt_result run_as(struct fixture *fixture, size_t worker,
                                    const struct retry_job *job)
{
    struct buf result = {0};
    struct attempt_result attempt = {.delay_ms = ATTEMPT_NO_DELAY, .result = &result};

    retry_kafka_handler.run(fixture->handler, worker, job, &attempt);
    assert_int_equal(result.len, 0);
    buf_done(&result);
    return attempt;
}

static struct attempt_result run(struct fixture *fixture, const struct retry_job *job)
{
    return run_as(fixture, 0, job);
}

static void assert_done(const struct attempt_result *attempt)
{
    if (attempt->end != ATTEMPT_DONE)
        fail_msg("%s", attempt->err.text);
}

static rd_kafka_t *reader_open(struct fixture *fixture)
{
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(1);
    rd_kafka_t *reader;

    rd_kafka_conf_set(conf, "bootstrap.servers",
                      rd_kafka_mock_cluster_bootstraps(fixture->mock.cluster), NULL, 0);
    rd_kafka_conf_set(conf, "group.id", "test", NULL, 0);
    reader = rd_kafka_new(RD_KAFKA_CONSUMER, conf, NULL, 0);
    assert_non_null(reader);
    rd_kafka_topic_partition_list_add(list, TOPIC, 0)->offset = 0;
    assert_int_equal(rd_kafka_assign(reader, list), RD_KAFKA_RESP_ERR_NO_ERROR);
    rd_kafka_topic_partition_list_destroy(list);
    return reader;
}

static int64_t records_in_the_log(struct fixture *fixture)
{
    rd_kafka_t *reader = reader_open(fixture);
    int64_t low = -1;
    int64_t high = -1;

    assert_int_equal(rd_kafka_query_watermark_offsets(reader, TOPIC, 0, &low, &high, LONG_MS),
                     RD_KAFKA_RESP_ERR_NO_ERROR);
    rd_kafka_destroy(reader);
    return high;
}

static void assert_header(const rd_kafka_headers_t *headers, size_t at, const char *name,
                          const char *value)
{
    const char *got_name;
    const void *got;
    size_t len;

    assert_int_equal(rd_kafka_header_get_all(headers, at, &got_name, &got, &len),
                     RD_KAFKA_RESP_ERR_NO_ERROR);
    assert_string_equal(got_name, name);
    assert_int_equal(len, strlen(value));
    assert_memory_equal(got, value, len);
}

static void the_record_follows_the_options(void **state)
{
    struct fixture *fixture = *state;
    struct retry_job job =
        job_of("{\"topic\": \"orders\", \"key\": \"c7\", \"timestampMs\": 1700000000123,"
               " \"headers\": [[\"id\", \"x\"], [\"tallybox-attempt\", \"9\"],"
               " [\"b\", {\"hex\": \"6162\"}]]}",
               "{\"n\": 1}");
    struct attempt_result attempt = run(fixture, &job);
    rd_kafka_t *reader = reader_open(fixture);
    rd_kafka_message_t *message;
    rd_kafka_headers_t *headers;
    rd_kafka_timestamp_type_t type;

    assert_done(&attempt);
    message = rd_kafka_consumer_poll(reader, LONG_MS);
    assert_non_null(message);
    assert_int_equal(message->err, RD_KAFKA_RESP_ERR_NO_ERROR);
    assert_int_equal(message->key_len, 2);
    assert_memory_equal(message->key, "c7", 2);
    assert_int_equal(message->len, job.params_len);
    assert_memory_equal(message->payload, job.params, job.params_len);
    assert_int_equal(rd_kafka_message_timestamp(message, &type), INT64_C(1700000000123));
    assert_int_equal(rd_kafka_message_headers(message, &headers), RD_KAFKA_RESP_ERR_NO_ERROR);
    assert_int_equal(rd_kafka_header_cnt(headers), 4);
    assert_header(headers, 0, "id", "x");
    assert_header(headers, 1, "b", "ab");
    assert_header(headers, 2, "tallybox-attempt", "3");
    assert_header(headers, 3, "tallybox-no-retry", "1");
    rd_kafka_message_destroy(message);
    rd_kafka_destroy(reader);
}

static void a_task_without_params_is_a_tombstone(void **state)
{
    struct fixture *fixture = *state;
    struct retry_job job = job_of("{\"topic\": \"orders\", \"keyHex\": \"00ff\"}", NULL);
    struct attempt_result attempt = run(fixture, &job);
    rd_kafka_t *reader = reader_open(fixture);
    rd_kafka_message_t *message;

    assert_done(&attempt);
    message = rd_kafka_consumer_poll(reader, LONG_MS);
    assert_non_null(message);
    assert_null(message->payload);
    assert_int_equal(message->key_len, 2);
    assert_memory_equal(message->key, "\x00\xff", 2);
    rd_kafka_message_destroy(message);
    rd_kafka_destroy(reader);
}

/* One answer of the broker, and the result of the task. */
static const struct answer {
    rd_kafka_resp_err_t code;
    bool done; /* librdkafka sends it again by itself */
    enum fault_class fault;
} answers[] = {
    {RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS, true, FAULT_CLASS_TRANSIENT},
    {RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION, true, FAULT_CLASS_TRANSIENT},
    {RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE, false, FAULT_CLASS_REFUSED},
    {RD_KAFKA_RESP_ERR_INVALID_RECORD, false, FAULT_CLASS_REFUSED},
    {RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED, false, FAULT_CLASS_OURS},
    /* These finish the producer; a new one sends it. */
    {RD_KAFKA_RESP_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER, true, FAULT_CLASS_TRANSIENT},
    {RD_KAFKA_RESP_ERR_INVALID_PRODUCER_EPOCH, true, FAULT_CLASS_TRANSIENT},
};

static void every_answer_of_the_broker_has_its_class(void **state)
{
    struct fixture *fixture = *state;

    for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
        const struct answer *answer = &answers[i];
        struct retry_job job = job_of("{\"topic\": \"orders\", \"key\": \"c7\"}", "{}");
        struct attempt_result attempt;

        rd_kafka_mock_push_request_errors(fixture->mock.cluster, PRODUCE_REQUEST, 1, answer->code);
        attempt = run(fixture, &job);
        if (answer->done != (attempt.end == ATTEMPT_DONE))
            fail_msg("%s: %s", rd_kafka_err2name(answer->code), attempt.err.text);
        if (!answer->done) {
            assert_int_equal(attempt.end, ATTEMPT_FAILED);
            assert_int_equal(attempt.source, FAULT_SOURCE_KAFKA);
            assert_int_equal(attempt.code, answer->code);
            assert_int_equal(attempt.fault, answer->fault);
        }
        rd_kafka_mock_clear_request_errors(fixture->mock.cluster, PRODUCE_REQUEST);
        job = job_of("{\"topic\": \"orders\", \"key\": \"c7\"}", "{}");
        attempt = run(fixture, &job);
        assert_done(&attempt);
    }
}

static void options_that_make_no_record_are_refused(void **state)
{
    struct fixture *fixture = *state;
    struct retry_job job = job_of("{\"topic\": \"a b\"}", "{}");
    struct attempt_result attempt = run(fixture, &job);
    struct buf name = {0};
    struct err err = {0};

    assert_int_equal(attempt.end, ATTEMPT_FAILED);
    assert_int_equal(attempt.source, FAULT_SOURCE_PLAIN);
    assert_int_equal(attempt.fault, FAULT_CLASS_REFUSED);
    assert_int_equal(retry_kafka_handler.check(NULL, &job, &err), RC_REJECT);
    assert_string_equal(err.text, attempt.err.text);
    job = job_of("{\"topic\": \"orders\"}", NULL);
    assert_int_equal(retry_kafka_handler.check(NULL, &job, &err), RC_OK);
    retry_kafka_handler.destination(NULL, &job, &name);
    assert_string_equal(buf_text(&name), "kafka:orders");
    buf_done(&name);
}

/* The check refuses what the run would refuse. */
static void a_record_above_the_limit_is_refused_by_the_check(void **state)
{
    static const char *const options[] = {"{\"topic\": \"orders\", \"key\": \"k7\"}",
                                          "{\"topic\": \"orders\", \"keyHex\": \"6b37\"}"};
    struct settings settings = {.relay.row_bytes_max = 1024};
    struct retry_handlers all = {.settings = &settings};
    static char params[1024];
    struct err err = {0};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct retry_job job = job_of(options[i], NULL);

        job.params = params;
        job.params_len = 1022;
        assert_int_equal(retry_kafka_handler.check(&all, &job, &err), RC_OK);
        job.params_len = 1023;
        assert_int_equal(retry_kafka_handler.check(&all, &job, &err), RC_REJECT);
        assert_string_equal(err.text, "key and value have 1025 bytes, relay.row_bytes_max is 1024");
        all.settings = NULL;
        assert_int_equal(retry_kafka_handler.check(&all, &job, &err), RC_OK);
        all.settings = &settings;
    }
}

static struct attempt_result run_leased(struct fixture *fixture, struct retry_job *job,
                                        int64_t lease_ms)
{
    atomic_store(&fixture->lease_until_ms, os_now_ms() + lease_ms);
    job->lease_until_ms = &fixture->lease_until_ms;
    return run(fixture, job);
}

/* A record without an answer within the lease is not sent when the broker is available again: its
 * key may have continued. */
static void a_record_whose_lease_ran_out_is_not_sent_later(void **state)
{
    struct fixture *fixture = *state;
    struct retry_job job = job_of("{\"topic\": \"orders\", \"key\": \"c7\"}", "first");
    struct attempt_result attempt = run(fixture, &job);

    assert_done(&attempt);
    rd_kafka_mock_broker_set_down(fixture->mock.cluster, 1);
    attempt = run_leased(fixture, &job, 700);
    assert_int_equal(attempt.end, ATTEMPT_CUT);
    assert_non_null(strstr(attempt.err.text, "lease"));
    rd_kafka_mock_broker_set_up(fixture->mock.cluster, 1);
    job = job_of("{\"topic\": \"orders\", \"key\": \"c7\"}", "second");
    attempt = run(fixture, &job);
    assert_done(&attempt);
    assert_int_equal(records_in_the_log(fixture), 2);
}

/* The broker never answers: relay.send_timeout_ms decides, however long the lease is. */
static void a_record_without_an_answer_fails_by_the_send_timeout(void **state)
{
    struct fixture *fixture = *state;
    struct retry_job job = job_of("{\"topic\": \"orders\", \"key\": \"c7\"}", "first");
    struct attempt_result attempt = {.end = ATTEMPT_FAILED};
    int64_t until_ms = os_now_ms() + (int64_t)2 * LONG_MS;
    struct err err = {0};

    retry_kafka_handler.close(fixture->handler);
    fixture->settings.relay.send_timeout_ms = 1000;
    assert_int_equal(retry_kafka_handler.open(&fixture->handler, &fixture->env, &err), RC_OK);
    /* On a busy machine a broker that is there may take longer than that, too. */
    while (attempt.end != ATTEMPT_DONE && os_now_ms() < until_ms)
        attempt = run(fixture, &job);
    assert_done(&attempt);
    rd_kafka_mock_broker_set_down(fixture->mock.cluster, 1);
    attempt = run(fixture, &job);
    assert_int_equal(attempt.end, ATTEMPT_FAILED);
    assert_int_equal(attempt.source, FAULT_SOURCE_KAFKA);
    assert_int_equal(attempt.fault, FAULT_CLASS_TRANSIENT);
    rd_kafka_mock_broker_set_up(fixture->mock.cluster, 1);
}

struct neighbour {
    struct fixture *fixture;
    struct retry_job job;
    struct attempt_result attempt;
    pthread_t thread;
};

static void *neighbour_main(void *arg)
{
    struct neighbour *neighbour = arg;

    neighbour->attempt = run_as(neighbour->fixture, 1, &neighbour->job);
    return NULL;
}

static void neighbour_start(struct neighbour *neighbour, struct fixture *fixture)
{
    neighbour->fixture = fixture;
    neighbour->job = job_of("{\"topic\": \"orders\", \"key\": \"c8\"}", "neighbour");
    assert_int_equal(pthread_create(&neighbour->thread, NULL, neighbour_main, neighbour), 0);
}

/* Slow answers take one worker past its lease, and the producer with it; the other one still has
 * time. */
static void tasks_with_time_left_continue_with_a_new_producer(void **state)
{
    struct fixture *fixture = *state;
    struct neighbour neighbour = {0};
    struct retry_job job = job_of("{\"topic\": \"orders\", \"key\": \"c7\"}", "{}");
    struct attempt_result attempt = run(fixture, &job);

    assert_done(&attempt);
    rd_kafka_mock_broker_push_request_error_rtts(fixture->mock.cluster, 1, PRODUCE_REQUEST, 2,
                                                 RD_KAFKA_RESP_ERR_NO_ERROR, LONG_MS / 2,
                                                 RD_KAFKA_RESP_ERR_NO_ERROR, LONG_MS / 2);
    neighbour_start(&neighbour, fixture);
    attempt = run_leased(fixture, &job, 1000);
    assert_int_equal(attempt.end, ATTEMPT_CUT);
    assert_int_equal(pthread_join(neighbour.thread, NULL), 0);
    assert_done(&neighbour.attempt);
}

static void a_stop_cuts_the_wait(void **state)
{
    struct fixture *fixture = *state;
    struct neighbour neighbour = {0};
    struct retry_job job = job_of("{\"topic\": \"orders\", \"key\": \"c7\"}", "{}");
    struct attempt_result attempt = run(fixture, &job);
    int64_t began_ms;

    assert_done(&attempt);
    rd_kafka_mock_broker_set_down(fixture->mock.cluster, 1);
    neighbour_start(&neighbour, fixture);
    began_ms = os_now_ms();
    stop_request(&fixture->stop);
    assert_int_equal(pthread_join(neighbour.thread, NULL), 0);
    assert_int_equal(neighbour.attempt.end, ATTEMPT_CUT);
    assert_true(os_now_ms() - began_ms < LONG_MS / 2);
    /* And nothing is begun after it. */
    attempt = run(fixture, &job);
    assert_int_equal(attempt.end, ATTEMPT_CUT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_record_follows_the_options, setup, teardown),
        cmocka_unit_test_setup_teardown(a_task_without_params_is_a_tombstone, setup, teardown),
        cmocka_unit_test_setup_teardown(every_answer_of_the_broker_has_its_class, setup, teardown),
        cmocka_unit_test_setup_teardown(options_that_make_no_record_are_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(a_record_above_the_limit_is_refused_by_the_check, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_record_whose_lease_ran_out_is_not_sent_later, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_record_without_an_answer_fails_by_the_send_timeout, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(tasks_with_time_left_continue_with_a_new_producer, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_stop_cuts_the_wait, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
