/* SPDX-License-Identifier: MIT */
/* A fake of the consumer group: it decides which member owns a partition, and when each member
 * learns of it. Harder than Kafka: a partition may have its next owner before the last one knows
 * that it has lost it. */
#ifndef TESTS_SIM_GROUP_H
#define TESTS_SIM_GROUP_H

#include "tests/fakes/fake_stream.h"
#include "tests/sim/broker.h"

#define GROUP_NOBODY (-1)
#define GROUP_TOPIC "vote-events"
#define GROUP_READ_RECORDS_MAX 512

struct member;

struct fake_group {
    struct sim *sim;
    struct member *members[SIM_CONSUMERS_MAX];
    bool joined[SIM_CONSUMERS_MAX];
    int64_t heard_ms[SIM_CONSUMERS_MAX]; /* last heartbeat */
    int owner[BROKER_PARTITIONS_MAX];
    int64_t generation[BROKER_PARTITIONS_MAX]; /* grows whenever the owner is set */
    int64_t assign_ms; /* when the next assignment is made; 0: none is due */
    int64_t session_ms;
    int64_t away_until_ms; /* until then consumers read nothing */
};

struct member {
    struct proc *proc;
    int number;
    struct fake_stream fake;
    struct stream ops;
    char keys[GROUP_READ_RECORDS_MAX][24]; /* of the records of the last read */
    struct fiber *fetch;
    int64_t id_asked_ms;
};

void group_begin_run(struct fake_group *group, struct sim *sim);
/* Wakes the members that wait for records of the partition. */
void group_news(struct sim *sim, int topic, int32_t partition);
/* Heartbeats, evictions, assignments. */
void group_tend(struct fake_group *group);
/* The partitions are assigned anew. */
void group_rebalance(struct sim *sim);

/* The member must not move afterwards. */
void member_init(struct member *member, struct proc *proc, int number);
/* Leaves the group, so that its partitions are assigned before its session ends. */
void member_leave(struct member *member);
/* The process has died. */
void member_gone(struct member *member);

#endif
