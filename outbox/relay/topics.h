/* SPDX-License-Identifier: MIT */
/* Maps aggregate types to topics, keeps the state of each topic, and checks topic names. At most
 * BROKER_TOPICS_MAX topics. No I/O; one thread at a time for each struct topics. */
#ifndef OUTBOX_RELAY_TOPICS_H
#define OUTBOX_RELAY_TOPICS_H

#include "common/err.h"
#include "outbox/relay/relay_ops.h"
#include "outbox/relay/relay_row.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TOPIC_NAME_SIZE 250 /* Kafka's limit is 249 */

enum topic_state {
    TOPIC_UNKNOWN, /* has to be opened before the first send */
    TOPIC_READY,
    TOPIC_REFUSED, /* does not exist or is refused, see why; tried again in the next full scan */
};

struct topic {
    char name[TOPIC_NAME_SIZE];
    enum topic_state state;
    size_t index;  /* index in list, never changes */
    uint64_t hash; /* of the name */
    char why[256]; /* the reason of TOPIC_REFUSED */
    size_t type_len;
    char type[]; /* the aggregate type */
};

struct topics {
    const char *map;    /* "type=topic,type=topic": lane.NAME.topics */
    const char *prefix; /* relay.topic_prefix */
    struct topic *list[BROKER_TOPICS_MAX];
    size_t count;
    struct topic *slots[2 * BROKER_TOPICS_MAX]; /* open addressing by type */
};

/* Borrows map and prefix until topics_done(). */
void topics_init(struct topics *topics, const char *map, const char *prefix);
void topics_done(struct topics *topics);

/* Sets *topic to the topic of an aggregate type and adds it when it is new. The topic lives until
 * topics_done(). RC_REJECT: the type gives no valid topic name, or there are too many topics.
 * RC_FATAL: no memory. On a failure *topic is undefined. */
enum rc topics_find(struct topics *topics, struct bytes type, struct topic **topic,
                    struct err *err);

/* Make refused topics, or all topics, unknown again. */
void topics_forget_refused(struct topics *topics);
void topics_forget_all(struct topics *topics);

/* Returns whether Kafka accepts this text as a topic name. Any thread. */
bool topic_name_is(const char *name);

#endif
