/* SPDX-License-Identifier: MIT */
#include "common/kafka/kafka.h"
#include "common/kafka/topic.h"
#include "common/os.h"

#include <dirent.h>
#include <librdkafka/rdkafka.h>
#include <librdkafka/rdkafka_mock.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

struct expected {
    rd_kafka_resp_err_t code;
    enum rc rc;
};

static const struct expected table[] = {
    {RD_KAFKA_RESP_ERR_NO_ERROR, RC_OK},
    {RD_KAFKA_RESP_ERR__PARTITION_EOF, RC_OK},
    {RD_KAFKA_RESP_ERR__TRANSPORT, RC_RETRY},
    {RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN, RC_RETRY},
    {RD_KAFKA_RESP_ERR__RESOLVE, RC_RETRY},
    {RD_KAFKA_RESP_ERR__SSL, RC_RETRY},
    {RD_KAFKA_RESP_ERR__AUTHENTICATION, RC_RETRY},
    {RD_KAFKA_RESP_ERR__MSG_TIMED_OUT, RC_RETRY},
    {RD_KAFKA_RESP_ERR__TIMED_OUT, RC_RETRY},
    {RD_KAFKA_RESP_ERR__QUEUE_FULL, RC_RETRY},
    {RD_KAFKA_RESP_ERR__PURGE_QUEUE, RC_RETRY},
    {RD_KAFKA_RESP_ERR__PURGE_INFLIGHT, RC_RETRY},
    {RD_KAFKA_RESP_ERR__MAX_POLL_EXCEEDED, RC_RETRY},
    {RD_KAFKA_RESP_ERR__ASSIGNMENT_LOST, RC_RETRY},
    {RD_KAFKA_RESP_ERR_UNKNOWN, RC_RETRY},
    {RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE, RC_RETRY},
    {RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION, RC_RETRY},
    {RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT, RC_RETRY},
    {RD_KAFKA_RESP_ERR_NETWORK_EXCEPTION, RC_RETRY},
    {RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS, RC_RETRY},
    {RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS_AFTER_APPEND, RC_RETRY},
    {RD_KAFKA_RESP_ERR_COORDINATOR_LOAD_IN_PROGRESS, RC_RETRY},
    {RD_KAFKA_RESP_ERR_COORDINATOR_NOT_AVAILABLE, RC_RETRY},
    {RD_KAFKA_RESP_ERR_NOT_COORDINATOR, RC_RETRY},
    {RD_KAFKA_RESP_ERR_THROTTLING_QUOTA_EXCEEDED, RC_RETRY},
    {RD_KAFKA_RESP_ERR_KAFKA_STORAGE_ERROR, RC_RETRY},
    {RD_KAFKA_RESP_ERR_REBALANCE_IN_PROGRESS, RC_RETRY},
    {RD_KAFKA_RESP_ERR_SASL_AUTHENTICATION_FAILED, RC_RETRY},
    {RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED, RC_RETRY},
    {RD_KAFKA_RESP_ERR_UNSUPPORTED_COMPRESSION_TYPE, RC_RETRY},
    {RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE, RC_REJECT},
    {RD_KAFKA_RESP_ERR_RECORD_LIST_TOO_LARGE, RC_REJECT},
    {RD_KAFKA_RESP_ERR_INVALID_MSG, RC_REJECT},
    {RD_KAFKA_RESP_ERR_INVALID_RECORD, RC_REJECT},
    {RD_KAFKA_RESP_ERR_INVALID_TIMESTAMP, RC_REJECT},
    {RD_KAFKA_RESP_ERR_POLICY_VIOLATION, RC_REJECT},
    {RD_KAFKA_RESP_ERR_TOPIC_EXCEPTION, RC_REJECT},
    {RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED, RC_REJECT},
    {RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC, RC_REJECT},
    {RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION, RC_REJECT},
    {RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART, RC_REJECT},
    {RD_KAFKA_RESP_ERR_OFFSET_OUT_OF_RANGE, RC_REJECT},
    {RD_KAFKA_RESP_ERR__AUTO_OFFSET_RESET, RC_REJECT},
    {RD_KAFKA_RESP_ERR__FATAL, RC_FATAL},
    {RD_KAFKA_RESP_ERR__FENCED, RC_FATAL},
    {RD_KAFKA_RESP_ERR_PRODUCER_FENCED, RC_FATAL},
    {RD_KAFKA_RESP_ERR_INVALID_PRODUCER_EPOCH, RC_FATAL},
    {RD_KAFKA_RESP_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER, RC_FATAL},
    {RD_KAFKA_RESP_ERR_UNKNOWN_PRODUCER_ID, RC_FATAL},
    {RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED, RC_FATAL},
};

static void each_known_code_has_its_class(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        enum rc rc = kafka_classify((int)table[i].code);

        if (rc != table[i].rc)
            fail_msg("%s: %s", rd_kafka_err2name(table[i].code), rc_name(rc));
    }
}

static void an_unknown_code_is_retried(void **state)
{
    (void)state;
    assert_int_equal(kafka_classify(4711), RC_RETRY);
    assert_int_equal(kafka_classify(-4711), RC_RETRY);
}

static void an_error_names_the_call_the_place_and_the_code(void **state)
{
    struct err err = {0};

    (void)state;
    assert_int_equal(
        kafka_fail(&err, RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE, "topic %s", "vote-events"),
        RC_REJECT);
    assert_string_equal(err.text,
                        "topic vote-events: Broker: Message size too large (MSG_SIZE_TOO_LARGE)");
    assert_int_equal(err.code, RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE);
}

static void cooperative_rebalancing_wants_a_sound_version(void **state)
{
    (void)state;
    assert_int_equal(kafka_cooperative(), rd_kafka_version() >= 0x02050000);
}

static struct settings *settings_of(size_t count, const char *const pairs[][2])
{
    static struct settings settings;

    memset(&settings, 0, sizeof(settings));
    for (size_t i = 0; i < count; i++) {
        struct kafka_property *property = &settings.kafka.properties[i];

        snprintf(property->name, sizeof(property->name), "%s", pairs[i][0]);
        snprintf(property->value, sizeof(property->value), "%s", pairs[i][1]);
    }
    settings.kafka.count = count;
    return &settings;
}

static const struct kafka_default defaults[] = {
    {"enable.idempotence", "true", "the relay relies on it"},
    {"acks", "all", "an event is only gone from its table when every replica has it"},
    {"linger.ms", "3", NULL},
};

static enum rc make(rd_kafka_conf_t **conf, enum kafka_role role, size_t count,
                    const char *const pairs[][2], struct err *err)
{
    return kafka_conf_make(conf, settings_of(count, pairs), role, defaults, 3, err);
}

static void assert_property(const rd_kafka_conf_t *conf, const char *name, const char *want)
{
    char value[256] = "";
    size_t size = sizeof(value);

    assert_int_equal(rd_kafka_conf_get(conf, name, value, &size), RD_KAFKA_CONF_OK);
    assert_string_equal(value, want);
}

static void flaws_of_an_old_library_are_listed(void **state)
{
    char text[512];
    char little[16];

    (void)state;
    kafka_version_flaws(0x020002ff, text, sizeof(text));
    assert_non_null(strstr(text, "deleted and made again"));
    assert_non_null(strstr(text, "cooperative rebalances"));
    assert_non_null(strstr(text, "KIP-848"));
    kafka_version_flaws(0x020300ff, text, sizeof(text));
    assert_null(strstr(text, "deleted and made again"));
    assert_non_null(strstr(text, "cooperative rebalances"));
    kafka_version_flaws(0x020500ff, text, sizeof(text));
    assert_null(strstr(text, "cooperative rebalances"));
    kafka_version_flaws(0x020c02ff, text, sizeof(text));
    assert_string_equal(text, "tallybox is not tested with it");
    kafka_version_flaws(0x020d00ff, text, sizeof(text));
    assert_string_equal(text, "");
    kafka_version_flaws(0, little, sizeof(little));
    assert_int_equal(strlen(little), sizeof(little) - 1);
}

static void settings_win_over_defaults(void **state)
{
    static const char *const pairs[][2] = {{"linger.ms", "50"}, {"client.id", "me"}};
    rd_kafka_conf_t *conf;

    (void)state;
    assert_int_equal(make(&conf, KAFKA_PRODUCER, 0, NULL, NULL), RC_OK);
    assert_property(conf, "bootstrap.servers", "127.0.0.1:9092");
    assert_property(conf, "linger.ms", "3");
    rd_kafka_conf_destroy(conf);
    assert_int_equal(make(&conf, KAFKA_PRODUCER, 2, pairs, NULL), RC_OK);
    assert_property(conf, "linger.ms", "50");
    assert_property(conf, "client.id", "me");
    assert_property(conf, "enable.idempotence", "true");
    rd_kafka_conf_destroy(conf);
}

static void a_property_can_be_for_one_role(void **state)
{
    static const char *const pairs[][2] = {
        {"producer.linger.ms", "50"}, {"consumer.fetch.wait.max.ms", "77"}, {"client.id", "both"}};
    rd_kafka_conf_t *conf;

    (void)state;
    assert_int_equal(make(&conf, KAFKA_PRODUCER, 3, pairs, NULL), RC_OK);
    assert_property(conf, "linger.ms", "50");
    assert_property(conf, "fetch.wait.max.ms", "500");
    rd_kafka_conf_destroy(conf);
    assert_int_equal(make(&conf, KAFKA_CONSUMER, 3, pairs, NULL), RC_OK);
    assert_property(conf, "linger.ms", "3");
    assert_property(conf, "fetch.wait.max.ms", "77");
    assert_property(conf, "client.id", "both");
    rd_kafka_conf_destroy(conf);
    assert_int_equal(make(&conf, KAFKA_TOOL, 3, pairs, NULL), RC_OK);
    assert_property(conf, "linger.ms", "3");
    assert_property(conf, "fetch.wait.max.ms", "500");
    rd_kafka_conf_destroy(conf);
}

static void a_fixed_property_cannot_be_changed_by_any_name(void **state)
{
    static const char *const attempts[][2] = {{"acks", "1"},
                                              {"request.required.acks", "0"},
                                              {"producer.acks", "1"},
                                              {"enable.idempotence", "false"}};

    (void)state;
    for (size_t i = 0; i < 4; i++) {
        rd_kafka_conf_t *conf = NULL;
        struct err err = {0};

        assert_int_equal(make(&conf, KAFKA_PRODUCER, 1, &attempts[i], &err), RC_REJECT);
        assert_null(conf);
        assert_non_null(strstr(err.text, attempts[i][0]));
        assert_non_null(
            strstr(err.text, strstr(attempts[i][0], "acks") ? "every replica" : "relies on it"));
    }
}

static void a_fixed_property_may_be_named_with_its_value(void **state)
{
    static const char *const pairs[][2] = {{"acks", "-1"}, {"consumer.acks", "1"}};
    rd_kafka_conf_t *conf;

    (void)state;
    assert_int_equal(make(&conf, KAFKA_PRODUCER, 2, pairs, NULL), RC_OK);
    rd_kafka_conf_destroy(conf);
}

static void a_mistyped_property_is_named_with_the_nearest_one(void **state)
{
    static const char *const pairs[][2] = {{"boostrap.servers", "x:1"}};
    rd_kafka_conf_t *conf;
    struct err err = {0};

    (void)state;
    assert_int_equal(make(&conf, KAFKA_PRODUCER, 1, pairs, &err), RC_FATAL);
    assert_non_null(strstr(err.text, "kafka.boostrap.servers"));
    assert_non_null(strstr(err.text, "did you mean bootstrap.servers?"));
    assert_int_equal(kafka_conf_check(settings_of(1, pairs), &err), RC_FATAL);
    assert_non_null(strstr(err.text, "kafka.boostrap.servers"));
}

static void a_bad_value_is_named_but_no_secret(void **state)
{
    static const char *const bad[][2] = {{"linger.ms", "soon"}};
    static const char *const secret[][2] = {{"ssl.key.pem", "hunter2"}};
    struct err err = {0};

    (void)state;
    assert_int_equal(kafka_conf_check(settings_of(1, bad), &err), RC_FATAL);
    assert_non_null(strstr(err.text, "kafka.linger.ms"));
    assert_non_null(strstr(err.text, "soon"));
    if (kafka_conf_check(settings_of(1, secret), &err) != RC_OK)
        assert_null(strstr(err.text, "hunter2"));
}

/* Faults that only appear when a handle is made are found as well, for each role. */
static void all_properties_together_are_checked(void **state)
{
    static const char *const good[][2] = {{"bootstrap.servers", "127.0.0.1:1"},
                                          {"consumer.fetch.wait.max.ms", "77"},
                                          {"compression.type", "lz4"}};
    static const char *const bad[][2] = {{"security.protocol", "ssl"},
                                         {"ssl.ca.location", "/nowhere/ca.pem"}};
    static const char *const consumer[][2] = {{"consumer.session.timeout.ms", "900000"}};
    struct err err = {0};

    (void)state;
    assert_int_equal(kafka_conf_check(settings_of(3, good), &err), RC_OK);
    assert_int_equal(kafka_conf_check(settings_of(2, bad), &err), RC_FATAL);
    assert_non_null(strstr(err.text, "[kafka]: "));
    assert_int_equal(kafka_conf_check(settings_of(1, consumer), &err), RC_FATAL);
    assert_non_null(strstr(err.text, "max.poll.interval.ms"));
}

/* A producer without brokers of its own, and the in-process broker it talks to. */
struct fixture {
    rd_kafka_t *host;
    rd_kafka_mock_cluster_t *cluster;
    rd_kafka_t *producer;
};

static rd_kafka_t *producer_of(const char *brokers)
{
    const char *const pairs[][2] = {{"bootstrap.servers", brokers},
                                    {"reconnect.backoff.max.ms", "100"}};
    rd_kafka_conf_t *conf;
    rd_kafka_t *producer;

    assert_int_equal(kafka_conf_make(&conf, settings_of(2, pairs), KAFKA_PRODUCER, NULL, 0, NULL),
                     RC_OK);
    producer = rd_kafka_new(RD_KAFKA_PRODUCER, conf, NULL, 0);
    assert_non_null(producer);
    return producer;
}

static int setup(void **state)
{
    static struct fixture fixture;

    fixture.host = rd_kafka_new(RD_KAFKA_PRODUCER, rd_kafka_conf_new(), NULL, 0);
    assert_non_null(fixture.host);
    fixture.cluster = rd_kafka_mock_cluster_new(fixture.host, 1);
    assert_non_null(fixture.cluster);
    fixture.producer = producer_of(rd_kafka_mock_cluster_bootstraps(fixture.cluster));
    *state = &fixture;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *fixture = *state;

    rd_kafka_destroy(fixture->producer);
    rd_kafka_mock_cluster_destroy(fixture->cluster);
    rd_kafka_destroy(fixture->host);
    return 0;
}

/* librdkafka logs one line for the handle: it has no broker. */
static void make_handle_that_logs(void)
{
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    rd_kafka_t *kafka;

    kafka_log_to_ours(conf);
    kafka = rd_kafka_new(RD_KAFKA_PRODUCER, conf, NULL, 0);
    assert_non_null(kafka);
    rd_kafka_destroy(kafka);
}

#define LINE "event=kafka_library client="
#define SUM "event=kafka_library_repeated "

static size_t count_text(const char *log, const char *text)
{
    size_t count = 0;

    for (; (log = strstr(log, text)); log += strlen(text))
        count++;
    return count;
}

static void repeated_lines_are_summed_up_once(void **state)
{
    int kept = dup(STDERR_FILENO);
    char log[4096];
    int ends[2];
    ssize_t n;

    (void)state;
    assert_int_equal(pipe(ends), 0);
    dup2(ends[1], STDERR_FILENO);
    for (int i = 0; i < 3; i++)
        make_handle_that_logs();
    kafka_log_repeats(os_now_ms());
    kafka_log_repeats(os_now_ms() + 120000);
    kafka_log_repeats(os_now_ms() + 240000);
    /* The text is new again. */
    make_handle_that_logs();
    kafka_log_repeats(os_now_ms() + 120000);
    dup2(kept, STDERR_FILENO);
    close(kept);
    close(ends[1]);
    n = read(ends[0], log, sizeof(log) - 1);
    close(ends[0]);
    log[n > 0 ? n : 0] = '\0';
    assert_int_equal(count_text(log, LINE), 2);
    assert_int_equal(count_text(log, SUM), 1);
    assert_non_null(strstr(log, SUM "lines=2 over_ms="));
}

/* -1: it is not there. */
static int partitions_of(rd_kafka_t *kafka, const char *topic)
{
    const struct rd_kafka_metadata *metadata;
    int count = -1;

    assert_int_equal(rd_kafka_metadata(kafka, 1, NULL, &metadata, 10000),
                     RD_KAFKA_RESP_ERR_NO_ERROR);
    for (int i = 0; i < metadata->topic_cnt; i++) {
        if (strcmp(metadata->topics[i].topic, topic) == 0)
            count = metadata->topics[i].partition_cnt;
    }
    rd_kafka_metadata_destroy(metadata);
    return count;
}

static void a_topic_that_is_there_is_left_alone(void **state)
{
    struct fixture *fixture = *state;
    struct err err = {0};

    assert_int_equal(rd_kafka_mock_topic_create(fixture->cluster, "there", 7, 1),
                     RD_KAFKA_RESP_ERR_NO_ERROR);
    if (kafka_ensure_topic(fixture->producer, "there", 12, -1, 10000, NULL, &err) != RC_OK)
        fail_msg("%s", err.text);
    assert_int_equal(partitions_of(fixture->producer, "there"), 7);
}

static void a_broker_without_admin_requests_makes_its_topics_itself(void **state)
{
    struct fixture *fixture = *state;
    struct err err = {0};

    assert_int_equal(partitions_of(fixture->producer, "new"), -1);
    if (kafka_ensure_topic(fixture->producer, "new", 12, -1, 10000, NULL, &err) != RC_OK)
        fail_msg("%s", err.text);
    assert_true(partitions_of(fixture->producer, "new") > 0);
    /* Done twice is as good as once. */
    assert_int_equal(kafka_ensure_topic(fixture->producer, "new", 12, -1, 10000, NULL, &err),
                     RC_OK);
}

static void an_unavailable_broker_is_retried(void **state)
{
    rd_kafka_t *producer = producer_of("127.0.0.1:1");
    struct err err = {0};

    (void)state;
    assert_int_equal(kafka_ensure_topic(producer, "any", 12, -1, 300, NULL, &err), RC_RETRY);
    assert_non_null(strstr(err.text, "kafka: "));
    rd_kafka_destroy(producer);
}

/* Reads a thread: whether it is one of the library, and whether it blocks the signal. */
static void read_thread(const char *task, int number, bool *is_library, bool *is_blocked)
{
    char path[300];
    char line[256];
    unsigned long long mask = 0;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/self/task/%s/status", task);
    file = fopen(path, "r");
    *is_library = *is_blocked = false;
    if (!file)
        return;
    while (fgets(line, sizeof(line), file)) {
        if (strncmp(line, "Name:\trdk:", 10) == 0)
            *is_library = true;
        if (strncmp(line, "SigBlk:", 7) == 0)
            mask = strtoull(line + 7, NULL, 16);
    }
    fclose(file);
    *is_blocked = (mask >> (number - 1) & 1) != 0;
}

/* Threads of the library that are there, and those of them that block SIGSEGV. */
static void count_threads(size_t *all, size_t *blocked)
{
    DIR *tasks = opendir("/proc/self/task");
    struct dirent *entry;
    bool is_library;
    bool is_blocked;

    assert_non_null(tasks);
    *all = *blocked = 0;
    while ((entry = readdir(tasks))) {
        read_thread(entry->d_name, SIGSEGV, &is_library, &is_blocked);
        *all += is_library;
        *blocked += is_library && is_blocked;
    }
    closedir(tasks);
}

/* common/daemon/crash.h logs where a thread crashed, unless it blocks the signals. */
static void threads_of_the_library_do_not_block_the_signals_of_a_crash(void **state)
{
    static struct settings settings;
    rd_kafka_conf_t *conf = NULL;
    int64_t until_ms = os_now_ms() + 30000;
    size_t blocked = 1;
    size_t all = 0;
    rd_kafka_t *kafka;
    struct err err;
    char text[256];

    (void)state;
    assert_int_equal(kafka_conf_make(&conf, &settings, KAFKA_PRODUCER, NULL, 0, &err), RC_OK);
    kafka = rd_kafka_new(RD_KAFKA_PRODUCER, conf, text, sizeof(text));
    assert_non_null(kafka);
    /* A thread begins with all signals blocked. */
    while ((all == 0 || blocked > 0) && os_now_ms() < until_ms) {
        poll(NULL, 0, 5);
        count_threads(&all, &blocked);
    }
    assert_true(all > 0);
    assert_int_equal(blocked, 0);
    rd_kafka_destroy(kafka);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_known_code_has_its_class),
        cmocka_unit_test(an_unknown_code_is_retried),
        cmocka_unit_test(an_error_names_the_call_the_place_and_the_code),
        cmocka_unit_test(cooperative_rebalancing_wants_a_sound_version),
        cmocka_unit_test(flaws_of_an_old_library_are_listed),
        cmocka_unit_test(repeated_lines_are_summed_up_once),
        cmocka_unit_test(settings_win_over_defaults),
        cmocka_unit_test(a_property_can_be_for_one_role),
        cmocka_unit_test(a_fixed_property_cannot_be_changed_by_any_name),
        cmocka_unit_test(a_fixed_property_may_be_named_with_its_value),
        cmocka_unit_test(a_mistyped_property_is_named_with_the_nearest_one),
        cmocka_unit_test(a_bad_value_is_named_but_no_secret),
        cmocka_unit_test(all_properties_together_are_checked),
        cmocka_unit_test(threads_of_the_library_do_not_block_the_signals_of_a_crash),
        cmocka_unit_test_setup_teardown(a_topic_that_is_there_is_left_alone, setup, teardown),
        cmocka_unit_test_setup_teardown(a_broker_without_admin_requests_makes_its_topics_itself,
                                        setup, teardown),
        cmocka_unit_test(an_unavailable_broker_is_retried),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
