/* SPDX-License-Identifier: MIT */
#include "outbox/relay/topics.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct bytes text(const char *type)
{
    return (struct bytes){type, strlen(type)};
}

static void assert_topic(struct topics *topics, const char *type, const char *name)
{
    struct topic *topic = NULL;

    assert_int_equal(topics_find(topics, text(type), &topic, NULL), RC_OK);
    assert_string_equal(topic->name, name);
}

static void a_mapped_type_goes_to_its_topic_and_others_get_the_prefix(void **state)
{
    struct topics *topics = malloc(sizeof(*topics));

    (void)state;
    topics_init(topics, "vote=vote-events, order = orders ,x=y", "outbox.event.");
    assert_topic(topics, "vote", "vote-events");
    assert_topic(topics, "order", "orders");
    assert_topic(topics, "x", "y");
    assert_topic(topics, "vot", "outbox.event.vot");
    assert_topic(topics, "votes", "outbox.event.votes");
    assert_topic(topics, "Vote", "outbox.event.Vote");
    topics_done(topics);
    free(topics);
}

static void two_types_of_one_topic_share_its_hash_but_not_their_place(void **state)
{
    struct topics *topics = malloc(sizeof(*topics));
    struct topic *a = NULL;
    struct topic *b = NULL;

    (void)state;
    topics_init(topics, "a=t,b=t", "");
    assert_int_equal(topics_find(topics, text("a"), &a, NULL), RC_OK);
    assert_int_equal(topics_find(topics, text("b"), &b, NULL), RC_OK);
    assert_true(a->hash == b->hash);
    assert_int_not_equal(a->index, b->index);
    topics_done(topics);
    free(topics);
}

static void assert_refused(struct topics *topics, struct bytes type)
{
    struct topic *topic = NULL;
    struct err err = {0};

    assert_int_equal(topics_find(topics, type, &topic, &err), RC_REJECT);
    assert_null(topic);
    assert_true(err.text[0] != '\0');
    assert_int_equal(topics_find(topics, type, &topic, NULL), RC_REJECT);
}

static void a_type_that_makes_no_topic_name_is_refused(void **state)
{
    struct topics *topics = malloc(sizeof(*topics));
    struct topic *topic = NULL;
    char longest[250];

    (void)state;
    memset(longest, 'a', sizeof(longest));
    topics_init(topics, "", "p.");
    assert_refused(topics, text("with blank"));
    assert_refused(topics, text("gr\xc3\xbc\xc3\x9f"));
    assert_refused(topics, text("new\nline"));
    assert_refused(topics, (struct bytes){"a\0b", 3});
    assert_refused(topics, (struct bytes){NULL, 0});
    assert_refused(topics, (struct bytes){longest, 248});
    assert_int_equal(topics->count, 0);
    longest[247] = '\0';
    assert_int_equal(topics_find(topics, text(longest), &topic, NULL), RC_OK);
    assert_int_equal(strlen(topic->name), 249);
    topics_done(topics);
    topics_init(topics, "", "");
    assert_refused(topics, text(""));
    assert_refused(topics, text("."));
    assert_refused(topics, text(".."));
    topics_done(topics);
    free(topics);
}

/* The task that keeps the row has no topic, so its reason must name the type. */
static void the_refused_type_is_named_as_it_was_written(void **state)
{
    struct topics topics;
    struct topic *topic = NULL;
    struct err err = {0};

    (void)state;
    topics_init(&topics, "", "outbox.event.");
    assert_int_equal(topics_find(&topics, (struct bytes){"bad topic!", 10}, &topic, &err),
                     RC_REJECT);
    assert_non_null(strstr(err.text, "aggregatetype \"bad topic!\" gives no valid topic name"));
    topics_done(&topics);
}

static void there_are_only_so_many_topics(void **state)
{
    struct topics *topics = malloc(sizeof(*topics));
    char type[16];

    (void)state;
    topics_init(topics, "", "");
    for (int i = 0; i < BROKER_TOPICS_MAX; i++) {
        snprintf(type, sizeof(type), "t%d", i);
        assert_topic(topics, type, type);
    }
    assert_refused(topics, text("one-more"));
    assert_topic(topics, "t0", "t0");
    topics_done(topics);
    free(topics);
}

static void a_refused_topic_is_looked_at_again_and_a_ready_one_is_not(void **state)
{
    struct topics *topics = malloc(sizeof(*topics));
    struct topic *ready = NULL;
    struct topic *refused = NULL;

    (void)state;
    topics_init(topics, "", "");
    assert_int_equal(topics_find(topics, text("ready"), &ready, NULL), RC_OK);
    assert_int_equal(topics_find(topics, text("refused"), &refused, NULL), RC_OK);
    assert_int_equal(ready->state, TOPIC_UNKNOWN);
    ready->state = TOPIC_READY;
    refused->state = TOPIC_REFUSED;
    topics_forget_refused(topics);
    assert_int_equal(ready->state, TOPIC_READY);
    assert_int_equal(refused->state, TOPIC_UNKNOWN);
    ready->state = refused->state = TOPIC_READY;
    topics_forget_all(topics);
    assert_int_equal(ready->state, TOPIC_UNKNOWN);
    assert_int_equal(refused->state, TOPIC_UNKNOWN);
    topics_done(topics);
    free(topics);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_mapped_type_goes_to_its_topic_and_others_get_the_prefix),
        cmocka_unit_test(two_types_of_one_topic_share_its_hash_but_not_their_place),
        cmocka_unit_test(a_type_that_makes_no_topic_name_is_refused),
        cmocka_unit_test(the_refused_type_is_named_as_it_was_written),
        cmocka_unit_test(there_are_only_so_many_topics),
        cmocka_unit_test(a_refused_topic_is_looked_at_again_and_a_ready_one_is_not),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
