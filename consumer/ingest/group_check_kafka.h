/* SPDX-License-Identifier: MIT */
/* Finds members of the consumer group that belong to another installation, and decides whether this
 * process may be a member. Kafka would share the partitions among them, and each installation would
 * get some of the votes only. A member tells its installation by its client.id, unless the settings
 * give it another one. Kafka answers to an account that may read as a member of the group. If the
 * library or the broker cannot describe a group, or the broker refuses, the process joins without
 * the check. The first query goes to each broker of the cluster, later ones to the one that
 * answered, the coordinator of the group. One thread. */
#ifndef CONSUMER_INGEST_GROUP_CHECK_KAFKA_H
#define CONSUMER_INGEST_GROUP_CHECK_KAFKA_H

#include "common/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rd_kafka_s;
struct rd_kafka_queue_s;

#define GROUP_CLIENT_SIZE 160
#define GROUP_OTHER_SIZE 64

/* A member as a broker describes it; borrowed. Either may be NULL. */
struct group_member {
    const char *client; /* its client.id */
    const char *host;
};

struct group_check {
    struct rd_kafka_s *kafka; /* NULL: nothing is checked */
    struct rd_kafka_queue_s *queue;
    const char *group;
    const char *installation;
    bool joined;         /* the owner's: this process is a member, or about to be */
    int32_t coordinator; /* the broker that answered last; -1: each broker is asked */
    unsigned pending;    /* requests of the query without an answer yet */
    bool answered;       /* the query has an answer */
    int code;            /* otherwise librdkafka's code of the failure that counts */
    bool doubtful;       /* the members changed after the last query */
    int64_t ask_ms;      /* earliest time of the next query */
    int64_t count_at_ms; /* earliest time at which another query counts as unanswered */
    unsigned misses;     /* queries in a row without an answer */
    unsigned unanswered; /* queries in a row without an answer, although a broker is reachable */
    bool foreign;        /* the group has a member of another installation: err names both */
    enum rc rc;          /* see group_check_poll() */
    struct err err;
};

/* Writes the client.id of an instance of this installation ("": it is not known). */
void group_client_id(char client[GROUP_CLIENT_SIZE], const char *installation,
                     const char *instance);

/* Whether the client.id is that of another installation, whose id is written to other. Pure. */
bool group_client_is_foreign(const char *client, const char *installation, char *other,
                             size_t other_size);

/* Borrows everything. Without the id of the installation nothing is checked. When an answer
 * arrives, eight bytes are written to wakeup_fd. */
void group_check_init(struct group_check *check, struct rd_kafka_s *kafka, const char *group,
                      const char *installation, int wakeup_fd);
/* Before the handle is destroyed. Accepts a zeroed check. */
void group_check_done(struct group_check *check);

/* The members of the group have changed: the next poll asks again. */
void group_check_doubt(struct group_check *check);

/* Takes in an answer and asks again when it is time. reachable: a broker has answered the last
 * probe. Returns whether this process may be a member: RC_RETRY: it is not known before the first
 * answer. RC_REJECT: no, it does not join, or leaves, because of a member of another installation.
 * RC_OK: yes. Of installations that are in the group together, the one with the lowest id may
 * stay. */
enum rc group_check_poll(struct group_check *check, bool reachable, int64_t now_ms);

/* The two ends of a query, for group_check_poll() and tests. Decides by the members of the group.
 */
void group_check_judge(struct group_check *check, const struct group_member *members, size_t count);
/* The query failed with librdkafka's code. reachable: as above. */
void group_check_miss(struct group_check *check, int code, bool reachable, int64_t now_ms);

#endif
