/* SPDX-License-Identifier: MIT */
/* One producer for all workers of the retry queue: idempotent, acks=all, a record a request, so
 * that nobody's record falls with somebody else's. A record that got no answer in time takes the
 * producer along: it is purged and closed, so that nothing of it is sent later, and what others had
 * in it they send again with a new one. Any thread; each worker has one record at a time. */
#ifndef OUTBOX_RETRY_HANDLERS_PUBLISHER_KAFKA_H
#define OUTBOX_RETRY_HANDLERS_PUBLISHER_KAFKA_H

#include "common/config/settings.h"
#include "common/err.h"
#include "common/stop.h"
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
    PUBLISH_FAILED,  /* passes by itself: no connection, no leader, no answer in time */
    PUBLISH_REFUSED, /* this record is not taken */
    PUBLISH_BARRED,  /* a right, the topic or a setting is not as it must be */
    PUBLISH_CUT,     /* the stop came first */
    PUBLISH_LOST,    /* the lease ran out first */
};

/* Connects nowhere yet. RC_FATAL: the settings make no producer. Borrows settings and stop. */
enum rc publisher_open(struct publisher **publisher, const struct settings *settings,
                       struct stop *stop, size_t workers, struct err *err);
void publisher_close(struct publisher *publisher);

/* Publishes and waits for the broker's word, as long as relay.send_timeout_ms says and the lease
 * lasts. The topic is made if need be, as the relay does. err->code is librdkafka's. Unless
 * PUBLISHED the record may be in the log all the same. */
enum publisher_end publisher_send(struct publisher *publisher, size_t worker,
                                  const struct publisher_record *record, struct err *err);

#endif
