/* SPDX-License-Identifier: MIT */
#include "outbox/relay/exact/transaction_kafka.h"

#include "common/kafka/kafka.h"
#include "common/kafka/topic.h"
#include "common/os.h"
#include "outbox/relay/exact/position_topic_kafka.h"
#include "outbox/relay/producer_kafka.h"

#include <errno.h>
#include <inttypes.h>
#include <librdkafka/rdkafka.h>
#include <stdio.h>
#include <string.h>

/* Bounds of the calls that wait, unless a quarter of the lease is shorter, and of a whole claim,
 * unless the lease is shorter. */
#define CALL_MS_MAX 5000
#define CLAIM_MS_MAX 10000

/* While a transaction is open, no lane whose position is in the topic can begin. */
#define TIMEOUT_MS_MAX 30000
#define TIMEOUT_MS_MIN 10000

static int call_ms(const struct transaction_kafka *transaction)
{
    int64_t ms = transaction->settings->relay.lease_ms / 4;

    return ms < CALL_MS_MAX ? (int)ms : CALL_MS_MAX;
}

static int left_ms(int64_t until_ms)
{
    int64_t left_ms = until_ms - os_now_ms();

    return left_ms > 1 ? (int)left_ms : 1;
}

bool transaction_kafka_wanted(const struct lane_settings *lane)
{
    return strcmp(lane->exactly_once, "yes") == 0;
}

/* A transaction that is left open, by a process that was killed, ends at once when the next process
 * takes the lane, and else after two leases: until then a reader of committed records waits, and so
 * does each other lane that begins. */
void transaction_kafka_open(struct transaction_kafka *transaction, const struct lane_settings *lane,
                            const struct settings *settings)
{
    int64_t timeout_ms = 2 * settings->relay.lease_ms;

    memset(transaction, 0, sizeof(*transaction));
    transaction->settings = settings;
    transaction->topic = settings->relay.positions_topic;
    if (timeout_ms < TIMEOUT_MS_MIN)
        timeout_ms = TIMEOUT_MS_MIN;
    if (timeout_ms > TIMEOUT_MS_MAX)
        timeout_ms = TIMEOUT_MS_MAX;
    snprintf(transaction->timeout_ms, sizeof(transaction->timeout_ms), "%" PRId64, timeout_ms);
    position_record_key(transaction->id, lane, settings);
}

void transaction_kafka_reset(struct transaction_kafka *transaction)
{
    if (transaction->positions)
        rd_kafka_topic_destroy(transaction->positions);
    transaction->positions = NULL;
    transaction->state = BROKER_UNCLAIMED;
    transaction->is_open = false;
}

void transaction_kafka_close(struct transaction_kafka *transaction)
{
    buf_done(&transaction->text);
}

void transaction_kafka_note_error(struct transaction_kafka *transaction, int code)
{
    if (transaction->state == BROKER_CLAIMED &&
        (code == RD_KAFKA_RESP_ERR__FENCED || code == RD_KAFKA_RESP_ERR_PRODUCER_FENCED ||
         code == RD_KAFKA_RESP_ERR_INVALID_PRODUCER_EPOCH))
        transaction->state = BROKER_FENCED;
}

/* Takes the error over. RC_REJECT: the producer is fenced. */
static enum rc take_error(struct transaction_kafka *transaction, rd_kafka_error_t *error,
                          const char *what, struct err *err)
{
    rd_kafka_resp_err_t code = rd_kafka_error_code(error);
    enum rc rc = RC_RETRY;

    transaction_kafka_note_error(transaction, code);
    if (transaction->state == BROKER_FENCED)
        rc = RC_REJECT;
    else if (code == RD_KAFKA_RESP_ERR_TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        rc = RC_FATAL;
    err_fail(err, rc, code, "kafka: %s with transactional.id %s: %s%s", what, transaction->id,
             rd_kafka_error_string(error),
             rc == RC_FATAL ? "; the user of [kafka] lacks the ACLs Describe and Write on this "
                              "transactional id"
                            : "");
    rd_kafka_error_destroy(error);
    return rc;
}

/* Once under each lease. */
static enum rc check_topic(struct transaction_kafka *transaction, rd_kafka_t *kafka, int64_t epoch,
                           int64_t until_ms, struct err *err)
{
    struct kafka_topic_config config;
    struct err unknown = {0};
    enum rc rc;

    if (transaction->checked_epoch == epoch)
        return RC_OK;
    rc = kafka_ensure_compacted_topic(kafka, transaction->topic,
                                      (int)transaction->settings->relay.topic_replication,
                                      left_ms(until_ms), err);
    if (rc != RC_OK)
        return rc == RC_REJECT ? RC_FATAL : rc;
    kafka_config_read(kafka, transaction->topic, left_ms(until_ms), &config, &unknown);
    if (config.known && (!config.compacted || config.deletes))
        return err_fail(
            err, RC_FATAL, 0,
            "kafka: topic %s (relay.positions_topic) has not cleanup.policy=compact alone, so "
            "Kafka would delete the positions of lanes: set that, or name another topic",
            transaction->topic);
    transaction->checked_epoch = epoch;
    return RC_OK;
}

static enum rc read_last(const struct transaction_kafka *transaction, enum position_topic_end end,
                         int64_t until_ms, struct position_record *last, bool *found,
                         struct err *err)
{
    position_record_reset(last);
    return position_topic_read_last(transaction->settings, transaction->topic, transaction->id, end,
                                    until_ms, last, found, err);
}

enum rc transaction_kafka_claim(struct transaction_kafka *transaction, rd_kafka_t *kafka,
                                int64_t epoch, struct position_record *last, bool *found,
                                struct err *err)
{
    int64_t lease_ms = transaction->settings->relay.lease_ms;
    int64_t until_ms = os_now_ms() + (lease_ms < CLAIM_MS_MAX ? lease_ms : CLAIM_MS_MAX);
    rd_kafka_error_t *error;
    enum rc rc = check_topic(transaction, kafka, epoch, until_ms, err);

    /* The producer of a later lease, or of another installation, is not fenced. */
    if (rc == RC_OK)
        rc = read_last(transaction, POSITION_TOPIC_DECIDED, until_ms, last, found, err);
    if (rc != RC_OK || (*found && last->epoch > epoch))
        return rc;
    /* Ends the transaction of the producer before, and answers when that is done. */
    error = rd_kafka_init_transactions(kafka, left_ms(until_ms));
    if (error) {
        rc = take_error(transaction, error, "cannot begin", err);
        return rc == RC_REJECT ? RC_RETRY : rc;
    }
    rc = read_last(transaction, POSITION_TOPIC_END, until_ms, last, found, err);
    if (rc != RC_OK)
        return rc;
    transaction->positions = rd_kafka_topic_new(kafka, transaction->topic, NULL);
    if (!transaction->positions)
        return err_fail(err, RC_RETRY, 0, "kafka: topic %s: %s", transaction->topic,
                        rd_kafka_err2str(rd_kafka_last_error()));
    transaction->state = BROKER_CLAIMED;
    return RC_OK;
}

enum rc transaction_kafka_begin(struct transaction_kafka *transaction, rd_kafka_t *kafka,
                                struct err *err)
{
    rd_kafka_error_t *error;

    if (transaction->is_open)
        return RC_OK;
    if (transaction->state != BROKER_CLAIMED)
        return err_fail(err, RC_FATAL, 0, "kafka: the producer of lane %s is not ready",
                        transaction->id);
    error = rd_kafka_begin_transaction(kafka);
    if (error) {
        take_error(transaction, error, "cannot begin a transaction", err);
        return RC_FATAL;
    }
    transaction->is_open = true;
    return RC_OK;
}

void transaction_kafka_report(struct transaction_kafka *transaction,
                              const rd_kafka_message_t *message)
{
    transaction->report_rc = producer_report(message, &transaction->report_err);
    transaction->is_reported = true;
}

/* A transaction without its position record must not be committed, so its report is read first. */
static enum rc send_record(struct transaction_kafka *transaction, rd_kafka_t *kafka,
                           const struct position_record *record, struct err *err)
{
    struct buf *text = &transaction->text;

    buf_reset(text);
    position_record_put(text, record);
    if (text->failed)
        return err_fail(err, RC_RETRY, 0, "no memory for the position of %s", transaction->id);
    transaction->is_reported = false;
    if (rd_kafka_produce(transaction->positions, 0, RD_KAFKA_MSG_F_COPY, text->data, text->len,
                         transaction->id, strlen(transaction->id),
                         (void *)TRANSACTION_TICKET) != 0) {
        kafka_fail(err, rd_kafka_last_error(), "kafka: topic %s", transaction->topic);
        return RC_RETRY;
    }
    rd_kafka_flush(kafka, call_ms(transaction));
    if (!transaction->is_reported)
        return err_fail(err, RC_RETRY, 0, "kafka: topic %s: the position is not acknowledged",
                        transaction->topic);
    *err = transaction->report_err;
    return transaction->report_rc == RC_OK ? RC_OK : RC_RETRY;
}

enum rc transaction_kafka_commit(struct transaction_kafka *transaction, rd_kafka_t *kafka,
                                 const struct position_record *record, struct err *err)
{
    rd_kafka_error_t *error;
    enum rc rc = transaction_kafka_begin(transaction, kafka, err);

    if (rc == RC_OK)
        rc = send_record(transaction, kafka, record, err);
    if (rc != RC_OK)
        return transaction->state == BROKER_FENCED ? RC_REJECT : RC_RETRY;
    error = rd_kafka_commit_transaction(kafka, call_ms(transaction));
    if (error)
        return take_error(transaction, error, "cannot commit", err);
    transaction->is_open = false;
    return RC_OK;
}
