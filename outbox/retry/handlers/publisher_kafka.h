/* SPDX-License-Identifier: MIT */
/* One producer for all workers of the retry queue: idempotent, acks=all, one record per request,
 * so that one record cannot make another one fail. When a record gets no answer in time, the
 * producer is purged and closed, so that the record is not sent later; other threads send their
 * records again with a new producer. Any thread; each worker has one record at a time. */
#ifndef OUTBOX_RETRY_HANDLERS_PUBLISHER_KAFKA_H
#define OUTBOX_RETRY_HANDLERS_PUBLISHER_KAFKA_H

#include "common/config/settings.h"
#include "common/err.h"
#include "common/loop.h"
#include "outbox/relay/relay_row.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct publisher;

struct publisher_header {
    const char *name;
    struct bytes value; /* data NULL: null */
};

struct publisher_record {
    const char *topic;
    struct bytes key;   /* data NULL: none */
    struct bytes value; /* data NULL: a tombstone */
    const struct publisher_header *headers;
    size_t header_count;
    int64_t timestamp_ms;               /* 0: now; brought forward where the topic keeps less */
    int64_t now_ms;                     /* by the database's clock, since 1970 */
    int32_t partition;                  /* -1: by the key */
    const atomic_llong *lease_until_ms; /* as in struct retry_job */
};

enum publisher_end {
    PUBLISHED,
    PUBLISH_FAILED,  /* transient: no connection, no leader, no answer in time */
    PUBLISH_REFUSED, /* this record is not taken */
    PUBLISH_BARRED,  /* a right, the topic or a setting is not as it must be */
    PUBLISH_CUT,     /* the process stops */
    PUBLISH_LOST,    /* the lease ran out first */
    PUBLISH_WAITS,   /* of exact_publisher_kafka.h: it cannot be tried yet */
    PUBLISH_VOID,    /* of exact_publisher_kafka.h: the lane has read the row again */
};

/* Connects nowhere yet. RC_FATAL: the settings make no producer. Borrows settings and stop. */
enum rc publisher_open(struct publisher **publisher, const struct settings *settings,
                       struct stop *stop, size_t workers, struct err *err);
void publisher_close(struct publisher *publisher);

/* Refuses a record above relay.row_bytes_max, as the relay does. Otherwise publishes it and waits
 * for its acknowledgement, for at most relay.send_timeout_ms and while the lease lasts. Creates the
 * topic if needed, as the relay does. err->code is librdkafka's. Unless the result is PUBLISHED the
 * record may be in the log nevertheless. */
enum publisher_end publisher_send(struct publisher *publisher, size_t worker,
                                  const struct publisher_record *record, struct err *err);

#endif
