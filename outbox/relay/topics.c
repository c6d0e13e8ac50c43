/* SPDX-License-Identifier: MIT */
#include "outbox/relay/topics.h"

#include "common/hash.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SLOTS ((size_t)2 * BROKER_TOPICS_MAX)

/* Returns the topic of "type=topic" in the map, or NULL. Blanks around type and topic are ignored.
 */
static struct bytes find_in_map(const char *map, struct bytes type)
{
    const char *at = map;

    while (*at) {
        size_t len;
        size_t word;

        at += strspn(at, " ,");
        len = strcspn(at, ",");
        word = strcspn(at, "=");
        if (word < len) {
            const char *topic = at + word + 1 + strspn(at + word + 1, " ");
            size_t topic_len = strcspn(topic, " ,");

            while (word > 0 && at[word - 1] == ' ')
                word--;
            if (word == type.len && memcmp(at, type.data, word) == 0)
                return (struct bytes){topic, topic_len};
        }
        at += len;
    }
    return (struct bytes){NULL, 0};
}

static enum rc make_name(const struct topics *topics, struct bytes type, char name[TOPIC_NAME_SIZE],
                         struct err *err)
{
    struct bytes topic = find_in_map(topics->map, type);
    int len;

    if (topic.data)
        len = snprintf(name, TOPIC_NAME_SIZE, "%.*s", (int)topic.len, topic.data);
    else
        len = snprintf(name, TOPIC_NAME_SIZE, "%s%.*s", topics->prefix,
                       (int)(type.len < TOPIC_NAME_SIZE ? type.len : TOPIC_NAME_SIZE), type.data);
    if (len > 0 && len < TOPIC_NAME_SIZE && !memchr(type.data, '\0', type.len) &&
        topic_name_is(name))
        return RC_OK;
    return err_fail(
        err, RC_REJECT, 0,
        "aggregatetype \"%.*s\" gives no valid topic name (letters, digits, \".\", \"_\" and "
        "\"-\", 249 at most); map it with relay.topics or lane.NAME.topics",
        (int)(type.len < 64 ? type.len : 64), type.data);
}

static enum rc add_topic(struct topics *topics, struct topic **slot, struct bytes type,
                         struct err *err)
{
    char name[TOPIC_NAME_SIZE];
    struct topic *topic;
    enum rc rc = make_name(topics, type, name, err);

    if (rc != RC_OK)
        return rc;
    if (topics->count == BROKER_TOPICS_MAX)
        return err_fail(err, RC_REJECT, 0,
                        "topic %s would be number %d of this lane: aggregatetype should name a "
                        "kind of aggregate, not a single aggregate",
                        name, BROKER_TOPICS_MAX + 1);
    topic = calloc(1, sizeof(*topic) + type.len);
    if (!topic)
        return err_fail(err, RC_FATAL, 0, "out of memory for a topic");
    memcpy(topic->name, name, sizeof(name));
    memcpy(topic->type, type.data, type.len);
    topic->type_len = type.len;
    topic->hash = hash_bytes(HASH_START, name, strlen(name));
    topic->index = topics->count;
    topics->list[topics->count++] = topic;
    *slot = topic;
    return RC_OK;
}

bool topic_name_is(const char *name)
{
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";

    return name[0] != '\0' && strlen(name) < TOPIC_NAME_SIZE &&
           name[strspn(name, letters)] == '\0' && strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

void topics_init(struct topics *topics, const char *map, const char *prefix)
{
    memset(topics, 0, sizeof(*topics));
    topics->map = map;
    topics->prefix = prefix;
}

void topics_done(struct topics *topics)
{
    for (size_t i = 0; i < topics->count; i++)
        free(topics->list[i]);
    memset(topics, 0, sizeof(*topics));
}

void topics_forget_refused(struct topics *topics)
{
    for (size_t i = 0; i < topics->count; i++) {
        if (topics->list[i]->state == TOPIC_REFUSED)
            topics->list[i]->state = TOPIC_UNKNOWN;
    }
}

void topics_forget_all(struct topics *topics)
{
    for (size_t i = 0; i < topics->count; i++)
        topics->list[i]->state = TOPIC_UNKNOWN;
}

enum rc topics_find(struct topics *topics, struct bytes type, struct topic **topic, struct err *err)
{
    size_t at;
    enum rc rc = RC_OK;

    if (!type.data)
        return err_fail(err, RC_REJECT, 0, "aggregatetype is NULL");
    at = (size_t)hash_bytes(HASH_START, type.data, type.len) % SLOTS;
    while (topics->slots[at] && (topics->slots[at]->type_len != type.len ||
                                 memcmp(topics->slots[at]->type, type.data, type.len) != 0))
        at = (at + 1) % SLOTS;
    if (!topics->slots[at])
        rc = add_topic(topics, &topics->slots[at], type, err);
    *topic = topics->slots[at];
    return rc;
}
