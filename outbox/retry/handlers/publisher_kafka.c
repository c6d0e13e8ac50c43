/* SPDX-License-Identifier: MIT */
#include "outbox/retry/handlers/publisher_kafka.h"

#include "common/kafka/kafka.h"
#include "common/kafka/topic.h"
#include "common/loop.h"
#include "common/os.h"
#include "outbox/relay/producer_kafka.h"
#include "outbox/retry/handler.h"
#include "outbox/retry/handlers/record_topics_kafka.h"
#include "outbox/retry/retry.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <librdkafka/rdkafka.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define POLL_MS 100
#define TRIES_MAX 3

/* A record that is in flight when the process stops gets this much time: an acknowledged record is
 * not published again. */
#define STOP_GRACE_MS 1000

/* librdkafka reports a timed-out record itself; it checks once a second. */
#define REPORT_MS 2000

/* A ticket has its worker in the lower bits. */
#define WORKER_BITS 12

struct producer {
    rd_kafka_t *kafka;
    struct publisher *publisher;
    pthread_t thread; /* serves the reports */
    atomic_bool ended;
    size_t users;
    bool spoiled; /* gets no new users; the last one closes it */
    struct record_topics topics;
    struct err trouble; /* librdkafka's last error */
};

struct slot {
    struct wakeup wakeup;
    uintptr_t ticket; /* of the record in flight; reports of earlier records are ignored */
    bool reported;
    enum rc rc;
    struct err err;
};

struct publisher {
    const struct settings *settings;
    struct stop *stop;
    struct stop never;    /* is not requested: for a wait that a stop does not end */
    pthread_mutex_t lock; /* guards all below, and all of a producer but kafka and thread */
    struct producer *producer;
    uintptr_t tickets;
    size_t workers;
    struct slot slots[];
};

static enum rc set_number(rd_kafka_conf_t *conf, const char *name, int64_t value, struct err *err)
{
    char number[24];
    char text[256] = "";

    snprintf(number, sizeof(number), "%" PRId64, value);
    if (rd_kafka_conf_set(conf, name, number, text, sizeof(text)) == RD_KAFKA_CONF_OK)
        return RC_OK;
    return err_fail(err, RC_FATAL, 0, "kafka: %s = %s: %s", name, number, text);
}

/* Overrides settings that suit the relay's batches. A record may time out alone: the next record
 * of its key is not sent before its attempt has ended. */
static enum rc make_conf(rd_kafka_conf_t **conf, const struct publisher *publisher, struct err *err)
{
    int64_t bytes =
        publisher->settings->relay.row_bytes_max + RETRY_OPTIONS_BYTES_MAX + PRODUCER_RECORD_EXTRA;
    char bytes_text[24];
    enum rc rc;

    snprintf(bytes_text, sizeof(bytes_text), "%" PRId64, bytes);
    const struct kafka_default defaults[] = {{"message.max.bytes", bytes_text, NULL}};
    const struct {
        const char *name;
        int64_t value;
    } forced[] = {
        {"message.timeout.ms", publisher->settings->relay.send_timeout_ms},
        {"batch.num.messages", 1},
        {"linger.ms", 0},
        {"queue.buffering.max.messages", 100000},
        {"queue.buffering.max.kbytes", INT32_MAX / 1024},
    };

    rc = producer_conf_make(conf, publisher->settings, defaults, 1, err);
    if (rc != RC_OK)
        return rc;
    rd_kafka_conf_set(*conf, "enable.gapless.guarantee", "false", NULL, 0);
    for (size_t i = 0; i < sizeof(forced) / sizeof(forced[0]) && rc == RC_OK; i++)
        rc = set_number(*conf, forced[i].name, forced[i].value, err);
    if (rc != RC_OK)
        rd_kafka_conf_destroy(*conf);
    return rc;
}

/* Called by the producer's own thread. */
static void on_delivery(rd_kafka_t *kafka, const rd_kafka_message_t *message, void *opaque)
{
    struct producer *producer = opaque;
    struct publisher *publisher = producer->publisher;
    uintptr_t ticket = (uintptr_t)message->_private;
    struct slot *slot = &publisher->slots[ticket & (((uintptr_t)1 << WORKER_BITS) - 1)];

    (void)kafka;
    pthread_mutex_lock(&publisher->lock);
    if (slot->ticket == ticket && !slot->reported) {
        slot->rc = producer_report(message, &slot->err);
        slot->reported = true;
        wakeup_signal(&slot->wakeup);
    }
    pthread_mutex_unlock(&publisher->lock);
}

static void on_error(rd_kafka_t *kafka, int code, const char *reason, void *opaque)
{
    struct producer *producer = opaque;

    (void)kafka;
    pthread_mutex_lock(&producer->publisher->lock);
    err_fail(&producer->trouble, RC_RETRY, code, "%s", reason);
    pthread_mutex_unlock(&producer->publisher->lock);
}

static void *run_producer(void *arg)
{
    struct producer *producer = arg;

    os_thread_name("retry-kafka");
    while (!atomic_load(&producer->ended))
        rd_kafka_poll(producer->kafka, POLL_MS);
    return NULL;
}

static enum rc start_producer(struct producer *producer, struct err *err)
{
    rd_kafka_conf_t *conf = NULL;
    char text[256] = "";
    enum rc rc = make_conf(&conf, producer->publisher, err);
    int code;

    if (rc != RC_OK)
        return rc;
    rd_kafka_conf_set_dr_msg_cb(conf, on_delivery);
    rd_kafka_conf_set_error_cb(conf, on_error);
    rd_kafka_conf_set_opaque(conf, producer);
    producer->kafka = rd_kafka_new(RD_KAFKA_PRODUCER, conf, text, sizeof(text));
    if (!producer->kafka) {
        rd_kafka_conf_destroy(conf);
        return err_fail(err, RC_FATAL, 0, "kafka: cannot create a producer: %s", text);
    }
    code = pthread_create(&producer->thread, NULL, run_producer, producer);
    if (code == 0)
        return RC_OK;
    rd_kafka_destroy(producer->kafka);
    return err_fail(err, RC_FATAL, code, "kafka: cannot create a thread: %s", strerror(code));
}

/* NULL: err gives the reason. */
static struct producer *open_producer(struct publisher *publisher, struct err *err)
{
    struct producer *producer = calloc(1, sizeof(*producer));

    if (!producer) {
        err_set(err, "no memory for a producer");
        return NULL;
    }
    producer->publisher = publisher;
    atomic_init(&producer->ended, false);
    if (start_producer(producer, err) == RC_OK)
        return producer;
    free(producer);
    return NULL;
}

static void close_producer(struct producer *producer)
{
    if (!producer)
        return;
    atomic_store(&producer->ended, true);
    pthread_join(producer->thread, NULL);
    rd_kafka_purge(producer->kafka, RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT);
    rd_kafka_destroy(producer->kafka);
    free(producer);
}

/* The producer is made under the lock, once for all waiting threads; making it waits for no
 * server. */
static struct producer *take_producer(struct publisher *publisher, struct err *err)
{
    struct producer *producer;

    pthread_mutex_lock(&publisher->lock);
    if (!publisher->producer)
        publisher->producer = open_producer(publisher, err);
    producer = publisher->producer;
    if (producer)
        producer->users++;
    pthread_mutex_unlock(&publisher->lock);
    return producer;
}

static void give_producer(struct publisher *publisher, struct producer *producer)
{
    bool last;

    pthread_mutex_lock(&publisher->lock);
    producer->users--;
    last = producer->spoiled && producer->users == 0;
    pthread_mutex_unlock(&publisher->lock);
    if (last)
        close_producer(producer);
}

/* Invariant: the producer is marked as spoiled before records of other threads are purged, so that
 * those threads know the cause. */
static void spoil_producer(struct publisher *publisher, struct producer *producer)
{
    pthread_mutex_lock(&publisher->lock);
    producer->spoiled = true;
    if (publisher->producer == producer)
        publisher->producer = NULL;
    pthread_mutex_unlock(&publisher->lock);
    rd_kafka_purge(producer->kafka, RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT);
}

static bool producer_is_spoiled(struct publisher *publisher, const struct producer *producer)
{
    bool spoiled;

    pthread_mutex_lock(&publisher->lock);
    spoiled = producer->spoiled;
    pthread_mutex_unlock(&publisher->lock);
    return spoiled;
}

/* Until until_ms, or until the lease ends. */
static int64_t compute_left_ms(const struct publisher_record *record, int64_t until_ms)
{
    int64_t lease_until_ms = atomic_load(record->lease_until_ms);

    return (lease_until_ms < until_ms ? lease_until_ms : until_ms) - os_now_ms();
}

static bool lease_is_over(const struct publisher_record *record)
{
    return os_now_ms() >= atomic_load(record->lease_until_ms);
}

static enum rc check_topic(struct publisher *publisher, struct producer *producer,
                           const struct publisher_record *record, int64_t until_ms, struct err *err)
{
    struct kafka_topic_config config;
    bool known;
    enum rc rc;

    pthread_mutex_lock(&publisher->lock);
    known = record_topics_knows(&producer->topics, record->topic);
    pthread_mutex_unlock(&publisher->lock);
    if (known)
        return RC_OK;
    rc = record_topic_check(producer->kafka, publisher->settings, record->topic,
                            compute_left_ms(record, until_ms) / 2, &config, err);
    pthread_mutex_lock(&publisher->lock);
    if (rc == RC_OK)
        record_topics_learn(&producer->topics, record->topic, &config);
    pthread_mutex_unlock(&publisher->lock);
    return rc;
}

static enum rc send_record(struct publisher *publisher, struct producer *producer, size_t worker,
                           const struct publisher_record *record, struct err *err)
{
    rd_kafka_topic_t *topic = rd_kafka_topic_new(producer->kafka, record->topic, NULL);
    struct slot *slot = &publisher->slots[worker];
    struct producer_record sent = {
        .key = record->key,
        .value = record->value,
        .partition = record->partition,
    };
    enum rc rc;

    if (!topic)
        return kafka_fail(err, rd_kafka_last_error(), "kafka: topic %s", record->topic);
    pthread_mutex_lock(&publisher->lock);
    slot->ticket = ++publisher->tickets << WORKER_BITS | worker;
    slot->reported = false;
    sent.ticket = slot->ticket;
    sent.timestamp_ms = record_topics_timestamp(&producer->topics, record);
    pthread_mutex_unlock(&publisher->lock);
    sent.headers = record_headers_make(record, sent.timestamp_ms);
    rc = producer_send(producer->kafka, topic, &sent, err);
    rd_kafka_topic_destroy(topic);
    return rc;
}

/* Returns false when no delivery report arrived in time. */
static bool await_report(struct publisher *publisher, size_t worker,
                         const struct publisher_record *record, int64_t until_ms, enum rc *rc,
                         struct err *err)
{
    struct slot *slot = &publisher->slots[worker];
    const struct stop *stop = publisher->stop;
    bool reported = false;

    for (;;) {
        int64_t wait_ms = compute_left_ms(record, until_ms);

        loop_goes_on(os_now_ms());
        pthread_mutex_lock(&publisher->lock);
        reported = slot->reported;
        if (reported) {
            *rc = slot->rc;
            *err = slot->err;
        } else if (wait_ms <= 0) {
            slot->ticket = 0; /* it is not waited for any more */
        }
        pthread_mutex_unlock(&publisher->lock);
        if (reported || wait_ms <= 0)
            return reported;
        if (wakeup_wait(&slot->wakeup, stop,
                        wait_ms < HANDLER_WAIT_MS_MAX ? wait_ms : HANDLER_WAIT_MS_MAX) &&
            stop == publisher->stop) {
            stop = &publisher->never;
            if (wait_ms > STOP_GRACE_MS)
                until_ms = os_now_ms() + STOP_GRACE_MS;
        }
    }
}

/* The producer has a fatal error: its text is better than the text of the report. */
static void copy_fatal_text(const struct producer *producer, struct err *err)
{
    char text[256] = "";
    rd_kafka_resp_err_t code = rd_kafka_fatal_error(producer->kafka, text, sizeof(text));

    if (code != RD_KAFKA_RESP_ERR_NO_ERROR)
        err_fail(err, RC_FATAL, code, "kafka: the producer failed: %s%s", text,
                 kafka_acl_hint(code));
}

static void describe_silence(struct publisher *publisher, const struct producer *producer,
                             const char *topic, struct err *err)
{
    struct err trouble;

    pthread_mutex_lock(&publisher->lock);
    trouble = producer->trouble;
    pthread_mutex_unlock(&publisher->lock);
    err_fail(err, RC_RETRY, RD_KAFKA_RESP_ERR__MSG_TIMED_OUT,
             "kafka: topic %s: no acknowledgement in time%s%s", topic, trouble.text[0] ? "; " : "",
             trouble.text);
}

/* *again: another producer may do better. */
static enum publisher_end send_once(struct publisher *publisher, struct producer *producer,
                                    size_t worker, const struct publisher_record *record,
                                    int64_t until_ms, bool *again, struct err *err)
{
    enum rc rc = check_topic(publisher, producer, record, until_ms, err);

    *again = false;
    /* The broker refuses the topic for every client. */
    if (rc != RC_OK)
        return rc == RC_FATAL ? PUBLISH_BARRED : record_classify_end(rc, err->code);
    rc = send_record(publisher, producer, worker, record, err);
    if (rc == RC_OK && !await_report(publisher, worker, record, until_ms, &rc, err)) {
        describe_silence(publisher, producer, record->topic, err);
        spoil_producer(publisher, producer);
        if (lease_is_over(record))
            return PUBLISH_LOST;
        return stop_requested(publisher->stop) ? PUBLISH_CUT : PUBLISH_FAILED;
    }
    if (rc == RC_OK)
        return PUBLISHED;
    if (err->code == RD_KAFKA_RESP_ERR__MSG_TIMED_OUT)
        describe_silence(publisher, producer, record->topic, err);
    if (rc == RC_FATAL) {
        copy_fatal_text(producer, err);
        spoil_producer(publisher, producer);
    }
    pthread_mutex_lock(&publisher->lock);
    if (rc == RC_REJECT)
        record_topics_add_limits(&producer->topics, publisher->settings, record->topic, err);
    record_topics_forget(&producer->topics, record->topic);
    pthread_mutex_unlock(&publisher->lock);
    /* The record was purged together with another thread's record, or acknowledged with a later
     * one. */
    *again = producer_is_spoiled(publisher, producer) || (rc == RC_RETRY && err->code == 0);
    return record_classify_end(rc, err->code);
}

enum publisher_end publisher_send(struct publisher *publisher, size_t worker,
                                  const struct publisher_record *record, struct err *err)
{
    int64_t until_ms = os_now_ms() + publisher->settings->relay.send_timeout_ms + REPORT_MS;
    enum publisher_end end = PUBLISH_FAILED;
    bool again = true;

    assert(worker < publisher->workers);
    if (relay_check_size(record->key.len + record->value.len,
                         publisher->settings->relay.row_bytes_max, err) != RC_OK) {
        err->code = RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE;
        return PUBLISH_REFUSED;
    }
    err_set(err, "kafka: topic %s: no time is left to send the record", record->topic);
    for (int i = 0; i < TRIES_MAX && again && os_now_ms() < until_ms; i++) {
        struct producer *producer;

        if (stop_requested(publisher->stop))
            return PUBLISH_CUT;
        if (lease_is_over(record))
            return PUBLISH_LOST;
        producer = take_producer(publisher, err);
        if (!producer)
            return PUBLISH_BARRED;
        end = send_once(publisher, producer, worker, record, until_ms, &again, err);
        give_producer(publisher, producer);
    }
    return end;
}

static enum rc init_wakeups(struct publisher *publisher, struct err *err)
{
    enum rc rc = stop_init(&publisher->never, err);

    for (size_t i = 0; i < publisher->workers && rc == RC_OK; i++)
        rc = wakeup_init(&publisher->slots[i].wakeup, err);
    return rc;
}

enum rc publisher_open(struct publisher **out, const struct settings *settings, struct stop *stop,
                       size_t workers, struct err *err)
{
    struct publisher *publisher = calloc(1, sizeof(*publisher) + workers * sizeof(struct slot));
    rd_kafka_conf_t *conf = NULL;
    enum rc rc;

    assert(workers < (size_t)1 << WORKER_BITS);
    if (!publisher)
        return err_fail(err, RC_FATAL, 0, "no memory for a publisher");
    publisher->settings = settings;
    publisher->stop = stop;
    publisher->workers = workers;
    pthread_mutex_init(&publisher->lock, NULL);
    rc = make_conf(&conf, publisher, err);
    if (rc == RC_OK) {
        rd_kafka_conf_destroy(conf);
        rc = init_wakeups(publisher, err);
    }
    if (rc == RC_OK)
        *out = publisher;
    else
        publisher_close(publisher);
    return rc;
}

void publisher_close(struct publisher *publisher)
{
    if (!publisher)
        return;
    close_producer(publisher->producer);
    for (size_t i = 0; i < publisher->workers; i++)
        wakeup_done(&publisher->slots[i].wakeup);
    stop_done(&publisher->never);
    pthread_mutex_destroy(&publisher->lock);
    free(publisher);
}
