/* SPDX-License-Identifier: MIT */
#include "outbox/retry/scenes.h"

#include "common/log.h"
#include "outbox/retry/retry_ops.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

static const struct retry_handler handler = {.name = "test"};
static const struct retry_handler *const list[] = {&handler};
static void *opened[] = {&opened};
static const struct retry_handlers handlers = {list, 1, opened, NULL, NULL};
static struct pool pool;
static struct groups groups;
static struct scenes scenes;

static int set_up(void **state)
{
    (void)state;
    pool.handlers = &handlers;
    scenes_init(&scenes, &pool, &groups);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    scenes_done(&scenes);
    groups_done(&groups);
    return 0;
}

static struct kind *kind_of(const char *scene, uint64_t look)
{
    struct task_class class = {.handler = "test", .group = "default"};

    snprintf(class.scene, sizeof(class.scene), "%s", scene);
    return scenes_kind(&scenes, &class, look, 1000);
}

static void read_row(const char *policy, const char *options)
{
    const struct scene_row row = {"default", "mail", policy, options, false, 1};

    scenes_begin(&scenes);
    assert_int_equal(scenes_take(&scenes, &row, NULL), RC_OK);
    assert_int_equal(scenes_end(&scenes, NULL), RC_OK);
}

static void a_scene_without_a_row_has_the_default_policy(void **state)
{
    struct kind *kind = kind_of("mail", 1);

    (void)state;
    assert_ptr_equal(kind, kind_of("mail", 2));
    assert_int_equal(kind->scene->policy.attempts_max, 6);
    assert_int_equal(kind->scene->policy.exhausted, POLICY_BLOCK);
    assert_true(kind->scene->policy.stops[FAULT_CLASS_REFUSED]);
    assert_false(kind_of("publish", 1)->scene->policy.stops[FAULT_CLASS_REFUSED]);
    assert_ptr_equal(kind->handler, &handler);
}

static void a_change_counts_also_without_a_new_version(void **state)
{
    struct kind *kind = kind_of("mail", 1);

    (void)state;
    read_row("{\"attempts\": 3}", NULL);
    assert_int_equal(kind->scene->policy.attempts_max, 3);
    read_row("{\"attempts\": 4}", NULL);
    assert_int_equal(kind->scene->policy.attempts_max, 4);
}

/* Reads the group default and no row of a scene. */
static void read_group(const char *init_scene, int64_t version)
{
    struct retry_group group = {.name = "default", .enabled = true, .version = version};

    snprintf(group.init_scene, sizeof(group.init_scene), "%s", init_scene);
    groups_begin(&groups);
    assert_int_equal(groups_take(&groups, &group, NULL), RC_OK);
    groups_end(&groups);
    scenes_begin(&scenes);
    assert_int_equal(scenes_end(&scenes, NULL), RC_OK);
}

static void a_scene_without_a_row_has_the_policy_of_its_group(void **state)
{
    struct kind *kind;

    (void)state;
    read_group("{\"attempts\": 3}", 7);
    kind = kind_of("mail", 1);
    assert_int_equal(kind->scene->policy.attempts_max, 3);
    /* A claim tells that the policy has changed. */
    assert_int_equal(kind->scene->version, -7);
    read_group("{\"attempts\": 4}", 8);
    assert_int_equal(kind->scene->policy.attempts_max, 4);
    assert_int_equal(kind->scene->version, -8);
    read_row("{\"wait\": \"fixed 1s\"}", NULL);
    assert_int_equal(kind->scene->policy.attempts_max, 6);
    assert_int_equal(kind->scene->version, 1);
    read_group("standard", 9);
    assert_int_equal(kind->scene->policy.attempts_max, 6);
    assert_int_equal(kind->scene->version, -9);
    /* The relay's own scene keeps its default. */
    assert_false(kind_of("publish", 1)->scene->policy.stops[FAULT_CLASS_REFUSED]);
}

static void an_invalid_policy_of_a_group_pauses_its_scenes_without_a_row(void **state)
{
    struct kind *kind = kind_of("mail", 1);
    struct kind *other = kind_of("invoice", 1);

    (void)state;
    read_group("{\"attempts\": 3}", 1);
    read_group("{\"attempt\": 3}", 2);
    assert_true(kind->scene->faulty);
    assert_true(other->scene->faulty);
    assert_int_equal(kind->scene->policy.attempts_max, 3);
    assert_int_equal(scenes.faulty, 2);
    read_row("{}", NULL);
    assert_false(kind->scene->faulty);
    read_group("refuse", 3);
    assert_int_equal(scenes.faulty, 0);
}

static void a_number_of_merged_options_keeps_its_digits(void **state)
{
    static const char own[] = "{\"b\": 2.675}";
    struct kind *kind = kind_of("mail", 1);
    struct buf scratch = {0};
    const char *text;

    (void)state;
    read_row("{}", "{\"a\": 0.1}");
    assert_int_equal(scene_options(kind->scene, own, strlen(own), &scratch, &text, NULL), RC_OK);
    assert_string_equal(text, "{\"a\":0.1,\"b\":2.675}");
    buf_done(&scratch);
}

static void rubbish_leaves_the_last_policy_for_those_in_flight(void **state)
{
    struct kind *kind = kind_of("mail", 1);

    (void)state;
    read_row("{\"attempts\": 3}", "{\"a\": 1}");
    read_row("{\"attempts\": }", "{\"a\": 1}");
    assert_true(kind->scene->faulty);
    assert_int_equal(kind->scene->policy.attempts_max, 3);
    assert_int_equal(scenes.faulty, 1);
    read_row("{}", "{\"a\": 1}");
    assert_false(kind->scene->faulty);
    assert_int_equal(kind->scene->policy.attempts_max, 6);
}

static void the_relays_scene_keeps_its_defaults_for_fields_that_a_row_lacks(void **state)
{
    const struct scene_row row = {"outbox", "publish", NULL, NULL, true, 1};
    const struct scene *scene;

    (void)state;
    scenes_begin(&scenes);
    assert_int_equal(scenes_take(&scenes, &row, NULL), RC_OK);
    assert_int_equal(scenes_end(&scenes, NULL), RC_OK);
    scene = scenes_find(&scenes, "outbox", "publish");
    assert_true(scene->paused);
    assert_false(scene->policy.stops[FAULT_CLASS_REFUSED]);
}

static void ever_new_names_evict_one_another(void **state)
{
    struct kind *busy = kind_of("busy", 1);
    char name[32];

    (void)state;
    log_init(LOG_ERROR);
    busy->in_flight = 1;
    for (size_t i = 0; i < 3 * (size_t)KINDS_MAX; i++) {
        snprintf(name, sizeof(name), "scene%zu", i);
        assert_non_null(kind_of(name, 10 + i));
    }
    assert_true(scenes.kind_count <= KINDS_MAX);
    assert_true(scenes.count <= SCENES_MAX);
    assert_ptr_equal(kind_of("busy", 100000), busy);
}

static void more_kinds_than_fit_wait_and_nothing_breaks(void **state)
{
    char name[32];

    (void)state;
    log_init(LOG_ERROR);
    for (size_t i = 0; i < (size_t)KINDS_MAX + 10; i++) {
        snprintf(name, sizeof(name), "scene%zu", i);
        assert_int_equal(kind_of(name, 1) != NULL, i < KINDS_MAX);
    }
    assert_int_equal(scenes.left_out, 10);
    /* The next looks find fewer. */
    scenes_begin_look(&scenes);
    assert_int_equal(scenes.left_out, 0);
    for (uint64_t look = 3; look < 5; look++)
        assert_non_null(kind_of("another", look));
    assert_int_equal(scenes.left_out, 0);
}

static enum rc take_row(const char *name, bool paused, struct err *err)
{
    const struct scene_row row = {"default", name, "{\"attempts\": 3}", NULL, paused, 1};

    return scenes_take(&scenes, &row, err);
}

/* As many rows as there may be, and as many kinds of tasks, seen in look 1. */
static struct kind *fill(void)
{
    struct kind *kind = NULL;
    char name[32];

    scenes_begin(&scenes);
    for (size_t i = 0; i < RETRY_SCENES_MAX; i++) {
        snprintf(name, sizeof(name), "row%zu", i);
        assert_int_equal(take_row(name, false, NULL), RC_OK);
    }
    assert_int_equal(scenes_end(&scenes, NULL), RC_OK);
    for (size_t i = 0; i < KINDS_MAX; i++) {
        snprintf(name, sizeof(name), "task%zu", i);
        kind = kind_of(name, 1);
        assert_non_null(kind);
    }
    assert_int_equal(scenes.count, SCENES_MAX);
    return kind;
}

static void a_new_row_evicts_scenes_that_are_not_needed(void **state)
{
    struct kind *busy = fill();
    char name[32];

    (void)state;
    busy->in_flight = 1;
    assert_non_null(kind_of("task0", 3));
    scenes_begin(&scenes);
    for (size_t i = 1; i < RETRY_SCENES_MAX; i++) {
        snprintf(name, sizeof(name), "row%zu", i);
        assert_int_equal(take_row(name, false, NULL), RC_OK);
    }
    assert_int_equal(take_row("new", true, NULL), RC_OK);
    assert_int_equal(scenes_end(&scenes, NULL), RC_OK);
    assert_true(scenes_find(&scenes, "default", "new")->paused);
    assert_ptr_equal(scenes_find(&scenes, "default", "task1023"), busy->scene);
    assert_non_null(scenes_find(&scenes, "default", "task0"));
    assert_null(scenes_find(&scenes, "default", "task1"));
}

/* All rows are replaced between two readings, while there are as many kinds as there may be. */
static void rows_that_replace_all_others_fit(void **state)
{
    char name[32];

    (void)state;
    fill();
    for (size_t pass = 0; pass < 4; pass++) {
        scenes_begin(&scenes);
        for (size_t i = 0; i < RETRY_SCENES_MAX; i++) {
            snprintf(name, sizeof(name), "pass%zu_%zu", pass, i);
            assert_int_equal(take_row(name, true, NULL), RC_OK);
        }
        /* A reading that fails has no end. */
        if (pass == 1)
            continue;
        assert_int_equal(scenes_end(&scenes, NULL), RC_OK);
        assert_true(scenes_find(&scenes, "default", name)->paused);
        assert_int_equal(scenes.kind_count, KINDS_MAX);
    }
}

static void metrics_of_endless_names_share_one_series(void **state)
{
    struct retry_scene_metrics *other = retry_metrics_of("default", "no \"name\"");
    char name[32];

    (void)state;
    assert_string_equal(other->labels, "group=\"other\",scene=\"other\"");
    for (size_t i = 0; i < 3 * (size_t)RETRY_METRICS_SCENES; i++) {
        snprintf(name, sizeof(name), "many%zu", i);
        retry_metrics_of("default", name);
    }
    assert_ptr_equal(retry_metrics_of("default", "one more"), other);
    assert_ptr_equal(retry_metrics_of("default", "many900"), other);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_scene_without_a_row_has_the_default_policy),
        TEST(a_change_counts_also_without_a_new_version),
        TEST(a_scene_without_a_row_has_the_policy_of_its_group),
        TEST(an_invalid_policy_of_a_group_pauses_its_scenes_without_a_row),
        TEST(a_number_of_merged_options_keeps_its_digits),
        TEST(rubbish_leaves_the_last_policy_for_those_in_flight),
        TEST(the_relays_scene_keeps_its_defaults_for_fields_that_a_row_lacks),
        TEST(ever_new_names_evict_one_another),
        TEST(more_kinds_than_fit_wait_and_nothing_breaks),
        TEST(a_new_row_evicts_scenes_that_are_not_needed),
        TEST(rows_that_replace_all_others_fit),
        TEST(metrics_of_endless_names_share_one_series),
    };

    log_init(LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
