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

static void two_types_of_one_topic_share_it(void **state)
{
    struct topics *topics = malloc(sizeof(*topics));
    struct topic *a = NULL;
    struct topic *b = NULL;

    (void)state;
    topics_init(topics, "a=t,b=t", "");
    assert_int_equal(topics_find(topics, text("a"), &a, NULL), RC_OK);
    assert_int_equal(topics_find(topics, text("b"), &b, NULL), RC_OK);
    assert_ptr_equal(a, b);
    assert_int_equal(topics->count, 1);
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

static struct topics *with_rule(const char *topic, const char *regex)
{
    struct topics *topics = malloc(sizeof(*topics));

    topics_init(topics, "vote=vote-events", "outbox.event.");
    assert_int_equal(topics_set_rule(topics, topic, regex, NULL), RC_OK);
    return topics;
}

static void done(struct topics *topics)
{
    topics_done(topics);
    free(topics);
}

static void a_rule_makes_the_topics_that_the_map_does_not_have(void **state)
{
    struct topics *topics = with_rule("shop.${routedByValue}.v1", "");

    (void)state;
    assert_topic(topics, "vote", "vote-events");
    assert_topic(topics, "order", "shop.order.v1");
    assert_topic(topics, "order", "shop.order.v1");
    assert_refused(topics, text("no topic"));
    done(topics);
    topics = with_rule("$0", "");
    assert_topic(topics, "order", "order");
    assert_refused(topics, text(""));
    done(topics);
}

static void groups_of_the_expression_are_parts_of_the_topic(void **state)
{
    struct topics *topics = with_rule("$2.$1-$0$3", "([a-z]+)_([a-z]+)(_x)?");

    (void)state;
    assert_topic(topics, "order_shop", "shop.order-order_shop");
    assert_topic(topics, "order_shop_x", "shop.order-order_shop_x_x");
    done(topics);
    topics = with_rule("${routedByValue}-$1", "(a|ab)(c|bcd)*");
    /* The longest match counts, and it has to be the whole type. */
    assert_topic(topics, "abcd", "abcd-a");
    assert_topic(topics, "xab", "xab");
    done(topics);
}

static void a_type_that_does_not_match_as_a_whole_is_its_own_topic(void **state)
{
    struct topics *topics = with_rule("orders", "order-[0-9]+");

    (void)state;
    assert_topic(topics, "order-1", "orders");
    assert_topic(topics, "order-1x", "order-1x");
    assert_topic(topics, "an-order-1", "an-order-1");
    assert_refused(topics, text("order 1"));
    assert_refused(topics, (struct bytes){"order-1\0", 8});
    done(topics);
}

static void a_topic_that_is_too_long_is_refused(void **state)
{
    struct topics *topics = with_rule("$0$0$0", "");
    char longest[ROW_TEXT_BYTES_MAX + 2];

    (void)state;
    memset(longest, 'a', sizeof(longest));
    assert_refused(topics, (struct bytes){longest, 84});
    assert_refused(topics, (struct bytes){longest, sizeof(longest)});
    assert_int_equal(topics->count, 0);
    longest[83] = '\0';
    assert_int_equal(topics_find(topics, text(longest), &(struct topic *){NULL}, NULL), RC_OK);
    assert_int_equal(strlen(topics->list[0]->name), 249);
    done(topics);
}

static void there_may_be_any_number_of_types_of_one_topic(void **state)
{
    struct topics *topics = with_rule("orders.$1", "order-[0-9]*([0-9])");
    struct topic *first = NULL;
    char type[16];

    (void)state;
    assert_int_equal(topics_find(topics, text("order-0"), &first, NULL), RC_OK);
    for (int i = 0; i < 3 * BROKER_TOPICS_MAX; i++) {
        struct topic *topic = NULL;

        snprintf(type, sizeof(type), "order-%d", i);
        assert_int_equal(topics_find(topics, text(type), &topic, NULL), RC_OK);
        assert_int_equal(topic->name[strlen("orders.")], type[strlen(type) - 1]);
        assert_true(topics->type_count <= BROKER_TOPICS_MAX);
        if (i % 10 == 0)
            assert_ptr_equal(topic, first);
    }
    assert_int_equal(topics->count, 10);
    done(topics);
}

static void assert_no_rule(const char *topic, const char *regex, const char *why)
{
    struct topic_rule rule;
    struct err err = {0};

    assert_int_equal(topic_rule_init(&rule, topic, regex, &err), RC_REJECT);
    assert_string_equal(err.text, why);
    assert_null(rule.topic);
    topic_rule_done(&rule);
}

static void settings_that_do_not_fit_together_are_named(void **state)
{
    (void)state;
    assert_no_rule("", "a", "topic_regex needs topic, which makes the topic of what it matches");
    assert_no_rule("$1", "", "topic has $1, and topic_regex has 0 groups");
    assert_no_rule("x$1.$3", "(a)(b)", "topic has $3, and topic_regex has 2 groups");
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
        cmocka_unit_test(two_types_of_one_topic_share_it),
        cmocka_unit_test(a_type_that_makes_no_topic_name_is_refused),
        cmocka_unit_test(a_rule_makes_the_topics_that_the_map_does_not_have),
        cmocka_unit_test(groups_of_the_expression_are_parts_of_the_topic),
        cmocka_unit_test(a_type_that_does_not_match_as_a_whole_is_its_own_topic),
        cmocka_unit_test(a_topic_that_is_too_long_is_refused),
        cmocka_unit_test(there_may_be_any_number_of_types_of_one_topic),
        cmocka_unit_test(settings_that_do_not_fit_together_are_named),
        cmocka_unit_test(the_refused_type_is_named_as_it_was_written),
        cmocka_unit_test(there_are_only_so_many_topics),
        cmocka_unit_test(a_refused_topic_is_looked_at_again_and_a_ready_one_is_not),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
