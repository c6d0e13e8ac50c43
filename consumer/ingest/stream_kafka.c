/* SPDX-License-Identifier: MIT */
#include "consumer/ingest/stream_kafka.h"

#include "common/kafka/kafka.h"
#include "common/os.h"
#include "common/text.h"
#include "consumer/ingest/group_check_kafka.h"
#include "consumer/ingest/group_kafka.h"
#include "consumer/ingest/record.h"
#include "consumer/ingest/topic_query_kafka.h"
#include "consumer/installation_mysql.h"

#include <assert.h>
#include <inttypes.h>
#include <librdkafka/rdkafka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define READ_MAX 512
#define SEEK_WAIT_MS 500
#define PROBE_WAIT_MS 300
#define CLOSE_MS_MAX 1000 /* for a stream that failed to open */
#define HOST_SIZE 65
/* After this many unanswered probes in a row the list of brokers is set again. */
#define NAME_AGAIN_PROBES 5

struct stream_kafka {
    struct stream ops;
    const struct settings *settings;
    rd_kafka_t *kafka;
    struct group group;
    struct topic_ids *topics;
    struct group_check check;
    rd_kafka_message_t *messages[READ_MAX]; /* of the last read */
    size_t message_count;
    bool probed;         /* a broker has answered a probe */
    unsigned unanswered; /* probes in a row */
};

static void release_messages(struct stream_kafka *stream)
{
    for (size_t i = 0; i < stream->message_count; i++)
        rd_kafka_message_destroy(stream->messages[i]);
    stream->message_count = 0;
}

static enum rc subscribe_topics(struct stream_kafka *stream, const char *topics, struct err *err)
{
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(4);
    rd_kafka_resp_err_t code;
    char name[TOPIC_SIZE];
    size_t len;

    for (const char *topic; (topic = list_next(&topics, ',', &len));) {
        snprintf(name, sizeof(name), "%.*s", (int)len, topic);
        rd_kafka_topic_partition_list_add(list, name, RD_KAFKA_PARTITION_UA);
    }
    code = rd_kafka_subscribe(stream->kafka, list);
    rd_kafka_topic_partition_list_destroy(list);
    if (code == RD_KAFKA_RESP_ERR_NO_ERROR)
        return RC_OK;
    kafka_fail(err, (int)code, "cannot subscribe to the topics");
    return RC_FATAL;
}

/* The partitions are revoked by the next events of the group. */
static enum rc leave_group(struct stream_kafka *stream, struct err *err)
{
    rd_kafka_resp_err_t code = rd_kafka_unsubscribe(stream->kafka);

    if (code == RD_KAFKA_RESP_ERR_NO_ERROR)
        return RC_OK;
    kafka_fail(err, (int)code, "cannot leave the consumer group");
    return RC_FATAL;
}

/* Joins or leaves the group as the check of its members says. */
static enum rc follow_check(struct stream_kafka *stream, struct err *err)
{
    struct group_check *check = &stream->check;
    bool reachable = stream->unanswered == 0 && stream->probed;
    enum rc rc = group_check_poll(check, reachable, os_now_ms());

    if (rc == RC_RETRY || check->joined == (rc == RC_OK))
        return RC_OK;
    check->joined = rc == RC_OK;
    return check->joined ? subscribe_topics(stream, stream->settings->consumer.topics, err)
                         : leave_group(stream, err);
}

static void stream_poll(void *ctx, struct stream_event *event)
{
    struct stream_kafka *stream = ctx;
    struct err err = {0};

    release_messages(stream);
    topic_ids_poll(stream->topics, os_now_ms());
    if (follow_check(stream, &err) != RC_OK) {
        *event = (struct stream_event){.kind = STREAM_FAILURE, .rc = RC_FATAL, .err = err};
        return;
    }
    group_poll(&stream->group, event, 0);
    if (event->kind == STREAM_ASSIGNED)
        topic_ids_doubt(stream->topics);
    if (event->kind == STREAM_ASSIGNED || event->kind == STREAM_REVOKED)
        group_check_doubt(&stream->check);
}

static enum rc stream_check_group(void *ctx, struct err *err)
{
    struct stream_kafka *stream = ctx;

    if (stream->check.foreign)
        *err = stream->check.err;
    return stream->check.foreign ? RC_REJECT : RC_OK;
}

static enum rc seek_result(const struct group_partition *partition, int code, const char *text,
                           struct err *err)
{
    if (code == RD_KAFKA_RESP_ERR_NO_ERROR)
        return RC_OK;
    /* Usually "erroneous state": the assignment has not taken effect yet. */
    return err_fail(err, kafka_classify(code) == RC_FATAL ? RC_FATAL : RC_RETRY, code,
                    "cannot seek %s/%d: %s", partition->name, (int)partition->number, text);
}

/* A seek is lost if librdkafka is still asking for the beginning of the partition and the answer
 * arrives later. So wait until a fetch has returned a record or the end of the partition
 * (enable.partition.eof). */
static bool has_answered(struct stream_kafka *stream, struct group_partition *partition)
{
    ssize_t got;

    if (partition->answered)
        return true;
    release_messages(stream);
    got = rd_kafka_consume_batch_queue(partition->queue, 0, stream->messages, READ_MAX);
    stream->message_count = got > 0 ? (size_t)got : 0;
    partition->answered = got > 0;
    return partition->answered;
}

static enum rc stream_seek(void *ctx, void *handle, int64_t offset, int32_t leader_epoch,
                           struct err *err)
{
    struct stream_kafka *stream = ctx;
    struct group_partition *partition = handle;
    rd_kafka_topic_partition_list_t *list;
    rd_kafka_topic_partition_t *elem;
    rd_kafka_error_t *error;
    enum rc rc;

    if (partition->ended && group_renew(&stream->group, partition, err) != RC_OK)
        return RC_RETRY;
    if (!has_answered(stream, partition))
        return err_fail(err, RC_RETRY, 0, "cannot seek %s/%d: its broker has not answered yet",
                        partition->name, (int)partition->number);
    list = rd_kafka_topic_partition_list_new(1);
    elem = rd_kafka_topic_partition_list_add(list, partition->name, partition->number);
    elem->offset = offset == OFFSET_BEGINNING ? RD_KAFKA_OFFSET_BEGINNING : offset;
#if RD_KAFKA_VERSION >= 0x020100ff
    if (leader_epoch >= 0)
        rd_kafka_topic_partition_set_leader_epoch(elem, leader_epoch);
#else
    (void)leader_epoch;
#endif
    error = rd_kafka_seek_partitions(stream->kafka, list, SEEK_WAIT_MS);
    if (error)
        rc = seek_result(partition, (int)rd_kafka_error_code(error), rd_kafka_error_string(error),
                         err);
    else
        rc = seek_result(partition, (int)elem->err, rd_kafka_err2str(elem->err), err);
    if (error)
        rd_kafka_error_destroy(error);
    rd_kafka_topic_partition_list_destroy(list);
    partition->end = -1;
    /* librdkafka asks the broker for the beginning, too. */
    if (rc == RC_OK)
        partition->answered = offset != OFFSET_BEGINNING;
    return rc;
}

static void fill_record(struct record *record, const rd_kafka_message_t *message)
{
    *record = (struct record){
        .offset = message->offset,
        .time_ms = rd_kafka_message_timestamp(message, NULL),
        .leader_epoch = -1,
        .key = message->key,
        .key_len = message->key_len,
        .value = message->payload,
        .value_len = message->len,
        .message = message,
    };
#if RD_KAFKA_VERSION >= 0x020100ff
    record->leader_epoch = rd_kafka_message_leader_epoch(message);
#endif
}

static enum rc fail_lost_offset(struct group_partition *partition,
                                const rd_kafka_message_t *message, struct err *err)
{
    partition->ended = true;
    return err_fail(err, RC_REJECT, (int)message->err,
                    "the next record to apply no longer exists (%s); decide with tallybox consume "
                    "--restart-partition %s/%d@earliest, @latest or @OFFSET",
                    rd_kafka_message_errstr(message), partition->name, (int)partition->number);
}

static enum rc stream_read(void *ctx, void *handle, struct record *records, size_t records_max,
                           size_t *count, struct err *err)
{
    struct stream_kafka *stream = ctx;
    struct group_partition *partition = handle;
    size_t wanted = records_max < READ_MAX ? records_max : READ_MAX;
    enum rc worst = RC_OK;
    ssize_t got;

    release_messages(stream);
    *count = 0;
    got = rd_kafka_consume_batch_queue(partition->queue, 0, stream->messages, wanted);
    stream->message_count = got > 0 ? (size_t)got : 0;
    partition->answered |= got > 0;
    for (size_t i = 0; i < stream->message_count; i++) {
        const rd_kafka_message_t *message = stream->messages[i];
        enum rc rc;

        partition->end = -1;
        if (message->err == RD_KAFKA_RESP_ERR_NO_ERROR) {
            fill_record(&records[(*count)++], message);
            continue;
        }
        if (message->err == RD_KAFKA_RESP_ERR__PARTITION_EOF) {
            partition->end = message->offset;
            continue;
        }
        if (message->err == RD_KAFKA_RESP_ERR__AUTO_OFFSET_RESET)
            return fail_lost_offset(partition, message, err);
        rc = kafka_fail(err, (int)message->err, "%s/%d: %s", partition->name,
                        (int)partition->number, rd_kafka_message_errstr(message));
        if (rc == RC_REJECT || rc == RC_FATAL)
            return rc;
        worst = rc == RC_RETRY ? rc : worst;
    }
    return worst;
}

static void stream_headers(void *ctx, const struct record *record, struct buf *out)
{
    rd_kafka_headers_t *headers = NULL;
    const char *name;
    const void *value;
    size_t len;

    (void)ctx;
    record_headers_begin(out);
    if (rd_kafka_message_headers(record->message, &headers) == RD_KAFKA_RESP_ERR_NO_ERROR)
        for (size_t i = 0;
             rd_kafka_header_get_all(headers, i, &name, &value, &len) == RD_KAFKA_RESP_ERR_NO_ERROR;
             i++)
            record_headers_add(out, i, name, value, len);
    record_headers_end(out);
}

static void stream_store_offset(void *ctx, void *handle, int64_t next_offset)
{
    struct stream_kafka *stream = ctx;
    const struct group_partition *partition = handle;
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(1);

    rd_kafka_topic_partition_list_add(list, partition->name, partition->number)->offset =
        next_offset;
    /* Fails while the group rebalances. Correctness does not depend on it. */
    (void)rd_kafka_offsets_store(stream->kafka, list);
    rd_kafka_topic_partition_list_destroy(list);
}

static int64_t stream_high_watermark(void *ctx, void *handle)
{
    struct stream_kafka *stream = ctx;
    const struct group_partition *partition = handle;
    int64_t low = -1;
    int64_t high = -1;

    if (rd_kafka_get_watermark_offsets(stream->kafka, partition->name, partition->number, &low,
                                       &high) != RD_KAFKA_RESP_ERR_NO_ERROR)
        return -1;
    return high;
}

static int64_t stream_end(void *ctx, void *handle)
{
    const struct group_partition *partition = handle;

    (void)ctx;
    return partition->end;
}

static enum rc stream_topic_id(void *ctx, const char *topic, char id[TOPIC_ID_SIZE])
{
    struct stream_kafka *stream = ctx;

    return topic_ids_get(stream->topics, topic, id);
}

static enum rc stream_check_topics(void *ctx, struct err *err)
{
    struct stream_kafka *stream = ctx;

    return topic_ids_check(stream->topics, err);
}

/* A cluster without brokers counts as no answer. */
static enum rc stream_probe(void *ctx, struct err *err)
{
    struct stream_kafka *stream = ctx;
    const struct rd_kafka_metadata *metadata = NULL;
    rd_kafka_resp_err_t code = rd_kafka_metadata(stream->kafka, 0, NULL, &metadata, PROBE_WAIT_MS);
    int brokers = 0;

    if (code == RD_KAFKA_RESP_ERR_NO_ERROR) {
        brokers = metadata->broker_cnt;
        rd_kafka_metadata_destroy(metadata);
    }
    if (brokers > 0) {
        stream->probed = true;
        stream->unanswered = 0;
        return RC_OK;
    }
    if (code != RD_KAFKA_RESP_ERR_NO_ERROR)
        kafka_fail(err, (int)code, "kafka: no broker answers");
    else
        err_set(err, "kafka: the cluster reports no brokers");
    if (++stream->unanswered % NAME_AGAIN_PROBES == 0)
        kafka_name_brokers(stream->kafka);
    return RC_RETRY;
}

/* With group.protocol=consumer the broker assigns partitions, and setting an assignor is an
 * error. */
static bool broker_assigns_partitions(const struct settings *settings)
{
    for (size_t i = 0; i < settings->kafka.count; i++) {
        const struct kafka_property *property = &settings->kafka.properties[i];

        if (strstr(property->name, "group.protocol") && strcmp(property->value, "consumer") == 0)
            return true;
    }
    return false;
}

/* Whether the linked librdkafka has this property. */
static bool library_knows_property(const char *name, const char *value)
{
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    char text[128];
    bool known = rd_kafka_conf_set(conf, name, value, text, sizeof(text)) == RD_KAFKA_CONF_OK;

    rd_kafka_conf_destroy(conf);
    return known;
}

#define MESSAGE_BYTES_MAX 1000000 /* librdkafka's default of message.max.bytes */

/* The largest message.max.bytes that may count, of the default and those in [kafka]: librdkafka
 * refuses a fetch.max.bytes below it. */
static int64_t find_message_bytes_max(const struct settings *settings)
{
    int64_t bytes_max = MESSAGE_BYTES_MAX;

    for (size_t i = 0; i < settings->kafka.count; i++) {
        const struct kafka_property *property = &settings->kafka.properties[i];

        if (strcmp(property->name, "message.max.bytes") == 0 ||
            strcmp(property->name, "consumer.message.max.bytes") == 0) {
            int64_t bytes = strtoll(property->value, NULL, 10);

            bytes_max = bytes > bytes_max ? bytes : bytes_max;
        }
    }
    return bytes_max;
}

struct fetch_limits {
    char partition_bytes[16];
    char response_bytes[16];
    char queue_kbytes[16];
};

/* The limits apply to compressed bytes. The worst case that we plan for is a hundred times as much
 * in memory: with 12 partitions that have one slice each, a third of consumer.memory_max. Measured
 * with records of 900 kB compressed 100:1 by zstd, on 12 partitions: 292 MiB with slices of 128
 * KiB, 46 to 51 MiB with these limits. */
static void set_fetch_limits(struct fetch_limits *limits, const struct settings *settings)
{
    int64_t memory_max = settings->consumer.memory_max;
    int64_t message_bytes_max = find_message_bytes_max(settings);
    int64_t response_bytes = memory_max / 64;

    if (response_bytes < message_bytes_max)
        response_bytes = message_bytes_max;
    snprintf(limits->partition_bytes, sizeof(limits->partition_bytes), "%" PRId64,
             memory_max / 4096);
    snprintf(limits->response_bytes, sizeof(limits->response_bytes), "%" PRId64, response_bytes);
    snprintf(limits->queue_kbytes, sizeof(limits->queue_kbytes), "%" PRId64,
             memory_max / 128 / 1024);
}

/* Sets the sizes of the queues of fetched records. A record in a queue costs a kilobyte whatever
 * its size. Responses are small, because each record keeps its whole response in memory. Older
 * libraries wait for a second when a queue is full, so their queues are longer.
 *
 * librdkafka has one request at a time to each broker and leaves out partitions whose queue is
 * full. While such a request waits for new records of the others, a partition with a backlog gets
 * nothing, so requests wait for a short time only. With the library's default of 500 ms the last
 * and busiest partition arrived at 15 k records/s. */
static size_t set_queue_defaults(const struct fetch_limits *limits, struct kafka_default *defaults)
{
    static const char backoff[] = "fetch.queue.backoff.ms";
    size_t count = 0;

    defaults[count++] =
        (struct kafka_default){"queued.max.messages.kbytes", limits->queue_kbytes, NULL};
    defaults[count++] =
        (struct kafka_default){"fetch.message.max.bytes", limits->partition_bytes, NULL};
    defaults[count++] = (struct kafka_default){"fetch.max.bytes", limits->response_bytes, NULL};
    defaults[count++] = (struct kafka_default){"fetch.wait.max.ms", "50", NULL};
    if (!library_knows_property(backoff, "20"))
        return count;
    defaults[count++] = (struct kafka_default){backoff, "20", NULL};
    defaults[count++] = (struct kafka_default){"queued.min.messages", "500", NULL};
    return count;
}

/* The coordinator announces a rebalance in its answer to a heartbeat. In a cooperative group, a
 * partition that moves is paused until every other member has sent its next heartbeat. The
 * library's default is 3 s. Measured (./dev bench rebalance): with 1 s a partition that moves
 * pauses for 1.2 s. */
#define HEARTBEAT_MS "1000"

#define DEFAULTS_MAX 20

static enum rc make_conf(rd_kafka_conf_t **conf, const struct settings *settings,
                         const char *instance, struct err *err)
{
    const char *assignor = kafka_cooperative() ? "cooperative-sticky" : "range";
    const char *group = installation_group(settings);
    char client[GROUP_CLIENT_SIZE];
    char host[HOST_SIZE];
    struct kafka_default defaults[DEFAULTS_MAX] = {
        /* The settings are checked before the name of the group is known. */
        {"group.id", group[0] ? group : "tallybox", "consumer.group sets it"},
        {"client.id", client, NULL},
        {"enable.auto.offset.store", "false",
         "offsets are stored after the database has committed"},
        {"auto.offset.reset", "error",
         "the start position comes from the database; nothing may be skipped"},
        {"enable.partition.eof", "true", "it tells when a seek is possible"},
        {"allow.auto.create.topics", "false",
         "the relay creates topics with the right number of partitions"},
        {"topic.metadata.refresh.interval.ms", "5000", NULL},
    };
    struct fetch_limits limits;
    size_t count = 7;

    group_client_id(client, installation_id(), instance);
    if (strcmp(settings->consumer.static_member, "host") == 0) {
        os_host_name(host, sizeof(host));
        defaults[count++] = (struct kafka_default){"group.instance.id", host,
                                                   "consumer.static_member = host sets it"};
    }
    set_fetch_limits(&limits, settings);
    count += set_queue_defaults(&limits, defaults + count);
    if (!broker_assigns_partitions(settings)) {
        defaults[count++] = (struct kafka_default){"partition.assignment.strategy", assignor, NULL};
        defaults[count++] = (struct kafka_default){"heartbeat.interval.ms", HEARTBEAT_MS, NULL};
    }
    assert(count <= DEFAULTS_MAX);
    return kafka_conf_make(conf, settings, KAFKA_CONSUMER, defaults, count, err);
}

static void set_ops(struct stream_kafka *stream)
{
    stream->ops = (struct stream){
        .ctx = stream,
        .poll = stream_poll,
        .seek = stream_seek,
        .read = stream_read,
        .headers = stream_headers,
        .store_offset = stream_store_offset,
        .high_watermark = stream_high_watermark,
        .end = stream_end,
        .topic_id = stream_topic_id,
        .check_topics = stream_check_topics,
        .check_group = stream_check_group,
        .probe = stream_probe,
    };
}

const struct stream *stream_kafka_ops(struct stream_kafka *stream)
{
    return &stream->ops;
}

enum rc stream_kafka_check(const struct settings *settings, const char *instance, struct err *err)
{
    rd_kafka_conf_t *conf = NULL;
    enum rc rc = make_conf(&conf, settings, instance, err);

    if (rc == RC_OK)
        rd_kafka_conf_destroy(conf);
    return rc;
}

static enum rc open_handle(struct stream_kafka *stream, const struct settings *settings,
                           const char *instance, int wakeup_fd, struct err *err)
{
    rd_kafka_conf_t *conf = NULL;
    char text[256] = "";
    enum rc rc = make_conf(&conf, settings, instance, err);

    if (rc != RC_OK)
        return rc;
    rd_kafka_conf_set_events(conf, RD_KAFKA_EVENT_REBALANCE | RD_KAFKA_EVENT_ERROR);
    stream->kafka = rd_kafka_new(RD_KAFKA_CONSUMER, conf, text, sizeof(text));
    if (!stream->kafka) {
        rd_kafka_conf_destroy(conf);
        return err_fail(err, RC_FATAL, 0, "cannot make a Kafka consumer: %s", text);
    }
    group_init(&stream->group, stream->kafka, wakeup_fd);
    return RC_OK;
}

enum rc stream_kafka_open(struct stream_kafka **out, const struct settings *settings,
                          const char *instance, int wakeup_fd, struct err *err)
{
    struct stream_kafka *stream = calloc(1, sizeof(*stream));
    enum rc rc;

    assert(installation_group(settings)[0]);
    if (!stream)
        return err_fail(err, RC_FATAL, 0, "no memory for a Kafka consumer");
    set_ops(stream);
    stream->settings = settings;
    rc = open_handle(stream, settings, instance, wakeup_fd, err);
    if (rc == RC_OK)
        rc = topic_ids_open(&stream->topics, stream->kafka, settings->consumer.topics, err);
    if (rc == RC_OK)
        group_check_init(&stream->check, stream->kafka, installation_group(settings),
                         installation_id(), wakeup_fd);
    if (rc == RC_OK)
        rc = follow_check(stream, err);
    if (rc != RC_OK) {
        stream_kafka_close(stream, os_now_ms() + CLOSE_MS_MAX);
        return rc;
    }
    *out = stream;
    return RC_OK;
}

bool stream_kafka_close(struct stream_kafka *stream, int64_t until_ms)
{
    int64_t ms = until_ms - os_now_ms();
    int flags = 0;
    bool closed = true;

    if (!stream)
        return true;
    release_messages(stream);
    /* The remaining time is for offset commits. */
    if (stream->kafka && !group_leave(&stream->group, ms / 3 * 2))
        flags = RD_KAFKA_DESTROY_F_NO_CONSUMER_CLOSE;
    group_done(&stream->group);
    group_check_done(&stream->check);
    topic_ids_close(stream->topics);
    if (stream->kafka)
        closed = kafka_destroy(stream->kafka, flags, until_ms);
    free(stream);
    return closed;
}
