/* SPDX-License-Identifier: MIT */
#include "outbox/retry/handlers/exact_publisher_kafka.h"

#include "common/hash.h"
#include "common/kafka/kafka.h"
#include "common/os.h"
#include "outbox/relay/exact/position_record.h"
#include "outbox/relay/exact/position_topic_kafka.h"
#include "outbox/relay/exact/published_tasks.h"
#include "outbox/relay/producer_kafka.h"
#include "outbox/retry/handler.h"
#include "outbox/retry/handlers/record_topics_kafka.h"
#include "outbox/retry/retry.h"

#include <inttypes.h>
#include <librdkafka/rdkafka.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A lane has as many shards, and more lanes share the places: a place that gets another lane or
 * shard closes its producer. */
#define PRODUCERS RETRY_SHARDS

/* Ends of tasks that no producer has taken yet; of the oldest of more, the tasks stay in their
 * lists. */
#define ENDED_MAX 1024

#define ID_SIZE (POSITION_KEY_SIZE + 32)

/* The topic is read without a look at the lease, so it is bounded; the lease is looked at before
 * anything is sent. */
#define READ_MS_MAX 3000
#define TURN_MS 5
#define REPORT_MS 2000
#define STOP_GRACE_MS 1000

/* A transaction that a killed process has left open, hides all that is behind it from readers of
 * committed records, if no other process gets a task of the lane and shard. */
#define TIMEOUT_MS_MIN 10000
#define TIMEOUT_MS_MAX 30000

/* A record of one transaction, and its delivery. */
struct delivery {
    bool reported;
    enum rc rc;
    struct err err;
};

/* Used by one thread at a time. */
struct producer {
    bool used;        /* under the publisher's lock */
    char id[ID_SIZE]; /* the transactional id, and the key of the list; empty: none yet */
    rd_kafka_t *kafka;
    struct record_topics topics;
    struct published_tasks published;
    struct position_record position; /* of the lane, as last read */
    bool has_position;
    struct buf text;
};

struct exact_publisher {
    const struct settings *settings;
    struct stop *stop;
    pthread_mutex_t lock; /* guards the ended ones, and `used` of producers */
    struct {
        uint64_t owner; /* see find_owner() */
        struct published_task task;
    } ended[ENDED_MAX]; /* the oldest first */
    size_t ended_count;
    struct producer producers[PRODUCERS];
};

/* One attempt at a task. */
struct attempt {
    struct exact_publisher *publisher;
    struct producer *producer;
    const struct exact_task *task;
    const struct publisher_record *record;
    struct published_task name;
    int64_t until_ms;
    bool is_committing; /* a stop does not end it at once */
    struct err *err;
};

/* Of tasks with one transactional id. */
static uint64_t find_owner(const struct exact_task *task)
{
    return hash_bytes(HASH_START, task->lane_key, strlen(task->lane_key)) + task->shard;
}

static int64_t compute_left_ms(const struct attempt *attempt)
{
    int64_t lease_until_ms = atomic_load(attempt->record->lease_until_ms);

    return (lease_until_ms < attempt->until_ms ? lease_until_ms : attempt->until_ms) - os_now_ms();
}

/* The time of one part of a call that waits. */
static int part_ms(const struct attempt *attempt)
{
    int64_t left_ms = compute_left_ms(attempt);

    if (left_ms > HANDLER_WAIT_MS_MAX)
        return HANDLER_WAIT_MS_MAX;
    return left_ms > 1 ? (int)left_ms : 1;
}

/* Whether the attempt goes on: between two parts of a call. */
static bool goes_on(struct attempt *attempt)
{
    int64_t grace_until_ms = stop_until_ms(attempt->publisher->stop, STOP_GRACE_MS);

    loop_goes_on(os_now_ms());
    if (stop_requested(attempt->publisher->stop)) {
        if (!attempt->is_committing)
            return false;
        if (grace_until_ms < attempt->until_ms)
            attempt->until_ms = grace_until_ms;
    }
    return compute_left_ms(attempt) > 0;
}

/* Why it does not go on. */
static enum publisher_end end_early(const struct attempt *attempt)
{
    if (os_now_ms() >= atomic_load(attempt->record->lease_until_ms))
        return PUBLISH_LOST;
    if (stop_requested(attempt->publisher->stop))
        return PUBLISH_CUT;
    err_fail(attempt->err, RC_RETRY, RD_KAFKA_RESP_ERR__TIMED_OUT,
             "kafka: topic %s: the transaction is not committed in time", attempt->record->topic);
    return PUBLISH_FAILED;
}

static void close_producer(struct producer *producer)
{
    if (producer->kafka) {
        rd_kafka_purge(producer->kafka, RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT);
        rd_kafka_destroy(producer->kafka);
    }
    producer->kafka = NULL;
    producer->topics.count = 0;
    producer->published.count = 0;
}

static bool take_place(struct attempt *attempt, size_t place)
{
    struct exact_publisher *publisher = attempt->publisher;
    struct producer *producer = &publisher->producers[place];
    bool taken = false;

    while (!taken) {
        pthread_mutex_lock(&publisher->lock);
        taken = !producer->used;
        producer->used = true;
        pthread_mutex_unlock(&publisher->lock);
        if (!taken && (!goes_on(attempt) || stop_wait(publisher->stop, TURN_MS)))
            return false;
    }
    attempt->producer = producer;
    return true;
}

static void give_place(struct exact_publisher *publisher, struct producer *producer)
{
    pthread_mutex_lock(&publisher->lock);
    producer->used = false;
    pthread_mutex_unlock(&publisher->lock);
}

/* Tasks that are ended leave the list of their producer. */
static void take_ended(struct exact_publisher *publisher, struct producer *producer, uint64_t owner)
{
    size_t kept = 0;

    pthread_mutex_lock(&publisher->lock);
    for (size_t i = 0; i < publisher->ended_count; i++) {
        if (publisher->ended[i].owner == owner)
            published_tasks_remove(&producer->published, &publisher->ended[i].task);
        else
            publisher->ended[kept++] = publisher->ended[i];
    }
    publisher->ended_count = kept;
    pthread_mutex_unlock(&publisher->lock);
}

static bool is_fenced(int code)
{
    return code == RD_KAFKA_RESP_ERR__FENCED || code == RD_KAFKA_RESP_ERR_PRODUCER_FENCED ||
           code == RD_KAFKA_RESP_ERR_INVALID_PRODUCER_EPOCH;
}

/* Takes the error over. */
static enum publisher_end take_error(const struct attempt *attempt, rd_kafka_error_t *error,
                                     const char *what)
{
    int code = rd_kafka_error_code(error);

    err_fail(attempt->err, RC_RETRY, code, "kafka: %s with transactional.id %s: %s%s", what,
             attempt->producer->id, rd_kafka_error_string(error),
             code == RD_KAFKA_RESP_ERR_TRANSACTIONAL_ID_AUTHORIZATION_FAILED
                 ? "; the user of [kafka] lacks the ACLs Describe and Write on this transactional "
                   "id"
                 : "");
    rd_kafka_error_destroy(error);
    return is_fenced(code) ? PUBLISH_LOST : record_classify_end(RC_RETRY, code);
}

typedef rd_kafka_error_t *(*transaction_call)(rd_kafka_t *kafka, int timeout_ms);

/* A call that timed out goes on when it is made again. */
static enum publisher_end call_in_parts(struct attempt *attempt, transaction_call call,
                                        const char *what)
{
    for (;;) {
        rd_kafka_error_t *error = call(attempt->producer->kafka, part_ms(attempt));

        if (!error)
            return PUBLISHED;
        if (rd_kafka_error_code(error) != RD_KAFKA_RESP_ERR__TIMED_OUT || !goes_on(attempt)) {
            bool is_late = rd_kafka_error_code(error) == RD_KAFKA_RESP_ERR__TIMED_OUT;
            enum publisher_end end = take_error(attempt, error, what);

            return is_late ? end_early(attempt) : end;
        }
        rd_kafka_error_destroy(error);
    }
}

/* Called by rd_kafka_flush(), on the thread of the attempt. */
static void on_delivery(rd_kafka_t *kafka, const rd_kafka_message_t *message, void *opaque)
{
    struct delivery *delivery = message->_private;

    (void)kafka;
    (void)opaque;
    delivery->rc = producer_report(message, &delivery->err);
    delivery->reported = true;
}

/* Errors are in the results of the calls. */
static void on_error(rd_kafka_t *kafka, int code, const char *reason, void *opaque)
{
    (void)kafka;
    (void)code;
    (void)reason;
    (void)opaque;
}

static int64_t clamp_ms(int64_t ms, int64_t least_ms, int64_t most_ms)
{
    if (ms < least_ms)
        return least_ms;
    return ms > most_ms ? most_ms : ms;
}

static enum rc make_conf(rd_kafka_conf_t **conf, const struct settings *settings, const char *id,
                         struct err *err)
{
    int64_t timeout_ms = clamp_ms(2 * settings->retry.lease_ms, TIMEOUT_MS_MIN, TIMEOUT_MS_MAX);
    int64_t bytes = settings->relay.row_bytes_max + RETRY_OPTIONS_BYTES_MAX + PRODUCER_RECORD_EXTRA;
    char timeout_text[24];
    char message_text[24];
    char bytes_text[24];

    snprintf(timeout_text, sizeof(timeout_text), "%" PRId64, timeout_ms);
    snprintf(message_text, sizeof(message_text), "%" PRId64,
             clamp_ms(settings->relay.send_timeout_ms, 1, timeout_ms));
    snprintf(bytes_text, sizeof(bytes_text), "%" PRId64, bytes);
    const struct kafka_default defaults[] = {
        {"transactional.id", id, "tasks of rows that are published once have their own"},
        {"transaction.timeout.ms", timeout_text, NULL},
        {"message.timeout.ms", message_text, "relay.send_timeout_ms counts"},
        {"message.max.bytes", bytes_text, NULL},
        {"linger.ms", "0", NULL},
    };

    return producer_conf_make(conf, settings, defaults, sizeof(defaults) / sizeof(defaults[0]),
                              err);
}

static enum rc make_producer(struct producer *producer, const struct settings *settings,
                             struct err *err)
{
    rd_kafka_conf_t *conf = NULL;
    char text[256] = "";
    enum rc rc = make_conf(&conf, settings, producer->id, err);

    if (rc != RC_OK)
        return rc;
    rd_kafka_conf_set_dr_msg_cb(conf, on_delivery);
    rd_kafka_conf_set_error_cb(conf, on_error);
    producer->kafka = rd_kafka_new(RD_KAFKA_PRODUCER, conf, text, sizeof(text));
    if (producer->kafka)
        return RC_OK;
    rd_kafka_conf_destroy(conf);
    return err_fail(err, RC_FATAL, 0, "kafka: cannot create a producer: %s", text);
}

static int64_t read_until_ms(const struct attempt *attempt)
{
    int64_t left_ms = compute_left_ms(attempt);

    return os_now_ms() + (left_ms < READ_MS_MAX ? left_ms : READ_MS_MAX);
}

/* Step 5. */
static enum rc read_list(struct attempt *attempt)
{
    const struct settings *settings = attempt->publisher->settings;
    struct producer *producer = attempt->producer;
    struct buf *text = &producer->text;
    bool found = false;
    enum rc rc;

    buf_reset(text);
    producer->published.count = 0;
    rc = position_topic_read_value(settings, settings->relay.positions_topic, producer->id,
                                   POSITION_TOPIC_END, read_until_ms(attempt), text, &found,
                                   attempt->err);
    if (rc != RC_OK || !found)
        return rc;
    if (text->failed)
        return err_fail(attempt->err, RC_RETRY, 0, "no memory for the tasks of %s", producer->id);
    rc = published_tasks_read(&producer->published, (struct bytes){text->data, text->len},
                              attempt->err);
    if (rc != RC_OK)
        err_wrap(attempt->err, "kafka: topic %s: the tasks of %s", settings->relay.positions_topic,
                 producer->id);
    return rc;
}

/* Steps 4 and 5, unless the producer is made. Until then nothing was tried: also a transaction of a
 * killed process, which hides the end of the topic, takes its time. */
static enum publisher_end claim_producer(struct attempt *attempt)
{
    struct producer *producer = attempt->producer;
    enum publisher_end end = PUBLISHED;
    enum rc rc;

    if (producer->kafka)
        return PUBLISHED;
    rc = make_producer(producer, attempt->publisher->settings, attempt->err);
    if (rc == RC_OK)
        end = call_in_parts(attempt, rd_kafka_init_transactions, "cannot begin");
    if (rc == RC_OK && end == PUBLISHED)
        rc = read_list(attempt);
    if (rc == RC_OK && end == PUBLISHED)
        return PUBLISHED;
    close_producer(producer);
    if (end != PUBLISHED)
        return end == PUBLISH_FAILED ? PUBLISH_WAITS : end;
    return rc == RC_RETRY ? PUBLISH_WAITS : PUBLISH_BARRED;
}

/* The place may have been that of another lane or shard. */
static void name_producer(struct producer *producer, const struct exact_task *task)
{
    char id[ID_SIZE];

    snprintf(id, sizeof(id), "%s-retry-%u", task->lane_key, task->shard);
    if (strcmp(id, producer->id) == 0)
        return;
    close_producer(producer);
    producer->has_position = false;
    memcpy(producer->id, id, sizeof(id));
}

static enum publisher_end read_position(struct attempt *attempt, enum position_topic_end upto)
{
    const struct settings *settings = attempt->publisher->settings;
    struct producer *producer = attempt->producer;
    enum rc rc;

    position_record_reset(&producer->position);
    rc = position_topic_read_last(settings, settings->relay.positions_topic,
                                  attempt->task->lane_key, upto, read_until_ms(attempt),
                                  &producer->position, &producer->has_position, attempt->err);
    if (rc == RC_OK)
        return PUBLISHED;
    producer->has_position = false;
    return rc == RC_RETRY ? PUBLISH_WAITS : PUBLISH_BARRED;
}

static enum publisher_end refuse_unknown(const struct attempt *attempt)
{
    err_set(attempt->err,
            "the topic %s (relay.positions_topic) does not tell whether the lane has read the row "
            "of this task again: look whether the event is in topic %s, and cancel the task, or "
            "publish it with `tallybox retry edit ID --options '{\"transaction\": null}'`",
            attempt->publisher->settings->relay.positions_topic, attempt->record->topic);
    attempt->err->code = 0;
    return PUBLISH_REFUSED;
}

/* Steps 1 to 3. PUBLISHED: the position has passed the row. */
static enum publisher_end check_passed(struct attempt *attempt)
{
    const struct exact_task *task = attempt->task;
    struct producer *producer = attempt->producer;
    enum position_cover cover = POSITION_BEFORE;
    enum publisher_end end;

    if (producer->has_position)
        cover = position_record_cover(&producer->position, task->epoch, task->term, task->row);
    if (cover == POSITION_BEFORE) {
        end = read_position(attempt, POSITION_TOPIC_DECIDED);
        /* The first record of all may be behind a transaction that another process left open. */
        if (end == PUBLISHED && !producer->has_position)
            end = read_position(attempt, POSITION_TOPIC_END);
        if (end != PUBLISHED)
            return end;
        cover = producer->has_position
                    ? position_record_cover(&producer->position, task->epoch, task->term, task->row)
                    : POSITION_UNKNOWN;
    }
    switch (cover) {
    case POSITION_BEFORE:
        err_set(attempt->err,
                "the relay has not committed the position of %s behind the row of this task yet",
                task->lane_key);
        return PUBLISH_WAITS;
    case POSITION_PASSED:
        return PUBLISHED;
    case POSITION_RETURNS:
        return PUBLISH_VOID;
    case POSITION_UNKNOWN:
        break;
    }
    return refuse_unknown(attempt);
}

static enum publisher_end check_topic(struct attempt *attempt)
{
    struct producer *producer = attempt->producer;
    const char *topic = attempt->record->topic;
    struct kafka_topic_config config;
    enum rc rc;

    if (record_topics_knows(&producer->topics, topic))
        return PUBLISHED;
    rc = record_topic_check(producer->kafka, attempt->publisher->settings, topic,
                            compute_left_ms(attempt) / 2, &config, attempt->err);
    if (rc == RC_OK)
        record_topics_learn(&producer->topics, topic, &config);
    /* The broker refuses the topic for every client. */
    return rc == RC_FATAL ? PUBLISH_BARRED : record_classify_end(rc, attempt->err->code);
}

static enum rc send_to(struct producer *producer, const char *name, struct producer_record *sent,
                       struct delivery *delivery, struct err *err)
{
    rd_kafka_topic_t *topic = rd_kafka_topic_new(producer->kafka, name, NULL);
    enum rc rc;

    if (!topic) {
        rd_kafka_headers_destroy(sent->headers);
        return kafka_fail(err, rd_kafka_last_error(), "kafka: topic %s", name);
    }
    sent->ticket = (uintptr_t)delivery;
    rc = producer_send(producer->kafka, topic, sent, err);
    rd_kafka_topic_destroy(topic);
    return rc;
}

static enum rc send_record(struct attempt *attempt, struct delivery *delivery)
{
    const struct publisher_record *record = attempt->record;
    struct producer *producer = attempt->producer;
    struct producer_record sent = {
        .key = record->key,
        .value = record->value,
        .timestamp_ms = record_topics_timestamp(&producer->topics, record),
        .partition = record->partition,
    };

    sent.headers = record_headers_make(record, sent.timestamp_ms);
    return send_to(producer, record->topic, &sent, delivery, attempt->err);
}

/* With the task in it. */
static enum rc send_list(struct attempt *attempt, struct delivery *delivery)
{
    const char *topic = attempt->publisher->settings->relay.positions_topic;
    struct producer *producer = attempt->producer;
    struct buf *text = &producer->text;
    struct producer_record sent = {.key = {producer->id, strlen(producer->id)}};

    buf_reset(text);
    published_tasks_put(text, &producer->published);
    if (text->failed)
        return err_fail(attempt->err, RC_RETRY, 0, "no memory for the tasks of %s", producer->id);
    sent.value = (struct bytes){text->data, text->len};
    sent.headers = rd_kafka_headers_new(0);
    return send_to(producer, topic, &sent, delivery, attempt->err);
}

/* Ends the transaction without its records, so that readers of committed records do not wait for
 * the next producer. */
static void abort_transaction(struct attempt *attempt)
{
    struct err *err = attempt->err;
    struct err unused = {0};

    attempt->err = &unused;
    call_in_parts(attempt, rd_kafka_abort_transaction, "cannot abort");
    attempt->err = err;
}

/* Both records are queued. */
static enum publisher_end await_deliveries(struct attempt *attempt, const struct delivery *record,
                                           const struct delivery *list)
{
    while (!record->reported || !list->reported) {
        if (!goes_on(attempt))
            return end_early(attempt);
        rd_kafka_flush(attempt->producer->kafka, part_ms(attempt));
    }
    if (record->rc != RC_OK) {
        *attempt->err = record->err;
        return record_classify_end(record->rc, record->err.code);
    }
    *attempt->err = list->err;
    return list->rc == RC_OK ? PUBLISHED : PUBLISH_FAILED;
}

static enum publisher_end send_both(struct attempt *attempt, struct delivery *record,
                                    struct delivery *list)
{
    enum rc rc = send_record(attempt, record);

    if (rc != RC_OK)
        return record_classify_end(rc, attempt->err->code);
    rc = send_list(attempt, list);
    return rc == RC_OK ? await_deliveries(attempt, record, list) : PUBLISH_FAILED;
}

/* After a failure the outcome is not known, or the producer has to begin anew. */
static enum publisher_end run_transaction(struct attempt *attempt)
{
    struct producer *producer = attempt->producer;
    struct delivery record = {0};
    struct delivery list = {0};
    rd_kafka_error_t *error = rd_kafka_begin_transaction(producer->kafka);
    enum publisher_end end;

    if (error) {
        end = take_error(attempt, error, "cannot begin a transaction");
        close_producer(producer);
        return end;
    }
    published_tasks_add(&producer->published, &attempt->name);
    end = send_both(attempt, &record, &list);
    if (end == PUBLISH_REFUSED || end == PUBLISH_BARRED) {
        record_topics_add_limits(&producer->topics, attempt->publisher->settings,
                                 attempt->record->topic, attempt->err);
        record_topics_forget(&producer->topics, attempt->record->topic);
        abort_transaction(attempt);
    }
    if (end == PUBLISHED) {
        attempt->is_committing = true;
        end = call_in_parts(attempt, rd_kafka_commit_transaction, "cannot commit");
    }
    /* The report of a record does not tell that its producer is fenced. */
    if (end == PUBLISH_FAILED && is_fenced(rd_kafka_fatal_error(producer->kafka, NULL, 0)))
        end = PUBLISH_LOST;
    /* Reports that are missing still are made while the deliveries are in scope. */
    if (end != PUBLISHED)
        close_producer(producer);
    return end;
}

static enum publisher_end publish(struct attempt *attempt)
{
    enum publisher_end end = check_passed(attempt);

    if (end == PUBLISHED)
        end = claim_producer(attempt);
    if (end != PUBLISHED || published_tasks_has(&attempt->producer->published, &attempt->name))
        return end;
    end = check_topic(attempt);
    if (end == PUBLISHED && !goes_on(attempt))
        end = end_early(attempt);
    return end == PUBLISHED ? run_transaction(attempt) : end;
}

enum publisher_end exact_publisher_send(struct exact_publisher *publisher,
                                        const struct exact_task *task,
                                        const struct publisher_record *record, struct err *err)
{
    const struct settings *settings = publisher->settings;
    uint64_t owner = find_owner(task);
    struct attempt attempt = {
        .publisher = publisher,
        .task = task,
        .record = record,
        .name = published_task_name(task->id, task->idempotency_key, record->now_ms / 1000),
        .until_ms = os_now_ms() + settings->relay.send_timeout_ms + REPORT_MS,
        .err = err,
    };
    enum publisher_end end;

    if (relay_check_size(record->key.len + record->value.len, settings->relay.row_bytes_max, err) !=
        RC_OK) {
        err->code = RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE;
        return PUBLISH_REFUSED;
    }
    if (!take_place(&attempt, (size_t)(owner % PRODUCERS))) {
        end = end_early(&attempt);
        /* Nothing was tried. */
        if (end != PUBLISH_FAILED)
            return end;
        err_set(err, "another task of %s is published", task->lane_key);
        return PUBLISH_WAITS;
    }
    name_producer(attempt.producer, task);
    take_ended(publisher, attempt.producer, owner);
    end = publish(&attempt);
    give_place(publisher, attempt.producer);
    return end;
}

void exact_publisher_end(struct exact_publisher *publisher, const struct exact_task *task)
{
    pthread_mutex_lock(&publisher->lock);
    if (publisher->ended_count == ENDED_MAX)
        memmove(publisher->ended, publisher->ended + 1,
                --publisher->ended_count * sizeof(publisher->ended[0]));
    publisher->ended[publisher->ended_count].owner = find_owner(task);
    publisher->ended[publisher->ended_count].task =
        published_task_name(task->id, task->idempotency_key, 0);
    publisher->ended_count++;
    pthread_mutex_unlock(&publisher->lock);
}

enum rc exact_publisher_open(struct exact_publisher **out, const struct settings *settings,
                             struct stop *stop, struct err *err)
{
    struct exact_publisher *publisher = calloc(1, sizeof(*publisher));

    if (!publisher)
        return err_fail(err, RC_FATAL, 0, "no memory for a publisher");
    publisher->settings = settings;
    publisher->stop = stop;
    pthread_mutex_init(&publisher->lock, NULL);
    *out = publisher;
    return RC_OK;
}

void exact_publisher_close(struct exact_publisher *publisher)
{
    if (!publisher)
        return;
    for (size_t i = 0; i < PRODUCERS; i++) {
        close_producer(&publisher->producers[i]);
        position_record_done(&publisher->producers[i].position);
        buf_done(&publisher->producers[i].text);
    }
    pthread_mutex_destroy(&publisher->lock);
    free(publisher);
}
