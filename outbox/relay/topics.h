/* SPDX-License-Identifier: MIT */
/* Maps aggregate types to topics, keeps the state of each topic, and checks topic names. At most
 * BROKER_TOPICS_MAX topics. The topic of a type is the one of the map; or what the lane's rule
 * makes of it, as Debezium's route.topic.regex and route.topic.replacement; or the prefix and the
 * type. No I/O; one thread at a time for each struct topics. */
#ifndef OUTBOX_RELAY_TOPICS_H
#define OUTBOX_RELAY_TOPICS_H

#include "common/err.h"
#include "outbox/relay/relay_ops.h"
#include "outbox/relay/relay_row.h"

#include <regex.h>
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
};

/* How a topic is made of an aggregate type. A zeroed one makes none. */
struct topic_rule {
    const char *topic;  /* lane.NAME.topic; NULL or "": there is no rule */
    const char *source; /* lane.NAME.topic_regex; "": all types match */
    regex_t regex;      /* of source, unless that is empty */
};

/* Borrows topic and regex until topic_rule_done(). RC_REJECT: the two settings do not fit together,
 * and the rule is as a zeroed one. */
enum rc topic_rule_init(struct topic_rule *rule, const char *topic, const char *regex,
                        struct err *err);
void topic_rule_done(struct topic_rule *rule);

/* An aggregate type with its topic. */
struct topic_type {
    struct topic *topic;
    size_t len;
    char text[];
};

struct topics {
    const char *map;    /* "type=topic,type=topic": lane.NAME.topics */
    const char *prefix; /* relay.topic_prefix */
    struct topic_rule rule;
    struct topic *list[BROKER_TOPICS_MAX];
    size_t count;
    struct topic_type *slots[2 * BROKER_TOPICS_MAX]; /* open addressing by type */
    size_t type_count;                               /* at most BROKER_TOPICS_MAX */
};

/* Borrows map and prefix until topics_done(). There is no rule. */
void topics_init(struct topics *topics, const char *map, const char *prefix);
void topics_done(struct topics *topics);

/* Sets the rule for types that are not in the map, before the first topics_find(). Borrows and
 * fails as topic_rule_init(). */
enum rc topics_set_rule(struct topics *topics, const char *topic, const char *regex,
                        struct err *err);

/* Sets *topic to the topic of an aggregate type and adds it when it is new; types with one topic
 * share it. The topic lives until topics_done(). Topics of types that were seen lately are found
 * without the map and the rule. RC_REJECT: the type gives no valid topic name, or there are too
 * many topics. RC_FATAL: no memory. On a failure *topic is undefined. */
enum rc topics_find(struct topics *topics, struct bytes type, struct topic **topic,
                    struct err *err);

/* Make refused topics, or all topics, unknown again. */
void topics_forget_refused(struct topics *topics);
void topics_forget_all(struct topics *topics);

/* Returns whether Kafka accepts this text as a topic name. Any thread. */
bool topic_name_is(const char *name);

#endif
