/* SPDX-License-Identifier: MIT */
/* A fake of a topic and of the members of a group that read it, for the fetching engine: the test
 * decides which member owns a partition, and when each member learns of it. One thread. The
 * simulation's fake (tests/sim/group.c) has a coordinator that decides this by itself. */
#ifndef TESTS_FAKES_FAKE_STREAM_H
#define TESTS_FAKES_FAKE_STREAM_H

#include "consumer/ingest/fetch.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TOPIC_PARTITIONS 4
#define TOPIC_RECORDS_MAX 1024
#define TOPIC_MEMBERS_MAX 4
#define TOPIC_NOBODY (-1)
#define TOPIC_NAME "votes"

struct topic_record {
    char key[24];
    char value[256];
    int32_t leader_epoch;
    bool hole; /* a transaction's mark: takes an offset and is never read */
};

struct topic_partition {
    struct topic_record records[TOPIC_RECORDS_MAX];
    int64_t begin; /* records before it were deleted */
    int64_t end;
    int owner; /* index of a member, or TOPIC_NOBODY */
};

struct fake_topic {
    struct topic_partition partitions[TOPIC_PARTITIONS];
    char id[TOPIC_ID_SIZE];
};

/* A partition as one member has it. */
struct topic_hold {
    int32_t number;
    bool held;
    bool gone; /* its offset was not there */
    int64_t position;
    int64_t end; /* of the partition, when the last read came to it; else -1 */
};

struct fake_stream {
    struct fake_topic *topic;
    struct stream ops;
    int member;
    struct topic_hold holds[TOPIC_PARTITIONS];
    struct stream_place places[TOPIC_PARTITIONS];
    int64_t stored[TOPIC_PARTITIONS];
    bool deaf;           /* learns nothing of the group: frozen, or cut off */
    int seeks_lost;      /* so many seeks that come next have no effect */
    bool seek_lost_ends; /* and leave the position at the end instead of the beginning */
    int seeks_refused;   /* so many answer RC_RETRY */
    bool id_unknown;     /* topic_id() has no answer yet */
    bool away;           /* the broker answers nothing */
    bool failed;         /* the next read is RC_FATAL */
    bool denied;         /* the next poll reports a missing privilege */
    bool compacted;      /* so is the topic */
    int probes;
};

void fake_topic_init(struct fake_topic *topic);

/* Appends a vote under the content's key; content decides the partition. */
void topic_put_vote(struct fake_topic *topic, int event, int content, int voting);
void topic_put(struct fake_topic *topic, int32_t partition, const char *key, const char *value);
void topic_put_hole(struct fake_topic *topic, int32_t partition);
int32_t topic_partition_of(int content);

void fake_stream_init(struct fake_stream *fake, struct fake_topic *topic, int member);

/* The member gives up everything at once, as when its process ends. */
void fake_stream_leave(struct fake_stream *fake);

#endif
