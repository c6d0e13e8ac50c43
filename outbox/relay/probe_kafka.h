/* SPDX-License-Identifier: MIT */
/* Requests an answer from Kafka at the start and at intervals, whether or not the lanes send, so
 * that a relay with a wrong address or without a login is not ready although its outbox is empty.
 * One probe for all lanes of a process, on a thread and a client of its own: a lane that another
 * process holds has no producer, and a step may wait for the answer. */
#ifndef OUTBOX_RELAY_PROBE_KAFKA_H
#define OUTBOX_RELAY_PROBE_KAFKA_H

#include "common/condition.h"
#include "common/config/settings.h"
#include "common/err.h"

#include <stdbool.h>
#include <stdint.h>

struct probe_kafka {
    const struct settings *settings;
    struct rd_kafka_s *kafka;
    struct condition answering; /* failing until the first answer */
    int64_t silent_since_ms;    /* 0: the last request was answered */
    int64_t heard_us;   /* when a connected broker last sent something, librdkafka's clock */
    bool heard;         /* that was since the last step */
    struct err trouble; /* librdkafka's last error since then */
    bool failed;        /* the client cannot start its threads: the process has to end */
};

/* Borrows settings until probe_kafka_close(). Does not connect yet; cannot fail. */
void probe_kafka_open(struct probe_kafka *probe, const struct settings *settings);

/* Accepts a zeroed probe. No step may run any more. */
void probe_kafka_close(struct probe_kafka *probe);

/* Sends one request and waits for its answer for at most half a second; an answer that comes later
 * counts in a later step. Kafka has failed when it was silent for relay.send_timeout_ms: until then
 * a record may be acknowledged. Returns in how many ms the next step is due. It has the type of a
 * loop_step. When the client cannot connect for lack of memory or threads, logs that, sets `failed`
 * and returns LOOP_END. */
int64_t probe_kafka_step(void *probe, int64_t now_ms);

/* Returns whether Kafka does not answer, and copies the reason then. Any thread. */
bool probe_kafka_failing(struct probe_kafka *probe, struct err *err);

#endif
