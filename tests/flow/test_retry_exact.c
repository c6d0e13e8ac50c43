/* SPDX-License-Identifier: MIT */
/* The tasks of rows of a lane that publishes exactly once, on librdkafka's in-process broker. It
 * has no markers of transactions, so a record of an aborted one is seen; no test here leaves a list
 * behind that was aborted. Invariant Q14. */
#include "common/os.h"
#include "outbox/relay/exact/position_record.h"
#include "outbox/relay/exact/position_topic_kafka.h"
#include "outbox/relay/exact/published_tasks.h"
#include "outbox/retry/handlers/kafka_handler.h"
#include "tests/flow/mock_kafka.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define TOPIC "orders"
#define POSITIONS "positions"
#define LANE "lane-1"
#define LIST LANE "-retry-3"
#define SHARD 3
#define PRODUCE_REQUEST 0 /* their numbers in the protocol */
#define INIT_REQUEST 22
#define END_REQUEST 26
#define PROCESSES 2
#define LONG_MS 20000

struct fixture {
    struct mock_kafka mock;
    struct settings settings;
    struct stop stop;
    struct retry_handler_env env;
    void *handlers[PROCESSES];
    atomic_llong lease_until_ms;
};

static int setup(void **state)
{
    static struct fixture fixture;
    struct settings *settings = &fixture.settings;
    struct err err = {0};

    memset(&fixture, 0, sizeof(fixture));
    mock_kafka_begin(&fixture.mock, settings);
    mock_kafka_add_topic(&fixture.mock, TOPIC);
    mock_kafka_add_topic(&fixture.mock, POSITIONS);
    settings->relay.send_timeout_ms = LONG_MS;
    snprintf(settings->relay.positions_topic, sizeof(settings->relay.positions_topic), POSITIONS);
    settings->retry.lease_ms = LONG_MS;
    assert_int_equal(stop_init(&fixture.stop, &err), RC_OK);
    fixture.env = (struct retry_handler_env){
        .settings = settings, .stop = &fixture.stop, .instance = "test", .workers = 1};
    for (size_t i = 0; i < PROCESSES; i++)
        assert_int_equal(retry_kafka_handler.open(&fixture.handlers[i], &fixture.env, &err), RC_OK);
    *state = &fixture;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *fixture = *state;

    for (size_t i = 0; i < PROCESSES; i++)
        retry_kafka_handler.close(fixture->handlers[i]);
    stop_done(&fixture->stop);
    mock_kafka_end(&fixture->mock);
    return 0;
}

static void kill_process(struct fixture *fixture, size_t process)
{
    struct err err = {0};

    retry_kafka_handler.close(fixture->handlers[process]);
    assert_int_equal(retry_kafka_handler.open(&fixture->handlers[process], &fixture->env, &err),
                     RC_OK);
}

/* As the relay commits it. */
static void put_position(struct fixture *fixture, const struct position_record *record)
{
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    struct buf text = {0};
    rd_kafka_topic_t *topic;
    rd_kafka_t *kafka;

    rd_kafka_conf_set(conf, "bootstrap.servers",
                      rd_kafka_mock_cluster_bootstraps(fixture->mock.cluster), NULL, 0);
    kafka = rd_kafka_new(RD_KAFKA_PRODUCER, conf, NULL, 0);
    assert_non_null(kafka);
    position_record_put(&text, record);
    topic = rd_kafka_topic_new(kafka, POSITIONS, NULL);
    assert_non_null(topic);
    assert_int_equal(rd_kafka_produce(topic, RD_KAFKA_PARTITION_UA, RD_KAFKA_MSG_F_COPY, text.data,
                                      text.len, LANE, strlen(LANE), NULL),
                     0);
    assert_int_equal(rd_kafka_flush(kafka, LONG_MS), RD_KAFKA_RESP_ERR_NO_ERROR);
    rd_kafka_topic_destroy(topic);
    rd_kafka_destroy(kafka);
    buf_done(&text);
}

/* Epoch 5, the term 10, up to this row. */
static void commit_up_to(struct fixture *fixture, uint64_t row)
{
    const struct position_record record = {.epoch = 5, .first = 10, .number = 11, .row = row};

    put_position(fixture, &record);
}

/* A task of this row, which was moved in epoch 5 and the term 10. */
static struct attempt_result run_as(struct fixture *fixture, size_t process, int64_t id,
                                    uint64_t row)
{
    char options[256];
    char key[32];
    struct buf result = {0};
    struct attempt_result attempt = {.delay_ms = ATTEMPT_NO_DELAY, .result = &result};
    struct retry_job job = {
        .id = id,
        .group = "outbox",
        .scene = "publish",
        .of_relay = true,
        .shard = SHARD,
        .idempotency_key = key,
        .options = options,
        .params = "{}",
        .params_len = 2,
        .params_type = "application/json",
        .attempt = 1,
        .lease_until_ms = &fixture->lease_until_ms,
    };

    snprintf(key, sizeof(key), "event-%" PRId64, id);
    snprintf(options, sizeof(options),
             "{\"topic\": \"orders\", \"key\": \"c7\", \"transaction\": {\"lane\": \"" LANE
             "\", \"epoch\": 5, \"term\": 10, \"row\": %" PRIu64 "}}",
             row);
    atomic_store(&fixture->lease_until_ms, os_now_ms() + (int64_t)3 * LONG_MS);
    retry_kafka_handler.run(fixture->handlers[process], 0, &job, &attempt);
    buf_done(&result);
    return attempt;
}

static void end_as(struct fixture *fixture, size_t process, int64_t id)
{
    char key[32];
    const struct retry_job job = {
        .id = id,
        .of_relay = true,
        .shard = SHARD,
        .idempotency_key = key,
        .options = "{\"topic\": \"orders\", \"transaction\": {\"lane\": \"" LANE
                   "\", \"epoch\": 5, \"term\": 10, \"row\": 10}}",
    };

    snprintf(key, sizeof(key), "event-%" PRId64, id);
    retry_kafka_handler.ended(fixture->handlers[process], &job);
}

static void assert_done(struct attempt_result attempt)
{
    if (attempt.end != ATTEMPT_DONE)
        fail_msg("%d: %s", (int)attempt.end, attempt.err.text);
}

static void assert_refused(struct attempt_result attempt, const char *text)
{
    assert_int_equal(attempt.end, ATTEMPT_FAILED);
    assert_int_equal(attempt.fault, FAULT_CLASS_REFUSED);
    if (!strstr(attempt.err.text, text))
        fail_msg("%s", attempt.err.text);
}

static void assert_records(struct fixture *fixture, int64_t count)
{
    int64_t low = -1;
    int64_t high = -1;
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    rd_kafka_t *reader;

    rd_kafka_conf_set(conf, "bootstrap.servers",
                      rd_kafka_mock_cluster_bootstraps(fixture->mock.cluster), NULL, 0);
    reader = rd_kafka_new(RD_KAFKA_CONSUMER, conf, NULL, 0);
    assert_non_null(reader);
    assert_int_equal(rd_kafka_query_watermark_offsets(reader, TOPIC, 0, &low, &high, LONG_MS),
                     RD_KAFKA_RESP_ERR_NO_ERROR);
    rd_kafka_destroy(reader);
    assert_int_equal(high, count);
}

static void assert_listed(struct fixture *fixture, size_t count, int64_t id)
{
    static struct published_tasks tasks;
    struct buf text = {0};
    struct err err = {0};
    bool found = false;

    assert_int_equal(position_topic_read_value(&fixture->settings, POSITIONS, LIST,
                                               POSITION_TOPIC_END, os_now_ms() + LONG_MS, &text,
                                               &found, &err),
                     RC_OK);
    assert_true(found);
    assert_int_equal(published_tasks_read(&tasks, (struct bytes){text.data, text.len}, &err),
                     RC_OK);
    assert_int_equal(tasks.count, count);
    assert_int_equal(tasks.tasks[count - 1].id, id);
    buf_done(&text);
}

static void a_task_waits_until_the_position_has_passed_its_row(void **state)
{
    struct fixture *fixture = *state;
    struct attempt_result attempt;

    commit_up_to(fixture, 11);
    attempt = run_as(fixture, 0, 1, 12);
    assert_int_equal(attempt.end, ATTEMPT_SNOOZED);
    assert_true(attempt.waits && attempt.delay_ms > 0);
    assert_records(fixture, 0);
    commit_up_to(fixture, 12);
    assert_done(run_as(fixture, 0, 1, 12));
    assert_records(fixture, 1);
    assert_listed(fixture, 1, 1);
}

/* The relay was killed before the commit. */
static void a_task_whose_row_is_read_again_ends_without_a_record(void **state)
{
    struct fixture *fixture = *state;
    struct position_record record = {
        .epoch = 6, .first = 20, .number = 25, .row = 25, .terms = {{5, 10, 11}}, .term_count = 1};

    put_position(fixture, &record);
    assert_done(run_as(fixture, 0, 1, 12));
    assert_records(fixture, 0);
    assert_done(run_as(fixture, 0, 2, 11));
    assert_records(fixture, 1);
}

static void a_task_is_refused_when_no_record_tells(void **state)
{
    struct fixture *fixture = *state;
    struct position_record record = {.epoch = 6, .first = 20, .number = 25, .row = 25};

    assert_refused(run_as(fixture, 0, 1, 12), "{\"transaction\": null}");
    put_position(fixture, &record);
    assert_refused(run_as(fixture, 0, 1, 12), "{\"transaction\": null}");
    assert_records(fixture, 0);
}

/* Between the commit in Kafka and the end of the task in the database. */
static void a_task_is_not_published_again_after_a_kill(void **state)
{
    struct fixture *fixture = *state;

    commit_up_to(fixture, 20);
    assert_done(run_as(fixture, 0, 1, 12));
    kill_process(fixture, 0);
    assert_done(run_as(fixture, 1, 1, 12));
    kill_process(fixture, 1);
    assert_done(run_as(fixture, 0, 1, 12));
    assert_done(run_as(fixture, 0, 1, 12));
    assert_records(fixture, 1);
    /* After a fail-over another row may have the id. */
    assert_done(run_as(fixture, 0, 2, 12));
    assert_records(fixture, 2);
}

/* The answer to the commit is an error, and the commit has worked, or it has not. */
static void a_commit_without_an_answer_is_looked_up(void **state)
{
    struct fixture *fixture = *state;
    struct attempt_result attempt;

    commit_up_to(fixture, 20);
    assert_done(run_as(fixture, 0, 1, 12));
    end_as(fixture, 0, 1);
    rd_kafka_mock_push_request_errors(fixture->mock.cluster, END_REQUEST, 1,
                                      RD_KAFKA_RESP_ERR_INVALID_TXN_STATE);
    attempt = run_as(fixture, 0, 2, 12);
    assert_int_equal(attempt.end, ATTEMPT_FAILED);
    assert_int_equal(attempt.fault, FAULT_CLASS_TRANSIENT);
    /* This broker has no aborted records: the list has the task. */
    assert_done(run_as(fixture, 0, 2, 12));
    assert_records(fixture, 2);
}

static void an_ended_task_leaves_the_list(void **state)
{
    struct fixture *fixture = *state;

    commit_up_to(fixture, 20);
    for (int64_t id = 1; id <= 3; id++) {
        assert_done(run_as(fixture, 0, id, 12));
        assert_listed(fixture, (size_t)id, id);
    }
    end_as(fixture, 0, 1);
    end_as(fixture, 0, 3);
    assert_done(run_as(fixture, 0, 4, 12));
    assert_listed(fixture, 2, 4);
    assert_records(fixture, 4);
}

/* The lease of a frozen process has expired, and another one has its tasks. This broker fences
 * no producer by itself; tests/e2e/test_exactly_once.py has one that does. */
static void a_fenced_process_gives_the_task_back(void **state)
{
    struct fixture *fixture = *state;
    struct attempt_result attempt;

    commit_up_to(fixture, 20);
    assert_done(run_as(fixture, 0, 1, 12));
    assert_done(run_as(fixture, 1, 1, 12));
    assert_done(run_as(fixture, 1, 2, 12));
    assert_records(fixture, 2);
    rd_kafka_mock_push_request_errors(fixture->mock.cluster, END_REQUEST, 1,
                                      RD_KAFKA_RESP_ERR_PRODUCER_FENCED);
    attempt = run_as(fixture, 0, 3, 12);
    assert_int_equal(attempt.end, ATTEMPT_CUT);
    /* It reads the list again, which has the task: this broker has no aborted records. */
    assert_done(run_as(fixture, 0, 3, 12));
    assert_records(fixture, 3);
}

static void the_task_of_a_refused_record_fails(void **state)
{
    struct fixture *fixture = *state;
    struct attempt_result attempt;

    commit_up_to(fixture, 20);
    assert_done(run_as(fixture, 0, 1, 12));
    rd_kafka_mock_push_request_errors(fixture->mock.cluster, PRODUCE_REQUEST, 2,
                                      RD_KAFKA_RESP_ERR_INVALID_RECORD,
                                      RD_KAFKA_RESP_ERR_INVALID_RECORD);
    attempt = run_as(fixture, 0, 2, 12);
    assert_int_equal(attempt.end, ATTEMPT_FAILED);
    assert_int_equal(attempt.fault, FAULT_CLASS_REFUSED);
    rd_kafka_mock_clear_request_errors(fixture->mock.cluster, PRODUCE_REQUEST);
    assert_done(run_as(fixture, 0, 2, 12));
    assert_records(fixture, 2);
}

static void a_producer_that_may_not_begin_says_so(void **state)
{
    struct fixture *fixture = *state;
    struct attempt_result attempt;

    commit_up_to(fixture, 20);
    rd_kafka_mock_push_request_errors(fixture->mock.cluster, INIT_REQUEST, 1,
                                      RD_KAFKA_RESP_ERR_TRANSACTIONAL_ID_AUTHORIZATION_FAILED);
    attempt = run_as(fixture, 0, 1, 12);
    assert_int_equal(attempt.end, ATTEMPT_FAILED);
    assert_int_equal(attempt.fault, FAULT_CLASS_OURS);
    assert_non_null(strstr(attempt.err.text, "ACLs"));
    assert_done(run_as(fixture, 0, 1, 12));
}

static void a_task_of_an_application_is_refused(void **state)
{
    struct fixture *fixture = *state;
    struct buf result = {0};
    struct attempt_result attempt = {.delay_ms = ATTEMPT_NO_DELAY, .result = &result};
    struct err err = {0};
    struct retry_job job = {
        .id = 1,
        .idempotency_key = "k",
        .options = "{\"topic\": \"orders\", \"transaction\": {\"lane\": \"" LANE
                   "\", \"epoch\": 5, \"term\": 10, \"row\": 10}}",
        .lease_until_ms = &fixture->lease_until_ms,
    };

    retry_kafka_handler.run(fixture->handlers[0], 0, &job, &attempt);
    assert_refused(attempt, "only for the tasks that the relay makes");
    assert_int_equal(retry_kafka_handler.check(NULL, &job, &err), RC_REJECT);
    job.of_relay = true;
    assert_int_equal(retry_kafka_handler.check(NULL, &job, &err), RC_OK);
    job.of_relay = false;
    job.options = "{\"topic\": \"orders\", \"transaction\": null}";
    assert_int_equal(retry_kafka_handler.check(NULL, &job, &err), RC_OK);
    job.options = "{\"topic\": \"orders\", \"transaction\": {\"lane\": \"x\"}}";
    assert_int_equal(retry_kafka_handler.check(NULL, &job, &err), RC_REJECT);
}

static void nothing_is_sent_when_the_process_stops(void **state)
{
    struct fixture *fixture = *state;

    commit_up_to(fixture, 20);
    stop_request(&fixture->stop);
    assert_int_equal(run_as(fixture, 0, 1, 12).end, ATTEMPT_CUT);
    assert_records(fixture, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_task_waits_until_the_position_has_passed_its_row, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_task_whose_row_is_read_again_ends_without_a_record, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_task_is_refused_when_no_record_tells, setup, teardown),
        cmocka_unit_test_setup_teardown(a_task_is_not_published_again_after_a_kill, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_commit_without_an_answer_is_looked_up, setup, teardown),
        cmocka_unit_test_setup_teardown(an_ended_task_leaves_the_list, setup, teardown),
        cmocka_unit_test_setup_teardown(a_fenced_process_gives_the_task_back, setup, teardown),
        cmocka_unit_test_setup_teardown(the_task_of_a_refused_record_fails, setup, teardown),
        cmocka_unit_test_setup_teardown(a_producer_that_may_not_begin_says_so, setup, teardown),
        cmocka_unit_test_setup_teardown(a_task_of_an_application_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(nothing_is_sent_when_the_process_stops, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
