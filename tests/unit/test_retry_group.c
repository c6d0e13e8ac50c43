/* SPDX-License-Identifier: MIT */
#include "outbox/retry/retry.h"

#include "outbox/retry/handler.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const struct retry_group good = {.name = "shop",
                                        .enabled = true,
                                        .handlers = "http,kafka,steps",
                                        .scenes = "order.*,mail",
                                        .topics = "shop.*"};

static void a_list_allows_what_it_names(void **state)
{
    (void)state;
    assert_false(retry_list_allows("", "a"));
    assert_false(retry_list_allows("", ""));
    assert_true(retry_list_allows("a", "a"));
    assert_false(retry_list_allows("a", "aa"));
    assert_false(retry_list_allows("aa", "a"));
    assert_true(retry_list_allows("b,a", "a"));
    assert_true(retry_list_allows("b,a*,c", "ab"));
    assert_true(retry_list_allows("a*", "a"));
    assert_false(retry_list_allows("a*", "b"));
    assert_true(retry_list_allows("*", "anything"));
    /* A list that the check would refuse allows nothing by mistake. */
    assert_false(retry_list_allows(",", "a"));
    assert_false(retry_list_allows(" a", "a"));
    assert_false(retry_list_allows("a,,b", ""));
    assert_false(retry_list_allows("A", "a"));
}

static void a_value_that_is_no_list_is_reported(void **state)
{
    static const char *const good_lists[] = {"", "a", "*", "a*", "a,b*,c_d.e:f-g"};
    static const char *const bad[] = {",",  "a,",   ",a",  "a b",     "a*b",
                                      "**", "a,,b", "a;b", "\303\244"};
    char longer[RETRY_GROUP_HANDLERS_SIZE + 1];
    struct err err = {0};

    (void)state;
    for (size_t i = 0; i < sizeof(good_lists) / sizeof(good_lists[0]); i++)
        assert_int_equal(retry_list_check(good_lists[i], 100, "--topics", &err), RC_OK);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(retry_list_check(bad[i], 100, "--topics", &err), RC_REJECT);
        assert_memory_equal(err.text, "--topics takes names", 20);
    }
    memset(longer, 'a', sizeof(longer) - 1);
    longer[sizeof(longer) - 1] = '\0';
    assert_int_equal(retry_list_check(longer, RETRY_GROUP_HANDLERS_SIZE, "--handlers", &err),
                     RC_REJECT);
    assert_non_null(strstr(err.text, "longer than 255 bytes"));
}

static void an_owner_is_a_word(void **state)
{
    enum retry_owner owner = OWNER_CLIENT;

    (void)state;
    for (unsigned i = 0; i < RETRY_OWNERS; i++) {
        const char *name = retry_owner_name((enum retry_owner)i);

        assert_true(retry_owner_read(name, strlen(name), &owner));
        assert_int_equal(owner, i);
    }
    assert_false(retry_owner_read("client", 5, &owner));
    assert_false(retry_owner_read("", 0, &owner));
    assert_string_equal(retry_owner_name(OWNER_UNKNOWN), "unknown");
}

static void assert_decision(const struct retry_group *group, enum retry_owner origin,
                            const char *scene, const char *handler, enum group_decision decision,
                            const char *words)
{
    const struct retry_scene_name name = {scene, true};
    struct err err = {0};

    assert_int_equal(retry_group_decide(group, "shop", origin, &name, handler, &err), decision);
    if (words && !strstr(err.text, words))
        fail_msg("%s is not in: %s", words, err.text);
}

static void a_group_decides_about_its_clients(void **state)
{
    struct retry_group group = good;

    (void)state;
    assert_decision(&group, OWNER_CLIENT, "mail", "http", GROUP_OPEN, NULL);
    assert_decision(&group, OWNER_CLIENT, "order.paid", "http", GROUP_OPEN, NULL);
    assert_decision(&group, OWNER_CLIENT, "order", "http", GROUP_REFUSES, "the scene order");
    assert_decision(&group, OWNER_CLIENT, "mail", "vote", GROUP_REFUSES, "the handler vote");
    assert_decision(NULL, OWNER_CLIENT, "mail", "http", GROUP_CLOSED, "there is no group shop");
    group.enabled = false;
    assert_decision(&group, OWNER_CLIENT, "mail", "http", GROUP_CLOSED, "group shop is disabled");
    group = good;
    group.owner = OWNER_CONSUMER;
    assert_decision(&group, OWNER_CLIENT, "mail", "http", GROUP_REFUSES, "belongs to the consumer");
    group.owner = OWNER_UNKNOWN;
    assert_decision(&group, OWNER_CLIENT, "mail", "http", GROUP_REFUSES, "belongs to");
}

static void a_task_without_a_name_that_a_row_may_have_is_refused(void **state)
{
    static const char *const bad[] = {"mail ", " mail", " ", "", "m\303\244il", "a\tb", "a,b"};
    const struct retry_group all = {
        .name = "shop", .enabled = true, .handlers = "*", .scenes = "*", .topics = "*"};
    const struct retry_scene_name mail = {"mail", true};
    struct err err = {0};

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_decision(&all, OWNER_CLIENT, bad[i], "http", GROUP_REFUSES, "is not a name of 1 to");
        assert_int_equal(retry_group_decide(NULL, bad[i], OWNER_CLIENT, &mail, "http", &err),
                         GROUP_REFUSES);
        assert_memory_equal(err.text, "group \"", 7);
    }
    assert_decision(&all, OWNER_CLIENT, "mail ", "http", GROUP_REFUSES, "scene \"mail \" is not");
}

static void a_group_may_refuse_scenes_without_a_row(void **state)
{
    struct retry_group group = good;
    struct retry_scene_name scene = {"mail", false};
    struct err err = {0};

    (void)state;
    assert_int_equal(retry_group_decide(&group, "shop", OWNER_CLIENT, &scene, "http", &err),
                     GROUP_OPEN);
    snprintf(group.init_scene, sizeof(group.init_scene), "refuse");
    assert_int_equal(retry_group_decide(&group, "shop", OWNER_CLIENT, &scene, "http", &err),
                     GROUP_CLOSED);
    assert_int_equal(err.code, RETRY_NOT_CONFIGURED);
    assert_non_null(strstr(err.text, "no scene configuration found"));
    assert_non_null(strstr(err.text, "tallybox retry scene set mail --group shop"));
    /* What is not allowed at all is refused first. */
    assert_int_equal(retry_group_decide(&group, "shop", OWNER_CLIENT, &scene, "vote", &err),
                     GROUP_REFUSES);
    scene.configured = true;
    assert_int_equal(retry_group_decide(&group, "shop", OWNER_CLIENT, &scene, "http", &err),
                     GROUP_OPEN);
    /* Roles create no scenes. */
    scene.configured = false;
    group.owner = OWNER_RELAY;
    assert_int_equal(retry_group_decide(&group, "shop", OWNER_RELAY, &scene, "http", &err),
                     GROUP_OPEN);
    assert_int_equal(retry_group_decide(NULL, "shop", OWNER_CLIENT, &scene, "http", &err),
                     GROUP_CLOSED);
    assert_int_equal(err.code, RETRY_NOT_CONFIGURED);
    assert_non_null(strstr(err.text, "no group configuration found"));
}

static void a_group_names_the_policy_of_scenes_without_a_row(void **state)
{
    static const char *const words[] = {"", "standard", "refuse"};
    struct retry_group group = good;

    (void)state;
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        snprintf(group.init_scene, sizeof(group.init_scene), "%s", words[i]);
        assert_null(retry_group_init_policy(&group));
    }
    assert_null(retry_group_init_policy(NULL));
    snprintf(group.init_scene, sizeof(group.init_scene), "{}");
    assert_string_equal(retry_group_init_policy(&group), "{}");
    group.owner = OWNER_RELAY;
    assert_null(retry_group_init_policy(&group));
}

static void a_role_runs_its_own_tasks_unless_its_group_is_disabled(void **state)
{
    struct retry_group group = {.name = "shop", .owner = OWNER_RELAY, .enabled = true};

    (void)state;
    assert_decision(NULL, OWNER_RELAY, "publish", "kafka", GROUP_OPEN, NULL);
    assert_decision(&group, OWNER_RELAY, "publish", "kafka", GROUP_OPEN, NULL);
    group.enabled = false;
    assert_decision(&group, OWNER_RELAY, "publish", "kafka", GROUP_CLOSED, "is disabled");
    assert_decision(&group, OWNER_CONSUMER, "dead", "vote", GROUP_OPEN, NULL);
}

static enum rc two_effects(const struct retry_handlers *all, const struct retry_job *job,
                           retry_on_effect on_effect, void *ctx, struct err *err)
{
    enum rc rc = on_effect(ctx, "http", NULL, err);

    (void)all;
    return rc == RC_OK ? on_effect(ctx, "kafka", job->options, err) : rc;
}

static void every_effect_must_be_allowed(void **state)
{
    const struct retry_handler plain = {.name = "http"};
    const struct retry_handler handler = {.name = "steps", .effects = two_effects};
    struct retry_job job = {.options = "shop.orders"};
    struct retry_group group = good;
    struct err err = {0};

    (void)state;
    assert_int_equal(retry_group_check(&group, NULL, NULL, &job, &err), RC_OK);
    assert_int_equal(retry_group_check(&group, NULL, &plain, &job, &err), RC_OK);
    assert_int_equal(retry_group_check(&group, NULL, &handler, &job, &err), RC_OK);
    job.options = "votes";
    assert_int_equal(retry_group_check(&group, NULL, &handler, &job, &err), RC_REJECT);
    assert_string_equal(err.text, "group shop does not allow the topic votes");
    snprintf(group.handlers, sizeof(group.handlers), "kafka,steps");
    assert_int_equal(retry_group_check(&group, NULL, &handler, &job, &err), RC_REJECT);
    assert_string_equal(err.text, "group shop does not allow the handler http");
}

static void a_handler_that_does_not_exist_is_reported_with_the_nearest_one(void **state)
{
    static const struct retry_handler http = {.name = "http"};
    static const struct retry_handler exec = {.name = "exec"};
    static const struct retry_handler *const list[] = {&http, &exec};
    const struct retry_handlers all = {.list = list, .count = 2};
    struct err err = {0};

    (void)state;
    assert_true(retry_handler_exists(&all, "exec", &err));
    assert_true(retry_handler_exists(NULL, "htp", &err));
    assert_string_equal(err.text, "");
    assert_false(retry_handler_exists(&all, "htp", &err));
    assert_non_null(strstr(err.text, "there is no handler htp, did you mean http; "));
    assert_false(retry_handler_exists(&all, "wholly-other", &err));
    assert_non_null(strstr(err.text, "there is no handler wholly-other; "));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_list_allows_what_it_names),
        cmocka_unit_test(a_value_that_is_no_list_is_reported),
        cmocka_unit_test(an_owner_is_a_word),
        cmocka_unit_test(a_group_decides_about_its_clients),
        cmocka_unit_test(a_task_without_a_name_that_a_row_may_have_is_refused),
        cmocka_unit_test(a_group_may_refuse_scenes_without_a_row),
        cmocka_unit_test(a_group_names_the_policy_of_scenes_without_a_row),
        cmocka_unit_test(a_role_runs_its_own_tasks_unless_its_group_is_disabled),
        cmocka_unit_test(every_effect_must_be_allowed),
        cmocka_unit_test(a_handler_that_does_not_exist_is_reported_with_the_nearest_one),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
