/* SPDX-License-Identifier: MIT */
/* A topic and the members of a group that read it (tests/fakes/fake_stream.h): the test decides
 * which member owns a partition, and when each member learns of it. One thread. */
#ifndef TESTS_FLOW_TOPIC_FIXTURE_H
#define TESTS_FLOW_TOPIC_FIXTURE_H

#include "tests/fakes/fake_stream.h"

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

struct topic {
    struct topic_partition partitions[TOPIC_PARTITIONS];
    char id[TOPIC_ID_SIZE];
};

struct topic_member {
    struct topic *topic;
    struct fake_stream fake;
    struct stream ops;
    int number;
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

void topic_init(struct topic *topic);

/* Appends a vote under the content's key; content decides the partition. */
void topic_put_vote(struct topic *topic, int event, int content, int voting);
void topic_put(struct topic *topic, int32_t partition, const char *key, const char *value);
void topic_put_hole(struct topic *topic, int32_t partition);
int32_t topic_partition_of(int content);

/* The member must not move. */
void topic_member_init(struct topic_member *member, struct topic *topic, int number);

/* The member gives up everything at once, as when its process ends. */
void topic_member_leave(struct topic_member *member);

#endif
