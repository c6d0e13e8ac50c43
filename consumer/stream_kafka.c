/* SPDX-License-Identifier: MIT */
#include "consumer/stream_kafka.h"

#include "common/kafka.h"
#include "common/os.h"
#include "consumer/headers_row.h"
#include "consumer/topic_kafka.h"

#include <assert.h>
#include <librdkafka/rdkafka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define READ_MAX 512
#define SEEK_WAIT_MS 500
#define PROBE_WAIT_MS 300
#define LEAVE_WAIT_MS 5000
#define LEAVE_POLL_MS 50

/* A partition of ours, between its assignment and its revocation. */
struct partition {
    rd_kafka_queue_t *queue;
    bool answered; /* no question for an offset is under way: see partition_settled() */
    char name[TOPIC_SIZE];
    int32_t number;
};

struct stream_kafka {
    struct stream seam;
    rd_kafka_t *kafka;
    rd_kafka_queue_t *queue; /* news of the group and the handle */
    struct topic_ids *topics;
    int bell_fd;
    struct partition **partitions;
    size_t partition_count;
    struct stream_place *places; /* of the last event */
    size_t size;                 /* of these arrays */
    struct partition **leaving;  /* revoked; freed with the next event */
    size_t leaving_count;
    rd_kafka_message_t *messages[READ_MAX]; /* of the last read */
    size_t message_count;
};

static const uint64_t bell_bytes = 1;

static void messages_release(struct stream_kafka *stream)
{
    for (size_t i = 0; i < stream->message_count; i++)
        rd_kafka_message_destroy(stream->messages[i]);
    stream->message_count = 0;
}

static void partition_free(struct partition *partition)
{
    rd_kafka_queue_destroy(partition->queue);
    free(partition);
}

static void leaving_free(struct stream_kafka *stream)
{
    for (size_t i = 0; i < stream->leaving_count; i++)
        partition_free(stream->leaving[i]);
    stream->leaving_count = 0;
}

/* Room for `more` partitions in all three arrays. */
static bool arrays_grow(struct stream_kafka *stream, size_t more)
{
    size_t size = stream->partition_count + more;
    void *partitions;
    void *leaving;
    void *places;

    if (size <= stream->size)
        return true;
    partitions = realloc(stream->partitions, size * sizeof(struct partition *));
    if (partitions)
        stream->partitions = partitions;
    leaving = realloc(stream->leaving, size * sizeof(struct partition *));
    if (leaving)
        stream->leaving = leaving;
    places = realloc(stream->places, size * sizeof(*stream->places));
    if (places)
        stream->places = places;
    if (!partitions || !leaving || !places)
        return false;
    stream->size = size;
    return true;
}

static struct partition *partition_find(const struct stream_kafka *stream, const char *topic,
                                        int32_t number)
{
    for (size_t i = 0; i < stream->partition_count; i++)
        if (stream->partitions[i]->number == number &&
            strcmp(stream->partitions[i]->name, topic) == 0)
            return stream->partitions[i];
    return NULL;
}

/* Its queue is taken out of the common one before the first record can come, so that records wait
 * where only stream_read() looks. */
static struct partition *partition_make(struct stream_kafka *stream, const char *topic,
                                        int32_t number)
{
    struct partition *partition = calloc(1, sizeof(*partition));

    if (!partition)
        return NULL;
    snprintf(partition->name, sizeof(partition->name), "%s", topic);
    partition->number = number;
    partition->queue = rd_kafka_queue_get_partition(stream->kafka, topic, number);
    if (!partition->queue) {
        free(partition);
        return NULL;
    }
    rd_kafka_queue_forward(partition->queue, NULL);
    rd_kafka_queue_io_event_enable(partition->queue, stream->bell_fd, &bell_bytes,
                                   sizeof(bell_bytes));
    return partition;
}

static void place_add(struct stream_event *event, struct stream_place *places,
                      struct partition *partition)
{
    places[event->count++] = (struct stream_place){
        .place = {.topic = partition->name, .partition = partition->number}, .handle = partition};
}

static void trouble(struct stream_event *event, enum rc rc, const struct err *err)
{
    event->kind = STREAM_TROUBLE;
    event->rc = rc;
    event->err = *err;
}

static bool cooperative(rd_kafka_t *kafka)
{
    const char *protocol = rd_kafka_rebalance_protocol(kafka);

    return protocol && strcmp(protocol, "COOPERATIVE") == 0;
}

/* A group that cannot be answered would wait for us until it throws us out: start over. */
static void answer_check(struct stream_event *event, int code, const char *what)
{
    struct err err = {0};

    if (code == RD_KAFKA_RESP_ERR_NO_ERROR)
        return;
    kafka_fail(&err, code, "cannot answer the group (%s)", what);
    trouble(event, RC_FATAL, &err);
}

static void answer(struct stream_kafka *stream, struct stream_event *event,
                   const rd_kafka_topic_partition_list_t *list, bool assign)
{
    const char *what = assign ? "assign" : "unassign";
    rd_kafka_error_t *error;

    if (!cooperative(stream->kafka)) {
        answer_check(event, rd_kafka_assign(stream->kafka, assign ? list : NULL), what);
        return;
    }
    error = assign ? rd_kafka_incremental_assign(stream->kafka, list)
                   : rd_kafka_incremental_unassign(stream->kafka, list);
    answer_check(event, rd_kafka_error_code(error), what);
    if (error)
        rd_kafka_error_destroy(error);
}

/* They start at their ends, where little is fetched in vain: the seek that follows the claim says
 * where they really start. */
static void take_assigned(struct stream_kafka *stream, rd_kafka_topic_partition_list_t *list,
                          struct stream_event *event)
{
    struct err err = {0};

    event->kind = STREAM_ASSIGNED;
    event->places = stream->places;
    if (!arrays_grow(stream, (size_t)list->cnt)) {
        err_set(&err, "no memory for %d partitions", list->cnt);
        trouble(event, RC_FATAL, &err);
        return;
    }
    event->places = stream->places;
    for (int i = 0; i < list->cnt; i++) {
        rd_kafka_topic_partition_t *elem = &list->elems[i];
        struct partition *partition = partition_make(stream, elem->topic, elem->partition);

        if (!partition) {
            err_set(&err, "no memory for the queue of %s/%d", elem->topic, (int)elem->partition);
            trouble(event, RC_FATAL, &err);
            return;
        }
        elem->offset = RD_KAFKA_OFFSET_END;
        stream->partitions[stream->partition_count++] = partition;
        place_add(event, stream->places, partition);
    }
    topic_ids_doubt(stream->topics);
    answer(stream, event, list, true);
}

static void partition_leaves(struct stream_kafka *stream, struct partition *partition)
{
    for (size_t i = 0; i < stream->partition_count; i++) {
        if (stream->partitions[i] != partition)
            continue;
        stream->partitions[i] = stream->partitions[--stream->partition_count];
        stream->leaving[stream->leaving_count++] = partition;
        return;
    }
}

static void take_revoked(struct stream_kafka *stream, const rd_kafka_topic_partition_list_t *list,
                         struct stream_event *event)
{
    event->kind = STREAM_REVOKED;
    event->lost = rd_kafka_assignment_lost(stream->kafka) != 0;
    event->places = stream->places;
    for (int i = 0; i < list->cnt; i++) {
        struct partition *partition =
            partition_find(stream, list->elems[i].topic, list->elems[i].partition);

        if (!partition)
            continue;
        partition_leaves(stream, partition);
        place_add(event, stream->places, partition);
    }
    answer(stream, event, list, false);
}

static void take_rebalance(struct stream_kafka *stream, rd_kafka_event_t *got,
                           struct stream_event *event)
{
    rd_kafka_topic_partition_list_t *list = rd_kafka_event_topic_partition_list(got);

    if (rd_kafka_event_error(got) == RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS)
        take_assigned(stream, list, event);
    else
        take_revoked(stream, list, event);
}

/* Of errors that concern a topic or a partition the caller is told as RC_REJECT: the broker itself
 * is well. */
static void take_error(struct stream_kafka *stream, rd_kafka_event_t *got,
                       struct stream_event *event)
{
    int code = (int)rd_kafka_event_error(got);
    struct err err = {0};
    char text[256];
    enum rc rc;

    if (code == RD_KAFKA_RESP_ERR__FATAL) {
        code = (int)rd_kafka_fatal_error(stream->kafka, text, sizeof(text));
        rc = err_fail(&err, RC_FATAL, code, "kafka: %s", text);
    } else {
        rc = kafka_fail(&err, code, "kafka: %s", rd_kafka_event_error_string(got));
    }
    if (rc != RC_OK)
        trouble(event, rc, &err);
}

/* Waits for news up to wait_ms. */
static void event_take(struct stream_kafka *stream, struct stream_event *event, int wait_ms)
{
    rd_kafka_event_t *got;

    messages_release(stream);
    leaving_free(stream);
    *event = (struct stream_event){.kind = STREAM_NOTHING};
    topic_ids_poll(stream->topics, os_now_ms());
    /* Some events are nobody's business: go on to the next one, or to the end. */
    while (event->kind == STREAM_NOTHING) {
        got = rd_kafka_queue_poll(stream->queue, wait_ms);
        if (!got)
            return;
        if (rd_kafka_event_type(got) == RD_KAFKA_EVENT_REBALANCE)
            take_rebalance(stream, got, event);
        else if (rd_kafka_event_type(got) == RD_KAFKA_EVENT_ERROR)
            take_error(stream, got, event);
        rd_kafka_event_destroy(got);
    }
}

static void stream_poll(void *ctx, struct stream_event *event)
{
    event_take(ctx, event, 0);
}

static enum rc seek_result(const struct partition *partition, int code, const char *text,
                           struct err *err)
{
    if (code == RD_KAFKA_RESP_ERR_NO_ERROR)
        return RC_OK;
    /* Mostly "erroneous state": the assignment has not taken effect yet. */
    return err_fail(err, kafka_classify(code) == RC_FATAL ? RC_FATAL : RC_RETRY, code,
                    "cannot seek %s/%d: %s", partition->name, (int)partition->number, text);
}

/* A seek while librdkafka still asks where "the end" is gets lost: the late answer puts it back to
 * the end, and all records before would be skipped. So wait until a fetch has answered: with a
 * record, or with the end of the partition (enable.partition.eof). */
static bool partition_settled(struct stream_kafka *stream, struct partition *partition)
{
    ssize_t got;

    if (partition->answered)
        return true;
    messages_release(stream);
    got = rd_kafka_consume_batch_queue(partition->queue, 0, stream->messages, READ_MAX);
    stream->message_count = got > 0 ? (size_t)got : 0;
    partition->answered = got > 0;
    return partition->answered;
}

static enum rc stream_seek(void *ctx, void *handle, int64_t offset, int32_t leader_epoch,
                           struct err *err)
{
    struct stream_kafka *stream = ctx;
    struct partition *partition = handle;
    rd_kafka_topic_partition_list_t *list;
    rd_kafka_topic_partition_t *elem;
    rd_kafka_error_t *error;
    enum rc rc;

    if (!partition_settled(stream, partition))
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
    /* The beginning must be asked for, too. */
    partition->answered = rc == RC_OK && offset != OFFSET_BEGINNING;
    return rc;
}

static void record_fill(struct record *record, const rd_kafka_message_t *message)
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

static enum rc offset_is_gone(const struct partition *partition, const rd_kafka_message_t *message,
                              struct err *err)
{
    return err_fail(err, RC_REJECT, (int)message->err,
                    "the next record to apply is not there any more (%s); decide with "
                    "tallybox consume --restart-partition %s/%d@earliest, @latest or @OFFSET",
                    rd_kafka_message_errstr(message), partition->name, (int)partition->number);
}

static enum rc stream_read(void *ctx, void *handle, struct record *records, size_t records_max,
                           size_t *count, struct err *err)
{
    struct stream_kafka *stream = ctx;
    struct partition *partition = handle;
    size_t wanted = records_max < READ_MAX ? records_max : READ_MAX;
    enum rc worst = RC_OK;
    ssize_t got;

    messages_release(stream);
    *count = 0;
    got = rd_kafka_consume_batch_queue(partition->queue, 0, stream->messages, wanted);
    stream->message_count = got > 0 ? (size_t)got : 0;
    partition->answered |= got > 0;
    for (size_t i = 0; i < stream->message_count; i++) {
        const rd_kafka_message_t *message = stream->messages[i];
        enum rc rc;

        if (message->err == RD_KAFKA_RESP_ERR_NO_ERROR) {
            record_fill(&records[(*count)++], message);
            continue;
        }
        if (message->err == RD_KAFKA_RESP_ERR__PARTITION_EOF)
            continue;
        if (message->err == RD_KAFKA_RESP_ERR__AUTO_OFFSET_RESET)
            return offset_is_gone(partition, message, err);
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
    headers_begin(out);
    if (rd_kafka_message_headers(record->message, &headers) == RD_KAFKA_RESP_ERR_NO_ERROR)
        for (size_t i = 0;
             rd_kafka_header_get_all(headers, i, &name, &value, &len) == RD_KAFKA_RESP_ERR_NO_ERROR;
             i++)
            headers_add(out, i, name, value, len);
    headers_end(out);
}

static void stream_store_offset(void *ctx, void *handle, int64_t next_offset)
{
    struct stream_kafka *stream = ctx;
    const struct partition *partition = handle;
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(1);

    rd_kafka_topic_partition_list_add(list, partition->name, partition->number)->offset =
        next_offset;
    /* It can fail while the group changes; nothing rests on it. */
    (void)rd_kafka_offsets_store(stream->kafka, list);
    rd_kafka_topic_partition_list_destroy(list);
}

static int64_t stream_high_watermark(void *ctx, void *handle)
{
    struct stream_kafka *stream = ctx;
    const struct partition *partition = handle;
    int64_t low = -1;
    int64_t high = -1;

    if (rd_kafka_get_watermark_offsets(stream->kafka, partition->name, partition->number, &low,
                                       &high) != RD_KAFKA_RESP_ERR_NO_ERROR)
        return -1;
    return high;
}

static enum rc stream_topic_id(void *ctx, const char *topic, char id[TOPIC_ID_SIZE])
{
    struct stream_kafka *stream = ctx;

    return topic_ids_get(stream->topics, topic, id);
}

static enum rc stream_probe(void *ctx, struct err *err)
{
    struct stream_kafka *stream = ctx;
    const struct rd_kafka_metadata *metadata = NULL;
    rd_kafka_resp_err_t code = rd_kafka_metadata(stream->kafka, 0, NULL, &metadata, PROBE_WAIT_MS);

    if (code != RD_KAFKA_RESP_ERR_NO_ERROR) {
        kafka_fail(err, (int)code, "kafka: no broker answers");
        return RC_RETRY;
    }
    rd_kafka_metadata_destroy(metadata);
    return RC_OK;
}

static void seam_set(struct stream_kafka *stream)
{
    stream->seam = (struct stream){
        .ctx = stream,
        .poll = stream_poll,
        .seek = stream_seek,
        .read = stream_read,
        .headers = stream_headers,
        .store_offset = stream_store_offset,
        .high_watermark = stream_high_watermark,
        .topic_id = stream_topic_id,
        .probe = stream_probe,
    };
}

const struct stream *stream_kafka_seam(struct stream_kafka *stream)
{
    return &stream->seam;
}

/* With group.protocol=consumer the broker assigns, and naming an assignor is an error. */
static bool broker_assigns(const struct settings *settings)
{
    for (size_t i = 0; i < settings->kafka.count; i++) {
        const struct kafka_property *property = &settings->kafka.properties[i];

        if (strstr(property->name, "group.protocol") && strcmp(property->value, "consumer") == 0)
            return true;
    }
    return false;
}

/* Is there a property of this name in the library that runs? */
static bool library_knows(const char *name, const char *value)
{
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    char text[128];
    bool known = rd_kafka_conf_set(conf, name, value, text, sizeof(text)) == RD_KAFKA_CONF_OK;

    rd_kafka_conf_destroy(conf);
    return known;
}

/* What every partition holds ready for us. A record waits in a queue of its partition and costs a
 * kilobyte there whatever its size; small answers, because a record keeps the whole answer that it
 * came with in memory. Older libraries wait for a second when a queue is full: theirs is longer. */
static size_t queue_defaults(struct kafka_default *defaults)
{
    static const char backoff[] = "fetch.queue.backoff.ms";
    size_t count = 0;

    defaults[count++] = (struct kafka_default){"queued.max.messages.kbytes", "512", NULL};
    defaults[count++] = (struct kafka_default){"fetch.message.max.bytes", "131072", NULL};
    defaults[count++] = (struct kafka_default){"fetch.max.bytes", "1048576", NULL};
    if (!library_knows(backoff, "20"))
        return count;
    defaults[count++] = (struct kafka_default){backoff, "20", NULL};
    defaults[count++] = (struct kafka_default){"queued.min.messages", "500", NULL};
    return count;
}

static enum rc conf_make(rd_kafka_conf_t **conf, const struct settings *settings,
                         const char *instance, struct err *err)
{
    const char *assignor = kafka_cooperative() ? "cooperative-sticky" : "range";
    struct kafka_default defaults[16] = {
        {"group.id", settings->consumer.group, "it is set by consumer.group"},
        {"client.id", instance, NULL},
        {"enable.auto.offset.store", "false",
         "offsets are stored after the database has committed"},
        {"auto.offset.reset", "error", "the database says where to go on; nothing may be skipped"},
        {"enable.partition.eof", "true", "it tells when a partition may be sought"},
        {"allow.auto.create.topics", "false", "the relay makes topics, with the right partitions"},
        {"topic.metadata.refresh.interval.ms", "5000", NULL},
    };
    size_t count = 7;

    count += queue_defaults(defaults + count);
    if (!broker_assigns(settings))
        defaults[count++] = (struct kafka_default){"partition.assignment.strategy", assignor, NULL};
    return kafka_conf_make(conf, settings, KAFKA_CONSUMER, defaults, count, err);
}

enum rc stream_kafka_check(const struct settings *settings, const char *instance, struct err *err)
{
    rd_kafka_conf_t *conf = NULL;
    enum rc rc = conf_make(&conf, settings, instance, err);

    if (rc == RC_OK)
        rd_kafka_conf_destroy(conf);
    return rc;
}

static enum rc handle_open(struct stream_kafka *stream, const struct settings *settings,
                           const char *instance, struct err *err)
{
    rd_kafka_conf_t *conf = NULL;
    char text[256] = "";
    enum rc rc = conf_make(&conf, settings, instance, err);

    if (rc != RC_OK)
        return rc;
    rd_kafka_conf_set_events(conf, RD_KAFKA_EVENT_REBALANCE | RD_KAFKA_EVENT_ERROR);
    stream->kafka = rd_kafka_new(RD_KAFKA_CONSUMER, conf, text, sizeof(text));
    if (!stream->kafka) {
        rd_kafka_conf_destroy(conf);
        return err_fail(err, RC_FATAL, 0, "cannot make a Kafka consumer: %s", text);
    }
    rd_kafka_poll_set_consumer(stream->kafka);
    stream->queue = rd_kafka_queue_get_consumer(stream->kafka);
    rd_kafka_queue_io_event_enable(stream->queue, stream->bell_fd, &bell_bytes, sizeof(bell_bytes));
    return RC_OK;
}

static enum rc subscribe(struct stream_kafka *stream, const char *topics, struct err *err)
{
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(4);
    rd_kafka_resp_err_t code;
    char name[TOPIC_SIZE];

    while (*topics) {
        size_t len = strcspn(topics, ",");

        snprintf(name, sizeof(name), "%.*s", (int)len, topics);
        rd_kafka_topic_partition_list_add(list, name, RD_KAFKA_PARTITION_UA);
        topics += len;
        topics += *topics == ',';
    }
    code = rd_kafka_subscribe(stream->kafka, list);
    rd_kafka_topic_partition_list_destroy(list);
    if (code == RD_KAFKA_RESP_ERR_NO_ERROR)
        return RC_OK;
    kafka_fail(err, (int)code, "cannot subscribe to the topics");
    return RC_FATAL;
}

enum rc stream_kafka_open(struct stream_kafka **out, const struct settings *settings,
                          const char *instance, int bell_fd, struct err *err)
{
    struct stream_kafka *stream = calloc(1, sizeof(*stream));
    enum rc rc;

    if (!stream)
        return err_fail(err, RC_FATAL, 0, "no memory for a Kafka consumer");
    stream->bell_fd = bell_fd;
    seam_set(stream);
    rc = handle_open(stream, settings, instance, err);
    if (rc == RC_OK)
        rc = topic_ids_open(&stream->topics, stream->kafka, settings->consumer.topics, err);
    if (rc == RC_OK)
        rc = subscribe(stream, settings->consumer.topics, err);
    if (rc != RC_OK) {
        stream_kafka_close(stream);
        return rc;
    }
    *out = stream;
    return RC_OK;
}

/* librdkafka can hang when an assignment arrives while it closes: so first leave, answer what
 * comes, and close when nothing is held. True when that went well. */
static bool leave(struct stream_kafka *stream)
{
    int64_t until_ms = os_now_ms() + LEAVE_WAIT_MS;
    struct stream_event event;

    if (rd_kafka_unsubscribe(stream->kafka) != RD_KAFKA_RESP_ERR_NO_ERROR)
        return false;
    for (;;) {
        rd_kafka_topic_partition_list_t *list = NULL;
        bool held = true;

        event_take(stream, &event, LEAVE_POLL_MS);
        if (event.kind == STREAM_TROUBLE && event.rc == RC_FATAL)
            return false;
        if (event.kind != STREAM_NOTHING)
            continue;
        if (rd_kafka_assignment(stream->kafka, &list) == RD_KAFKA_RESP_ERR_NO_ERROR) {
            held = list->cnt > 0;
            rd_kafka_topic_partition_list_destroy(list);
        }
        if (!held && stream->partition_count == 0)
            return true;
        if (os_now_ms() > until_ms)
            return false;
    }
}

void stream_kafka_close(struct stream_kafka *stream)
{
    int flags = 0;

    if (!stream)
        return;
    messages_release(stream);
    if (stream->topics && !leave(stream))
        flags = RD_KAFKA_DESTROY_F_NO_CONSUMER_CLOSE;
    leaving_free(stream);
    for (size_t i = 0; i < stream->partition_count; i++)
        partition_free(stream->partitions[i]);
    topic_ids_close(stream->topics);
    if (stream->queue)
        rd_kafka_queue_destroy(stream->queue);
    if (stream->kafka)
        rd_kafka_destroy_flags(stream->kafka, flags);
    free(stream->partitions);
    free(stream->leaving);
    free(stream->places);
    free(stream);
}
