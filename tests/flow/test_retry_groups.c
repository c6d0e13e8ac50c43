/* SPDX-License-Identifier: MIT */
/* The tasks that the groups allow, on a fake store. */
#include "tests/flow/retry_fixture.h"

#include "common/log.h"
#include "outbox/retry/retry_metrics.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

static int set_up(void **state)
{
    (void)state;
    retry_fixture_reset(1);
    return 0;
}

static struct task *task_of(const char *group, enum retry_owner origin, const char *key)
{
    struct task *task = retry_fixture_task("mail", key);

    snprintf(task->base.class.group, sizeof(task->base.class.group), "%s", group);
    task->base.class.origin = origin;
    return task;
}

static void assert_refused(const struct task *task, const char *reason)
{
    assert_int_equal(task->runs, 0);
    assert_int_equal(task->claims, 1);
    assert_string_equal(task->reason_class, "refused");
    if (!strstr(task->reason, reason))
        fail_msg("%s is not in: %s", reason, task->reason);
}

static void tasks_of_an_unknown_or_disabled_group_wait_and_are_counted(void **state)
{
    struct retry_scene_metrics *metrics = retry_metrics_of("shop", "mail");
    struct task *task = task_of("shop", OWNER_CLIENT, "k");
    struct task *free_task = retry_fixture_task("mail", "other");
    struct retry_group *group;

    (void)state;
    host_start(0);
    retry_fixture_run(12000);
    assert_int_equal(retry_fixture_state(free_task), -1);
    assert_int_equal(task->claims, 0);
    assert_int_equal(retry_fixture_state(task), TASK_WAITING);
    assert_int_equal(metric_value(&metrics->group_closed), 1);
    group = retry_fixture_group("shop");
    group->enabled = false;
    retry_fixture_run(12000);
    assert_int_equal(task->claims, 0);
    assert_int_equal(metric_value(&metrics->group_closed), 1);
    group->enabled = true;
    assert_true(retry_fixture_drain(1500));
    assert_int_equal(task->runs, 1);
    retry_fixture_run(12000);
    assert_int_equal(metric_value(&metrics->group_closed), 0);
}

static void a_task_that_its_group_does_not_allow_is_refused_and_never_run(void **state)
{
    struct retry_group *shop = retry_fixture_group("shop");
    struct retry_group *mail = retry_fixture_group("mail");
    struct task *scene = task_of("shop", OWNER_CLIENT, NULL);
    struct task *keyed = task_of("shop", OWNER_CLIENT, "k");
    struct task *handler = task_of("mail", OWNER_CLIENT, NULL);

    (void)state;
    snprintf(shop->scenes, sizeof(shop->scenes), "invoice,mail.*");
    snprintf(mail->handlers, sizeof(mail->handlers), "http,tes,other");
    host_start(0);
    retry_fixture_run(2000);
    assert_refused(scene, "group shop does not allow the scene mail");
    assert_string_equal(retry_fixture_outcome(scene), "exhausted");
    assert_refused(keyed, "group shop does not allow the scene mail");
    assert_int_equal(retry_fixture_state(keyed), TASK_BLOCKED);
    assert_refused(handler, "group mail does not allow the handler test");
    assert_string_equal(retry_fixture_outcome(handler), "exhausted");
}

static void add_tasks(const char *group, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        char key[32];

        snprintf(key, sizeof(key), "%s-%zu", group, i);
        task_of(group, OWNER_CLIENT, key);
    }
}

static size_t runs_of(const char *group)
{
    size_t runs = 0;

    for (size_t i = 0; i < fixture.count; i++)
        runs += strcmp(fixture.tasks[i].base.class.group, group) == 0 ? fixture.tasks[i].runs : 0;
    return runs;
}

static void set_shards(size_t host, const char *shards)
{
    snprintf(fixture.hosts[host].settings.retry.shards,
             sizeof(fixture.hosts[host].settings.retry.shards), "%s", shards);
}

/* All tasks of the group run where its shards are held, in whichever shard their keys are. */
static void a_group_runs_in_its_shards_only(void **state)
{
    struct retry_group *shop = retry_fixture_group("shop");

    (void)state;
    snprintf(shop->shards, sizeof(shop->shards), "0-2");
    set_shards(0, "3-15");
    set_shards(1, "0-2");
    add_tasks("shop", 64);
    add_tasks("default", 64);
    host_start(0);
    retry_fixture_run(3000);
    assert_int_equal(runs_of("shop"), 0);
    assert_true(runs_of("default") > 0);
    host_start(1);
    assert_true(retry_fixture_drain(3000));
    assert_int_equal(runs_of("shop"), 64);
    assert_int_equal(runs_of("default"), 64);
}

/* Shards are changed while tasks of one key wait and run: the claim keeps their order. */
static void shards_of_a_group_may_change_while_tasks_run(void **state)
{
    struct retry_group *shop = retry_fixture_group("shop");

    (void)state;
    snprintf(shop->shards, sizeof(shop->shards), "15");
    set_shards(0, "0-7");
    set_shards(1, "8-15");
    for (size_t i = 0; i < 200; i++)
        task_of("shop", OWNER_CLIENT, "k");
    host_start(0);
    host_start(1);
    for (size_t i = 0; i < 40; i++) {
        retry_fixture_run(100);
        snprintf(shop->shards, sizeof(shop->shards), "%s", i % 2 == 0 ? "0" : "15");
        shop->version++;
        for (size_t j = 1; j < fixture.count; j++)
            if (fixture.tasks[j].runs > 0)
                assert_int_equal(retry_fixture_state(&fixture.tasks[j - 1]), -1);
    }
    assert_true(retry_fixture_drain(60000));
    assert_int_equal(runs_of("shop"), 200);
}

/* The processes that hold the group's shards have the whole rate together. */
static void a_rate_is_that_of_the_groups_shards(void **state)
{
    struct retry_group *shop = retry_fixture_group("shop");

    (void)state;
    snprintf(shop->shards, sizeof(shop->shards), "4,5");
    retry_fixture_scene("mail", "{}", NULL, false);
    snprintf(shop->init_scene, sizeof(shop->init_scene), "{\"rate\": \"20/s burst 16\"}");
    set_shards(0, "4-15");
    set_shards(1, "0-3");
    add_tasks("shop", 400);
    host_start(0);
    host_start(1);
    retry_fixture_run(6000);
    assert_in_range(runs_of("shop"), 110, 150);
}

static void shards_that_are_no_list_close_the_group(void **state)
{
    struct retry_group *shop = retry_fixture_group("shop");
    struct task *task = task_of("shop", OWNER_CLIENT, "k");

    (void)state;
    snprintf(shop->shards, sizeof(shop->shards), "1-99");
    host_start(0);
    retry_fixture_run(3000);
    assert_int_equal(task->claims, 0);
    snprintf(shop->shards, sizeof(shop->shards), "1");
    assert_true(retry_fixture_drain(3000));
}

static void a_topic_that_is_not_allowed_is_refused_alone(void **state)
{
    struct retry_group *shop = retry_fixture_group("shop");
    struct task *bad = task_of("shop", OWNER_CLIENT, NULL);
    struct task *good = task_of("shop", OWNER_CLIENT, NULL);
    struct task *none = task_of("shop", OWNER_CLIENT, NULL);

    (void)state;
    snprintf(shop->topics, sizeof(shop->topics), "shop.*");
    snprintf(bad->options, sizeof(bad->options), "{\"topic\":\"votes\"}");
    snprintf(good->options, sizeof(good->options), "{\"topic\":\"shop.orders\"}");
    host_start(0);
    retry_fixture_run(2000);
    assert_refused(bad, "group shop does not allow the topic votes");
    assert_int_equal(good->runs, 1);
    assert_int_equal(none->runs, 1);
}

static void a_group_of_the_relay_runs_its_own_tasks_alone(void **state)
{
    struct retry_group *group = retry_fixture_group("outbox");
    struct task *stranger = task_of("outbox", OWNER_CLIENT, "k");
    struct task *own = task_of("outbox", OWNER_RELAY, "o");
    struct task *without_row = task_of("outbox_7", OWNER_RELAY, "p");

    (void)state;
    group->owner = OWNER_RELAY;
    group->handlers[0] = '\0';
    host_start(0);
    retry_fixture_run(2000);
    assert_refused(stranger, "group outbox belongs to the relay");
    assert_int_equal(own->runs, 1);
    assert_int_equal(without_row->runs, 1);
    group->enabled = false;
    own = task_of("outbox", OWNER_RELAY, "l");
    retry_fixture_run(3000);
    assert_int_equal(own->claims, 0);
    group->enabled = true;
    retry_fixture_run(3000);
    assert_int_equal(own->runs, 1);
}

static void set_init_scene(struct retry_group *group, const char *text)
{
    snprintf(group->init_scene, sizeof(group->init_scene), "%s", text);
    group->version++;
}

static void a_scene_without_a_row_has_the_policy_of_its_group(void **state)
{
    struct retry_group *shop = retry_fixture_group("shop");
    struct task *task = task_of("shop", OWNER_CLIENT, NULL);

    (void)state;
    set_init_scene(shop, "{\"wait\": \"fixed 1s\", \"attempts\": 3}");
    task->fail_runs = 100;
    host_start(0);
    retry_fixture_run(10000);
    assert_int_equal(task->runs, 3);
    assert_string_equal(retry_fixture_outcome(task), "exhausted");
}

/* As of a policy in a row: a task that is made after the change never runs under the old one, and
 * what ran under the old one is not exhausted. */
static void a_change_of_the_groups_policy_holds_for_every_later_claim(void **state)
{
    struct retry_group *shop = retry_fixture_group("shop");
    struct task *task;

    (void)state;
    set_init_scene(shop, "{\"attempts\": 1}");
    task = task_of("shop", OWNER_CLIENT, NULL);
    task->fail_runs = 1;
    fixture.hosts[0].slow = true;
    host_start(0);
    retry_fixture_run(500);
    assert_int_equal(task->claims, 1);
    set_init_scene(shop, "{\"attempts\": 5, \"wait\": \"fixed 1s\"}");
    fixture.hosts[0].slow = false;
    retry_fixture_run(10);
    assert_true(retry_fixture_drain(5000));
    assert_int_equal(task->runs, 2);
    assert_string_equal(retry_fixture_outcome(task), "done");
}

static void a_scene_without_a_row_waits_if_its_group_refuses_such(void **state)
{
    struct retry_scene_metrics *metrics = retry_metrics_of("default", "mail");
    struct retry_group *group = retry_fixture_group(RETRY_GROUP_DEFAULT);
    struct task *task = retry_fixture_task("mail", "k");

    (void)state;
    set_init_scene(group, "refuse");
    host_start(0);
    retry_fixture_run(12000);
    assert_int_equal(task->claims, 0);
    assert_int_equal(metric_value(&metrics->group_closed), 1);
    retry_fixture_scene("mail", NULL, NULL, false);
    assert_true(retry_fixture_drain(2000));
    assert_int_equal(task->runs, 1);
}

static void nothing_is_claimed_before_the_groups_are_known(void **state)
{
    struct task *task = retry_fixture_task("mail", NULL);

    (void)state;
    retry_fixture_fail_next(FAKE_TASKS_GROUPS, 5);
    host_start(0);
    while (fixture.calls[FAKE_TASKS_GROUPS] < 5) {
        retry_fixture_run(10);
        assert_int_equal(task->claims, 0);
    }
    assert_true(retry_fixture_drain(20000));
}

/* A group may have been closed meanwhile. */
static void nothing_is_claimed_while_the_groups_cannot_be_read_again(void **state)
{
    struct retry_group *shop = retry_fixture_group("shop");
    struct task *task;

    (void)state;
    host_start(0);
    retry_fixture_run(2000);
    retry_fixture_fail_next(FAKE_TASKS_GROUPS, 8);
    while (fixture.calls[FAKE_TASKS_GROUPS] < fixture.fail_from)
        retry_fixture_run(1);
    snprintf(shop->scenes, sizeof(shop->scenes), "invoice");
    task = task_of("shop", OWNER_CLIENT, NULL);
    while (fixture.calls[FAKE_TASKS_GROUPS] < fixture.fail_from + 7) {
        assert_int_equal(task->claims, 0);
        retry_fixture_run(10);
    }
    retry_fixture_run(10000);
    assert_refused(task, "does not allow the scene mail");
}

static void tasks_that_wait_for_a_thread_go_back_when_their_group_is_disabled(void **state)
{
    struct retry_group *shop = retry_fixture_group("shop");
    struct task *task = task_of("shop", OWNER_CLIENT, NULL);

    (void)state;
    fixture.hosts[0].slow = true;
    host_start(0);
    retry_fixture_run(1500);
    assert_int_equal(retry_fixture_state(task), TASK_RUNNING);
    shop->enabled = false;
    retry_fixture_run(1500);
    assert_int_equal(retry_fixture_state(task), TASK_WAITING);
    assert_int_equal(task->base.old.attempts, 0);
    fixture.hosts[0].slow = false;
    retry_fixture_run(3000);
    assert_int_equal(task->runs, 0);
    shop->enabled = true;
    assert_true(retry_fixture_drain(1500));
    assert_int_equal(task->runs, 1);
}

static void tasks_that_wait_for_a_thread_are_refused_when_their_group_allows_them_no_more(
    void **state)
{
    struct retry_group *shop = retry_fixture_group("shop");
    struct task *task = task_of("shop", OWNER_CLIENT, NULL);
    struct task *other = task_of("shop", OWNER_CLIENT, NULL);

    (void)state;
    snprintf(task->options, sizeof(task->options), "{\"topic\":\"votes\"}");
    snprintf(other->options, sizeof(other->options), "{\"topic\":\"shop.orders\"}");
    fixture.hosts[0].slow = true;
    host_start(0);
    retry_fixture_run(1500);
    assert_int_equal(retry_fixture_state(task), TASK_RUNNING);
    snprintf(shop->topics, sizeof(shop->topics), "shop.*");
    retry_fixture_run(1500);
    fixture.hosts[0].slow = false;
    retry_fixture_run(3000);
    assert_refused(task, "group shop does not allow the topic votes");
    assert_int_equal(other->runs, 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, set_up)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(tasks_of_an_unknown_or_disabled_group_wait_and_are_counted),
        TEST(a_task_that_its_group_does_not_allow_is_refused_and_never_run),
        TEST(a_group_runs_in_its_shards_only),
        TEST(shards_of_a_group_may_change_while_tasks_run),
        TEST(a_rate_is_that_of_the_groups_shards),
        TEST(shards_that_are_no_list_close_the_group),
        TEST(a_topic_that_is_not_allowed_is_refused_alone),
        TEST(a_group_of_the_relay_runs_its_own_tasks_alone),
        TEST(a_scene_without_a_row_has_the_policy_of_its_group),
        TEST(a_change_of_the_groups_policy_holds_for_every_later_claim),
        TEST(a_scene_without_a_row_waits_if_its_group_refuses_such),
        TEST(nothing_is_claimed_before_the_groups_are_known),
        TEST(nothing_is_claimed_while_the_groups_cannot_be_read_again),
        TEST(tasks_that_wait_for_a_thread_go_back_when_their_group_is_disabled),
        TEST(tasks_that_wait_for_a_thread_are_refused_when_their_group_allows_them_no_more),
    };

    log_init(LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
