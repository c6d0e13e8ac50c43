/* SPDX-License-Identifier: MIT */
/* The consumer's Kafka side on the in-process broker: how a partition is taken, sought, read and
 * given up. One member at a time, because the broker takes seconds for a rebalance. */
#include "consumer/ingest/stream_kafka.h"

#include "common/kafka/kafka.h"
#include "common/log.h"
#include "common/os.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <librdkafka/rdkafka.h>
#include <librdkafka/rdkafka_mock.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define TOPIC "votes"
#define PARTITIONS 2
#define RECORDS 40 /* in partition 0; partition 1 stays empty */
#define WAIT_MS 20000
#define SILENT_MS 20000

static rd_kafka_t *producer;
static rd_kafka_mock_cluster_t *broker;
static struct settings settings;
static struct stream_kafka *kafka;
static const struct stream *stream;
static struct record records[RECORDS * 2];
static void *handles[PARTITIONS];
static int wakeup_fd;

static void nap(void)
{
    poll(NULL, 0, 2);
}

static void property(const char *name, const char *value)
{
    struct kafka_property *next = &settings.kafka.properties[settings.kafka.count++];

    snprintf(next->name, sizeof(next->name), "%s", name);
    snprintf(next->value, sizeof(next->value), "%s", value);
}

static void produce(int number)
{
    char key[] = "key";
    char value[32];
    rd_kafka_headers_t *headers = rd_kafka_headers_new(2);

    snprintf(value, sizeof(value), "value %d", number);
    rd_kafka_header_add(headers, "id", -1, value, -1);
    rd_kafka_header_add(headers, "none", -1, NULL, 0);
    const rd_kafka_vu_t parts[] = {
        {.vtype = RD_KAFKA_VTYPE_TOPIC, .u.cstr = TOPIC},
        {.vtype = RD_KAFKA_VTYPE_PARTITION, .u.i32 = 0},
        {.vtype = RD_KAFKA_VTYPE_KEY, .u.mem = {.ptr = key, .size = strlen(key)}},
        {.vtype = RD_KAFKA_VTYPE_VALUE, .u.mem = {.ptr = value, .size = strlen(value)}},
        {.vtype = RD_KAFKA_VTYPE_HEADERS, .u.headers = headers},
        {.vtype = RD_KAFKA_VTYPE_MSGFLAGS, .u.i = RD_KAFKA_MSG_F_COPY},
    };
    assert_null(rd_kafka_produceva(producer, parts, sizeof(parts) / sizeof(parts[0])));
}

static int setup(void **state)
{
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    char text[256];

    (void)state;
    rd_kafka_conf_set(conf, "test.mock.num.brokers", "1", text, sizeof(text));
    producer = rd_kafka_new(RD_KAFKA_PRODUCER, conf, text, sizeof(text));
    assert_non_null(producer);
    broker = rd_kafka_handle_mock_cluster(producer);
#if RD_KAFKA_VERSION >= 0x020e00ff
    rd_kafka_mock_group_initial_rebalance_delay_ms(broker, 1);
#endif
    rd_kafka_mock_topic_create(broker, TOPIC, PARTITIONS, 1);
    for (int i = 0; i < RECORDS; i++)
        produce(i);
    assert_int_equal(rd_kafka_flush(producer, WAIT_MS), RD_KAFKA_RESP_ERR_NO_ERROR);
    snprintf(settings.consumer.topics, sizeof(settings.consumer.topics), TOPIC);
    settings.consumer.memory_max = INT64_C(64) << 20;
    property("bootstrap.servers", rd_kafka_mock_cluster_bootstraps(broker));
    /* A member that sends nothing for so long loses its partitions, also where its threads or the
     * broker's only wait for a processor. */
    property("consumer.session.timeout.ms", "30000");
    property("consumer.heartbeat.interval.ms", "200");
    wakeup_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    return wakeup_fd >= 0 ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    rd_kafka_destroy(producer);
    close(wakeup_fd);
    return 0;
}

/* A new one: in one that had members before, a rebalance lasts as long as a session. */
static void name_group(void)
{
    static int groups;

    snprintf(settings.consumer.group, sizeof(settings.consumer.group), "group %d", ++groups);
}

/* Joins a group and waits until all partitions are ours. */
static void join_group(void)
{
    int64_t until_ms = os_now_ms() + WAIT_MS;
    struct err err = {0};
    size_t held = 0;

    name_group();
    if (stream_kafka_open(&kafka, &settings, "member", wakeup_fd, &err) != RC_OK)
        fail_msg("%s", err.text);
    stream = stream_kafka_ops(kafka);
    while (held < PARTITIONS) {
        struct stream_event event;

        assert_true(os_now_ms() < until_ms);
        stream->poll(stream->ctx, &event);
        if (event.kind != STREAM_ASSIGNED) {
            nap();
            continue;
        }
        for (size_t i = 0; i < event.count; i++) {
            assert_string_equal(event.places[i].place.topic, TOPIC);
            handles[event.places[i].place.partition] = event.places[i].handle;
            held++;
        }
    }
}

static void leave_group(void)
{
    int64_t from_ms = os_now_ms();

    stream_kafka_close(kafka, from_ms + WAIT_MS);
    kafka = NULL;
    assert_true(os_now_ms() - from_ms < WAIT_MS / 2);
    assert_int_equal(kafka_handles_left(), 0);
}

static void seek(int partition, int64_t offset)
{
    int64_t until_ms = os_now_ms() + WAIT_MS;
    struct stream_event event;
    struct err err = {0};

    while (stream->seek(stream->ctx, handles[partition], offset, -1, &err) == RC_RETRY) {
        assert_true(os_now_ms() < until_ms);
        stream->poll(stream->ctx, &event);
        nap();
    }
}

/* Reads count records, each where it is looked for, and no more than are wanted at once. */
static void expect_records(int64_t offset, size_t count)
{
    int64_t until_ms = os_now_ms() + WAIT_MS;
    struct err err = {0};

    while (count > 0) {
        size_t wanted = count < 7 ? count : 7;
        size_t got = 0;

        assert_true(os_now_ms() < until_ms);
        assert_int_equal(stream->read(stream->ctx, handles[0], records, wanted, &got, &err), RC_OK);
        assert_true(got <= wanted);
        for (size_t i = 0; i < got; i++, offset++) {
            char value[32];

            snprintf(value, sizeof(value), "value %d", (int)offset);
            assert_int_equal(records[i].offset, offset);
            assert_int_equal(records[i].value_len, strlen(value));
            assert_memory_equal(records[i].value, value, strlen(value));
            assert_memory_equal(records[i].key, "key", 3);
            assert_true(records[i].time_ms > 0);
        }
        count -= got;
        if (got == 0)
            nap();
    }
}

static void nothing_is_read_before_a_seek_and_all_after_it(void **state)
{
    (void)state;
    join_group();
    seek(0, OFFSET_BEGINNING);
    expect_records(0, RECORDS);
    seek(0, 10);
    expect_records(10, RECORDS - 10);
    seek(0, 5);
    expect_records(5, 3);
    seek(0, 30);
    expect_records(30, RECORDS - 30);
    leave_group();
}

static void a_record_produced_later_signals_the_wakeup_and_is_read(void **state)
{
    static int later = RECORDS;
    uint64_t rung;
    struct err err = {0};
    size_t got = 0;

    (void)state;
    join_group();
    seek(0, later);
    assert_int_equal(stream->read(stream->ctx, handles[0], records, 1, &got, &err), RC_OK);
    assert_int_equal(got, 0);
    while (read(wakeup_fd, &rung, sizeof(rung)) > 0) {
    }
    produce(later);
    for (int64_t until_ms = os_now_ms() + WAIT_MS; read(wakeup_fd, &rung, sizeof(rung)) < 0;) {
        assert_true(os_now_ms() < until_ms);
        nap();
    }
    expect_records(later, 1);
    later++;
    leave_group();
}

static void headers_are_handed_out_with_their_record(void **state)
{
    struct err err = {0};
    struct buf out = {0};
    size_t got = 0;

    (void)state;
    join_group();
    seek(0, 3);
    for (int64_t until_ms = os_now_ms() + WAIT_MS; got == 0;) {
        assert_true(os_now_ms() < until_ms);
        assert_int_equal(stream->read(stream->ctx, handles[0], records, 1, &got, &err), RC_OK);
    }
    stream->headers(stream->ctx, &records[0], &out);
    assert_string_equal(buf_text(&out), "[[\"id\",\"dmFsdWUgMw==\"],[\"none\",null]]");
    buf_done(&out);
    leave_group();
}

static void an_offset_that_is_gone_is_an_error_of_its_partition_until_it_is_sought_anew(
    void **state)
{
    int64_t until_ms = os_now_ms() + WAIT_MS;
    struct err err = {0};
    enum rc rc = RC_OK;
    size_t got = 0;

    (void)state;
    join_group();
    seek(0, 1000000);
    while (rc != RC_REJECT) {
        assert_true(os_now_ms() < until_ms);
        rc = stream->read(stream->ctx, handles[0], records, 10, &got, &err);
        assert_int_equal(got, 0);
    }
    assert_non_null(strstr(err.text, "--restart-partition votes/0@"));
    if (rd_kafka_version() >= 0x02050000) {
        seek(0, 20);
        expect_records(20, 20);
    }
    leave_group();
}

static void a_broker_that_answers_is_known_by_a_probe(void **state)
{
    struct err err = {0};
    char id[TOPIC_ID_SIZE];

    (void)state;
    join_group();
    /* A machine that does ten other things answers late. */
    for (int64_t until_ms = os_now_ms() + WAIT_MS; stream->probe(stream->ctx, &err) != RC_OK;)
        assert_true(os_now_ms() < until_ms);
    for (int64_t until_ms = os_now_ms() + WAIT_MS;
         stream->topic_id(stream->ctx, TOPIC, id) == RC_RETRY;) {
        struct stream_event event;

        assert_true(os_now_ms() < until_ms);
        stream->poll(stream->ctx, &event);
        nap();
    }
    seek(0, 0);
    expect_records(0, 1);
    assert_true(stream->high_watermark(stream->ctx, handles[0]) >= RECORDS);
    leave_group();
}

static void a_setting_that_is_not_allowed_is_refused_with_the_reason(void **state)
{
    struct settings mine = settings;
    struct err err = {0};

    (void)state;
    snprintf(mine.kafka.properties[mine.kafka.count].name, KAFKA_NAME_SIZE, "auto.offset.reset");
    snprintf(mine.kafka.properties[mine.kafka.count++].value, KAFKA_VALUE_SIZE, "latest");
    assert_int_equal(stream_kafka_check(&mine, "member", &err), RC_REJECT);
    assert_non_null(strstr(err.text, "auto.offset.reset"));
    assert_non_null(strstr(err.text, "nothing may be skipped"));
    assert_int_equal(stream_kafka_check(&settings, "member", &err), RC_OK);
}

static void it_leaves_before_it_ever_joined(void **state)
{
    struct err err = {0};

    (void)state;
    name_group();
    assert_int_equal(stream_kafka_open(&kafka, &settings, "member", wakeup_fd, &err), RC_OK);
    leave_group();
}

/* An offset's commit and the word to the group are under way, and no answer comes. */
static void it_is_closed_in_time_although_no_broker_answers(void **state)
{
    int64_t from_ms;

    (void)state;
    join_group();
    seek(0, OFFSET_BEGINNING);
    expect_records(0, 3);
    stream->store_offset(stream->ctx, handles[0], 3);
    rd_kafka_mock_broker_set_rtt(broker, 1, SILENT_MS);
    from_ms = os_now_ms();
    stream_kafka_close(kafka, from_ms + 1000);
    assert_true(os_now_ms() - from_ms < SILENT_MS / 2);
    kafka = NULL;
    rd_kafka_mock_broker_set_rtt(broker, 1, 0);
    for (int64_t until_ms = os_now_ms() + (int64_t)2 * SILENT_MS; kafka_handles_left() > 0; nap())
        assert_true(os_now_ms() < until_ms);
}

/* The offset that the group has, as lag tools see it. */
static int64_t read_committed(void)
{
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(1);
    char text[256];
    int64_t offset;
    rd_kafka_t *tool;

    rd_kafka_conf_set(conf, "bootstrap.servers", rd_kafka_mock_cluster_bootstraps(broker), text,
                      sizeof(text));
    rd_kafka_conf_set(conf, "group.id", settings.consumer.group, text, sizeof(text));
    tool = rd_kafka_new(RD_KAFKA_CONSUMER, conf, text, sizeof(text));
    assert_non_null(tool);
    rd_kafka_topic_partition_list_add(list, TOPIC, 0);
    assert_int_equal(rd_kafka_committed(tool, list, WAIT_MS), RD_KAFKA_RESP_ERR_NO_ERROR);
    offset = list->elems[0].offset;
    rd_kafka_topic_partition_list_destroy(list);
    rd_kafka_destroy(tool);
    return offset;
}

#if RD_KAFKA_VERSION >= 0x020300ff /* requests can be counted from here on */
#define OFFSET_COMMIT 8
#define LEAVE_GROUP 13

static int count_requests(int16_t api)
{
    size_t count = 0;
    rd_kafka_mock_request_t **requests = rd_kafka_mock_get_requests(broker, &count);
    int found = 0;

    for (size_t i = 0; i < count; i++)
        found += rd_kafka_mock_request_api_key(requests[i]) == api;
    rd_kafka_mock_request_destroy_array(requests, count);
    return found;
}

/* Otherwise its partitions would wait for the end of its session. */
static void it_sends_leave_group_although_its_offsets_are_committed_late(void **state)
{
    (void)state;
    join_group();
    seek(0, OFFSET_BEGINNING);
    expect_records(0, 3);
    stream->store_offset(stream->ctx, handles[0], 3);
    rd_kafka_mock_start_request_tracking(broker);
    rd_kafka_mock_broker_push_request_error_rtts(broker, 1, OFFSET_COMMIT, 1,
                                                 RD_KAFKA_RESP_ERR_NO_ERROR, 500);
    leave_group();
    assert_true(count_requests(OFFSET_COMMIT) >= 1);
    assert_int_equal(count_requests(LEAVE_GROUP), 1);
    rd_kafka_mock_stop_request_tracking(broker);
    assert_int_equal(read_committed(), 3);
}
#endif

static void a_static_member_closes_with_its_offsets(void **state)
{
    (void)state;
    snprintf(settings.consumer.static_member, sizeof(settings.consumer.static_member), "host");
    join_group();
    seek(0, OFFSET_BEGINNING);
    expect_records(0, 3);
    stream->store_offset(stream->ctx, handles[0], 3);
    leave_group();
    assert_int_equal(read_committed(), 3);
    it_leaves_before_it_ever_joined(NULL);
    it_is_closed_in_time_although_no_broker_answers(NULL);
    settings.consumer.static_member[0] = '\0';
}

static void every_memory_max_and_message_size_makes_a_consumer(void **state)
{
    static const char *const sizes[] = {NULL, "2000", "8000000"};
    struct settings mine;
    struct err err = {0};

    (void)state;
    name_group();
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        mine = settings;
        if (sizes[i]) {
            struct kafka_property *added = &mine.kafka.properties[mine.kafka.count++];

            snprintf(added->name, sizeof(added->name), "message.max.bytes");
            snprintf(added->value, sizeof(added->value), "%s", sizes[i]);
        }
        for (int64_t mib = 32; mib <= 128; mib *= 2) { /* 32 MiB is the lowest that is allowed */
            mine.consumer.memory_max = mib << 20;
            if (stream_kafka_open(&kafka, &mine, "member", wakeup_fd, &err) != RC_OK)
                fail_msg("%lld MiB: %s", (long long)mib, err.text);
            assert_true(stream_kafka_close(kafka, os_now_ms() + WAIT_MS));
        }
    }
}

static void a_static_member_is_named_in_one_place(void **state)
{
    struct settings mine = settings;
    struct err err = {0};

    (void)state;
    snprintf(mine.consumer.static_member, sizeof(mine.consumer.static_member), "host");
    snprintf(mine.kafka.properties[mine.kafka.count].name, KAFKA_NAME_SIZE,
             "consumer.group.instance.id");
    snprintf(mine.kafka.properties[mine.kafka.count++].value, KAFKA_VALUE_SIZE, "mine");
    assert_int_equal(stream_kafka_check(&mine, "member", &err), RC_REJECT);
    assert_non_null(strstr(err.text, "group.instance.id"));
    assert_non_null(strstr(err.text, "consumer.static_member = host sets it"));
    snprintf(mine.consumer.static_member, sizeof(mine.consumer.static_member), "off");
    assert_int_equal(stream_kafka_check(&mine, "member", &err), RC_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_read_before_a_seek_and_all_after_it),
        cmocka_unit_test(a_record_produced_later_signals_the_wakeup_and_is_read),
        cmocka_unit_test(headers_are_handed_out_with_their_record),
        cmocka_unit_test(
            an_offset_that_is_gone_is_an_error_of_its_partition_until_it_is_sought_anew),
        cmocka_unit_test(a_broker_that_answers_is_known_by_a_probe),
        cmocka_unit_test(a_setting_that_is_not_allowed_is_refused_with_the_reason),
        cmocka_unit_test(it_leaves_before_it_ever_joined),
        cmocka_unit_test(it_is_closed_in_time_although_no_broker_answers),
#if RD_KAFKA_VERSION >= 0x020300ff
        cmocka_unit_test(it_sends_leave_group_although_its_offsets_are_committed_late),
#endif
        cmocka_unit_test(a_static_member_closes_with_its_offsets),
        cmocka_unit_test(every_memory_max_and_message_size_makes_a_consumer),
        cmocka_unit_test(a_static_member_is_named_in_one_place),
    };

    log_init(LOG_ERROR + 1);
    return cmocka_run_group_tests(tests, setup, teardown);
}
