/* SPDX-License-Identifier: MIT */
/* The Kafka transactions of one lane's producer, and the topic that has the position of each lane:
 * one partition, compacted, the transactional id of the lane is the key. The thread of the
 * producer. */
#ifndef OUTBOX_RELAY_EXACT_TRANSACTION_KAFKA_H
#define OUTBOX_RELAY_EXACT_TRANSACTION_KAFKA_H

#include "common/buf.h"
#include "common/config/settings.h"
#include "common/err.h"
#include "outbox/relay/exact/position_record.h"
#include "outbox/relay/relay_ops.h"

#include <stdbool.h>
#include <stdint.h>

struct rd_kafka_s;
struct rd_kafka_message_s;
struct rd_kafka_topic_s;

/* _private of the delivery report of a position record. */
#define TRANSACTION_TICKET UINTPTR_MAX

struct transaction_kafka {
    const struct settings *settings;
    const char *topic; /* relay.positions_topic */
    char id[POSITION_KEY_SIZE];
    char timeout_ms[24]; /* transaction.timeout.ms */
    enum broker_claim state;
    int64_t checked_epoch; /* of the lease under which the topic of positions was checked */
    bool is_open;
    struct rd_kafka_topic_s *positions;
    struct buf text;
    enum rc report_rc; /* of the position record */
    struct err report_err;
    bool is_reported;
};

/* Whether the lane publishes exactly once. */
bool transaction_kafka_wanted(const struct lane_settings *lane);

/* The transactional id is the key of the lane's position. Borrows settings until
 * transaction_kafka_close(). */
void transaction_kafka_open(struct transaction_kafka *transaction, const struct lane_settings *lane,
                            const struct settings *settings);

/* The producer is about to be destroyed. */
void transaction_kafka_reset(struct transaction_kafka *transaction);

/* Accepts a zeroed one; after transaction_kafka_reset(). */
void transaction_kafka_close(struct transaction_kafka *transaction);

/* Ops of struct broker for this new producer. A claim is bounded as a whole. */
enum rc transaction_kafka_claim(struct transaction_kafka *transaction, struct rd_kafka_s *kafka,
                                int64_t epoch, struct position_record *last, bool *found,
                                struct err *err);
enum rc transaction_kafka_commit(struct transaction_kafka *transaction, struct rd_kafka_s *kafka,
                                 const struct position_record *record, struct err *err);

/* Begins a transaction if none is open. RC_FATAL: the producer has to be reset. */
enum rc transaction_kafka_begin(struct transaction_kafka *transaction, struct rd_kafka_s *kafka,
                                struct err *err);

/* The delivery report with TRANSACTION_TICKET. */
void transaction_kafka_report(struct transaction_kafka *transaction,
                              const struct rd_kafka_message_s *message);

/* The producer reported this error code: is it fenced? */
void transaction_kafka_note_error(struct transaction_kafka *transaction, int code);

#endif
