/* SPDX-License-Identifier: MIT */
/* Which topic an aggregate type goes to, what is known of each topic, and which texts Kafka takes
 * as a topic's name. Bounded. Pure; one thread at a time for each struct topics. */
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
    TOPIC_UNKNOWN, /* has to be opened first */
    TOPIC_READY,
    TOPIC_REFUSED, /* cannot be had, says why; looked at again in the next full scan */
};

struct topic {
    char name[TOPIC_NAME_SIZE];
    enum topic_state state;
    size_t index;  /* its place: the same for the life of the table */
    uint64_t hash; /* of the name */
    char why[256];
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

/* Borrows map and prefix for its life. */
void topics_init(struct topics *topics, const char *map, const char *prefix);
void topics_done(struct topics *topics);

/* The topic of an aggregate type, made known if need be. RC_REJECT: the type makes no topic name,
 * or there are too many. RC_FATAL: no memory. */
enum rc topics_find(struct topics *topics, struct bytes type, struct topic **topic,
                    struct err *err);

/* Topics that are refused become unknown again; or all of them. */
void topics_forget_refused(struct topics *topics);
void topics_forget_all(struct topics *topics);

/* Does Kafka take this text as the name of a topic? Any thread. */
bool topic_name_is(const char *name);

#endif
