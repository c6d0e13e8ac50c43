/* SPDX-License-Identifier: MIT */
/* Membership in a consumer group: hears of partitions that come and go, answers the broker at once,
 * and gives every partition a queue of its own, apart from the news. One thread. */
#ifndef CONSUMER_INGEST_GROUP_KAFKA_H
#define CONSUMER_INGEST_GROUP_KAFKA_H

#include "common/err.h"
#include "consumer/apply/apply_row.h"
#include "consumer/ingest/fetch.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rd_kafka_s;
struct rd_kafka_queue_s;

/* A partition of ours, between its assignment and its revocation: the handle of struct stream. */
struct group_partition {
    struct rd_kafka_queue_s *queue;
    bool answered; /* the broker has told something of it since it was assigned or sought */
    bool ended;    /* nothing is fetched any more: see group_renew() */
    char name[TOPIC_SIZE];
    int32_t number;
    int64_t end; /* see struct stream */
};

struct group {
    struct rd_kafka_s *kafka;
    struct rd_kafka_queue_s *queue; /* news of the group and of the handle */
    int wakeup_fd;
    struct group_partition **partitions;
    size_t partition_count;
    struct stream_place *places;      /* of the last event */
    struct group_partition **leaving; /* revoked; freed with the next event */
    size_t leaving_count;
    size_t size; /* of these three arrays */
};

/* Borrows the handle. Whenever there is something to poll, or to read from a partition, eight bytes
 * are written to wakeup_fd. */
void group_init(struct group *group, struct rd_kafka_s *kafka, int wakeup_fd);
/* After the last event; before the handle is destroyed. Harmless on a zeroed group. */
void group_done(struct group *group);

/* The next piece of news, answered; waits for it up to wait_ms. */
void group_poll(struct group *group, struct stream_event *event, int wait_ms);

/* A partition whose offset is gone is fetched no more and cannot be sought: takes it anew.
 * RC_RETRY: it did not work. */
enum rc group_renew(struct group *group, struct group_partition *partition, struct err *err);

/* librdkafka can hang when an assignment arrives while it closes: so leave first, answer what
 * comes, and close when nothing is held. False when that did not come to an end within wait_ms. */
bool group_leave(struct group *group, int64_t wait_ms);

#endif
