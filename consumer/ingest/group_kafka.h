/* SPDX-License-Identifier: MIT */
/* Membership in a consumer group: reports partitions that are assigned and revoked, answers the
 * broker at once, and gives each partition a queue of its own, separate from the events of the
 * group. One thread. */
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

/* An assigned partition: the handle of struct stream. */
struct group_partition {
    struct rd_kafka_queue_s *queue;
    bool answered; /* a record or an end arrived since the partition was assigned or sought */
    bool ended;    /* librdkafka fetches no more from it; see group_renew() */
    char name[TOPIC_SIZE];
    int32_t number;
    int64_t end; /* see struct stream */
};

struct group {
    struct rd_kafka_s *kafka;
    struct rd_kafka_queue_s *queue; /* events of the group and of the handle */
    int wakeup_fd;
    struct group_partition **partitions;
    size_t partition_count;
    struct stream_place *places;      /* of the last event */
    struct group_partition **leaving; /* revoked; freed with the next event */
    size_t leaving_count;
    size_t size; /* of these three arrays */
};

/* Borrows the handle. Whenever an event can be polled or a record can be read, eight bytes are
 * written to wakeup_fd. */
void group_init(struct group *group, struct rd_kafka_s *kafka, int wakeup_fd);
/* After the last event and before the handle is destroyed. Accepts a zeroed group. */
void group_done(struct group *group);

/* Returns the next event, already answered. Waits for it up to wait_ms. */
void group_poll(struct group *group, struct stream_event *event, int wait_ms);

/* librdkafka stops fetching a partition whose offset does not exist, and a seek does not help:
 * assigns it again. RC_RETRY: that failed. */
enum rc group_renew(struct group *group, struct group_partition *partition, struct err *err);

/* Leaves the group, answers its events, and returns when no partition is assigned and, if there
 * were any, LeaveGroup was sent. Call it before the handle is closed: librdkafka can hang if an
 * assignment arrives while it closes. A static member (with group.instance.id) does not leave: it
 * closes, and the group keeps its partitions for its next process until its session ends. False:
 * that took longer than wait_ms. */
bool group_leave(struct group *group, int64_t wait_ms);

#endif
