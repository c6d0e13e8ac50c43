/* SPDX-License-Identifier: MIT */
#include "outbox/relay/topics.h"

#include "common/config/lane_texts.h"
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

/* A name that is made piece by piece. */
struct name {
    char *text; /* of TOPIC_NAME_SIZE bytes */
    size_t len;
    bool is_long;
};

static void put_part(struct name *name, const char *part, size_t len)
{
    name->is_long = name->is_long || len >= TOPIC_NAME_SIZE - name->len;
    if (name->is_long)
        return;
    memcpy(name->text + name->len, part, len);
    name->len += len;
}

/* What $N stands for; nothing where the group has matched nothing. */
static void put_group(struct name *name, const char *text, const regmatch_t *group)
{
    if (group->rm_so >= 0)
        put_part(name, text + group->rm_so, (size_t)(group->rm_eo - group->rm_so));
}

static void fill_topic(struct name *name, const char *topic, const char *text,
                       const regmatch_t groups[LANE_TOPIC_GROUPS])
{
    for (const char *at = topic; *at;) {
        size_t len = strcspn(at, "$");

        put_part(name, at, len);
        at += len;
        if (*at == '$' && at[1] == '{') {
            put_part(name, text, strlen(text));
            at += 1 + strlen(LANE_ROUTED_VALUE);
        } else if (*at == '$') {
            put_group(name, text, &groups[at[1] - '0']);
            at += 2;
        }
    }
}

/* Invariant: POSIX finds the longest of the leftmost matches, so if the text matches as a whole,
 * that match is found. A type that does not is its own topic, as in Kafka Connect's RegexRouter. */
static enum rc apply_rule(const struct topic_rule *rule, struct bytes type, struct name *name,
                          struct err *err)
{
    char text[ROW_TEXT_BYTES_MAX + 1];
    regmatch_t groups[LANE_TOPIC_GROUPS] = {{.rm_so = 0, .rm_eo = (regoff_t)type.len}};
    int code = 0;

    name->is_long = type.len >= sizeof(text);
    if (name->is_long)
        return RC_OK;
    memcpy(text, type.data, type.len);
    text[type.len] = '\0';
    if (rule->source[0])
        code = regexec(&rule->regex, text, LANE_TOPIC_GROUPS, groups, 0);
    if (code != 0 && code != REG_NOMATCH)
        return err_fail(err, RC_FATAL, 0, "out of memory for a match of lane.NAME.topic_regex");
    if (code == 0 && groups[0].rm_so == 0 && (size_t)groups[0].rm_eo == type.len)
        fill_topic(name, rule->topic, text, groups);
    else
        put_part(name, text, type.len);
    return RC_OK;
}

static enum rc make_name(const struct topics *topics, struct bytes type, char text[TOPIC_NAME_SIZE],
                         struct err *err)
{
    struct bytes topic = find_in_map(topics->map, type);
    struct name name = {.text = text};
    enum rc rc = RC_OK;

    if (topic.data) {
        put_part(&name, topic.data, topic.len);
    } else if (topics->rule.topic) {
        rc = apply_rule(&topics->rule, type, &name, err);
    } else {
        put_part(&name, topics->prefix, strlen(topics->prefix));
        put_part(&name, type.data, type.len);
    }
    if (rc != RC_OK)
        return rc;
    text[name.len] = '\0';
    if (!name.is_long && !memchr(type.data, '\0', type.len) && topic_name_is(text))
        return RC_OK;
    return err_fail(
        err, RC_REJECT, 0,
        "aggregatetype \"%.*s\" gives no valid topic name (letters, digits, \".\", \"_\" and "
        "\"-\", 249 at most); map it with relay.topics or lane.NAME.topics",
        (int)(type.len < 64 ? type.len : 64), type.data);
}

static struct topic *find_name(const struct topics *topics, const char *name, uint64_t hash)
{
    for (size_t i = 0; i < topics->count; i++)
        if (topics->list[i]->hash == hash && strcmp(topics->list[i]->name, name) == 0)
            return topics->list[i];
    return NULL;
}

static enum rc add_topic(struct topics *topics, struct topic **out, const char *name, uint64_t hash,
                         struct err *err)
{
    struct topic *topic;

    if (topics->count == BROKER_TOPICS_MAX)
        return err_fail(err, RC_REJECT, 0,
                        "topic %s would be number %d of this lane: aggregatetype should name a "
                        "kind of aggregate, not a single aggregate",
                        name, BROKER_TOPICS_MAX + 1);
    topic = calloc(1, sizeof(*topic));
    if (!topic)
        return err_fail(err, RC_FATAL, 0, "out of memory for a topic");
    snprintf(topic->name, sizeof(topic->name), "%s", name);
    topic->hash = hash;
    topic->index = topics->count;
    topics->list[topics->count++] = topic;
    *out = topic;
    return RC_OK;
}

static void forget_types(struct topics *topics)
{
    for (size_t i = 0; i < SLOTS; i++)
        free(topics->slots[i]);
    memset(topics->slots, 0, sizeof(topics->slots));
    topics->type_count = 0;
}

/* The slot of a type, or the empty one in which it belongs. */
static struct topic_type **find_slot(struct topics *topics, struct bytes type)
{
    size_t at = (size_t)hash_bytes(HASH_START, type.data, type.len) % SLOTS;

    while (topics->slots[at] && (topics->slots[at]->len != type.len ||
                                 memcmp(topics->slots[at]->text, type.data, type.len) != 0))
        at = (at + 1) % SLOTS;
    return &topics->slots[at];
}

/* With a rule there may be more types than topics: then all types are looked at once more. */
static enum rc add_type(struct topics *topics, struct topic *topic, struct bytes type,
                        struct err *err)
{
    struct topic_type *added = calloc(1, sizeof(*added) + type.len);

    if (!added)
        return err_fail(err, RC_FATAL, 0, "out of memory for a topic");
    added->topic = topic;
    added->len = type.len;
    memcpy(added->text, type.data, type.len);
    if (topics->type_count == BROKER_TOPICS_MAX)
        forget_types(topics);
    *find_slot(topics, type) = added;
    topics->type_count++;
    return RC_OK;
}

enum rc topic_rule_init(struct topic_rule *rule, const char *topic, const char *regex,
                        struct err *err)
{
    size_t group_max = lane_topic_group_max(topic);
    size_t groups = 0;

    memset(rule, 0, sizeof(*rule));
    if (!topic[0] && regex[0])
        return err_fail(err, RC_REJECT, 0,
                        "topic_regex needs topic, which makes the topic of what it matches");
    if (regex[0] && regcomp(&rule->regex, regex, REG_EXTENDED) != 0)
        return err_fail(err, RC_REJECT, 0, "topic_regex is no regular expression");
    if (regex[0])
        groups = rule->regex.re_nsub;
    rule->topic = topic[0] ? topic : NULL;
    rule->source = regex;
    if (group_max <= groups)
        return RC_OK;
    topic_rule_done(rule);
    return err_fail(err, RC_REJECT, 0, "topic has $%zu, and topic_regex has %zu groups", group_max,
                    groups);
}

void topic_rule_done(struct topic_rule *rule)
{
    if (rule->topic && rule->source[0])
        regfree(&rule->regex);
    memset(rule, 0, sizeof(*rule));
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

enum rc topics_set_rule(struct topics *topics, const char *topic, const char *regex,
                        struct err *err)
{
    return topic_rule_init(&topics->rule, topic, regex, err);
}

void topics_done(struct topics *topics)
{
    forget_types(topics);
    topic_rule_done(&topics->rule);
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
    char name[TOPIC_NAME_SIZE];
    struct topic_type *known;
    uint64_t hash;
    enum rc rc;

    if (!type.data)
        return err_fail(err, RC_REJECT, 0, "aggregatetype is NULL");
    known = *find_slot(topics, type);
    if (known) {
        *topic = known->topic;
        return RC_OK;
    }
    rc = make_name(topics, type, name, err);
    if (rc != RC_OK)
        return rc;
    hash = hash_bytes(HASH_START, name, strlen(name));
    *topic = find_name(topics, name, hash);
    if (!*topic)
        rc = add_topic(topics, topic, name, hash, err);
    return rc == RC_OK ? add_type(topics, *topic, type, err) : rc;
}
