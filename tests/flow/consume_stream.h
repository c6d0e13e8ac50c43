/* SPDX-License-Identifier: MIT */
/* A model of a topic and of the members of a group that read it, for the fetching engine: the test
 * says who is given which partition and when each member hears of it. One thread. */
#ifndef TESTS_FLOW_CONSUME_STREAM_H
#define TESTS_FLOW_CONSUME_STREAM_H

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
    int64_t begin; /* records before it are gone */
    int64_t end;
    int owner; /* index of a member, or TOPIC_NOBODY */
};

struct topic_world {
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

struct stream_model {
    struct topic_world *world;
    struct stream ops;
    int member;
    struct topic_hold holds[TOPIC_PARTITIONS];
    struct stream_place places[TOPIC_PARTITIONS];
    int64_t stored[TOPIC_PARTITIONS];
    bool deaf;           /* hears no news of the group: frozen, or cut off */
    int seeks_lost;      /* so many seeks that come next have no effect */
    bool seek_lost_ends; /* and leave the position at the end instead of the beginning */
    int seeks_refused;   /* so many answer RC_RETRY */
    bool id_unknown;     /* topic_id() has no answer yet */
    bool away;           /* the broker answers nothing */
    bool failed;         /* the next read is RC_FATAL */
    bool denied;         /* the next poll says that a right is missing */
    bool compacted;      /* so is the topic */
    int probes;
};

void topic_world_init(struct topic_world *world);

/* Appends a vote under the content's key; content decides the partition. */
void topic_put_vote(struct topic_world *world, int event, int content, int voting);
void topic_put(struct topic_world *world, int32_t partition, const char *key, const char *value);
void topic_put_hole(struct topic_world *world, int32_t partition);
int32_t topic_partition_of(int content);

void stream_model_init(struct stream_model *model, struct topic_world *world, int member);

/* The member gives up everything at once, as when its process ends. */
void stream_model_leave(struct stream_model *model);

#endif
