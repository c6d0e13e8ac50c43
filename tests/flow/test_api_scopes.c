/* SPDX-License-Identifier: MIT */
/* The requests that each token allows, and those that need none. */
#include "tests/flow/api_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define VOTES_TOKEN "votes-token-0123456789"
#define READ_TOKEN "read-token-01234567890"
#define TASKS_TOKEN "tasks-token-0123456789"
#define BEARER(token) "Authorization: Bearer " token "\r\n"
#define TASK(group) "{\"group\":\"" group "\",\"scene\":\"s\",\"handler\":\"h\"}"

static void a_missing_scope_is_403_and_named(void **state)
{
    struct api_fixture *fixture = *state;

    snprintf(fixture->settings.api.tasks, sizeof(fixture->settings.api.tasks), "on");
    reopen_with_tokens(fixture, VOTES_TOKEN " votes\n" READ_TOKEN " read\n" TASKS_TOKEN
                                            " tasks:shop tasks:mail\n");
    workers_start(fixture);
    ask(fixture, "POST", "/v1/votes", JSON BEARER(VOTES_TOKEN), GOOD);
    assert_int_equal(fixture->status, 200);
    ask(fixture, "GET", "/v1/contents/2/votes", BEARER(READ_TOKEN), NULL);
    assert_int_equal(fixture->status, 200);

    ask(fixture, "POST", "/v1/votes", JSON BEARER(READ_TOKEN), GOOD);
    expect_fault(fixture, 403, "forbidden", NULL);
    assert_non_null(strstr(fixture->body, "lacks the scope votes"));
    ask(fixture, "GET", "/v1/contents/2/votes", BEARER(VOTES_TOKEN), NULL);
    expect_fault(fixture, 403, "forbidden", NULL);
    assert_non_null(strstr(fixture->body, "lacks the scope read"));
    ask(fixture, "GET", "/v1/votes?voterId=1&contentIds=2", BEARER(TASKS_TOKEN), NULL);
    expect_fault(fixture, 403, "forbidden", NULL);
    ask(fixture, "POST", "/v1/votes", JSON BEARER(TASKS_TOKEN), GOOD);
    expect_fault(fixture, 403, "forbidden", NULL);
}

static void a_token_reaches_the_tasks_of_its_groups_alone(void **state)
{
    static const char *const paths[] = {"/v1/tasks", "/v1/tasks?group=shop", "/v1/tasks/1"};
    struct api_fixture *fixture = *state;

    snprintf(fixture->settings.api.tasks, sizeof(fixture->settings.api.tasks), "on");
    reopen_with_tokens(fixture, VOTES_TOKEN "\n" READ_TOKEN " read operate\n" TASKS_TOKEN
                                            " tasks:shop tasks:mail\n");
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        ask(fixture, "GET", paths[i], BEARER(READ_TOKEN), NULL);
        expect_fault(fixture, 403, "forbidden", NULL);
        assert_non_null(strstr(fixture->body, "lacks the scope tasks:GROUP"));
    }
    ask(fixture, "POST", "/v1/tasks", JSON BEARER(VOTES_TOKEN), TASK("shop"));
    expect_fault(fixture, 403, "forbidden", NULL);
    ask(fixture, "POST", "/v1/tasks", JSON BEARER(TASKS_TOKEN), TASK("other"));
    expect_fault(fixture, 403, "forbidden", "/group");
    assert_non_null(strstr(fixture->body, "lacks the scope tasks:other"));
    ask(fixture, "POST", "/v1/tasks", JSON BEARER(TASKS_TOKEN),
        "{\"scene\":\"s\",\"handler\":\"h\"}");
    expect_fault(fixture, 403, "forbidden", "/group");
    assert_non_null(strstr(fixture->body, "lacks the scope tasks:default"));
    ask(fixture, "POST", "/v1/tasks", JSON BEARER(TASKS_TOKEN),
        "[" TASK("other") "," TASK("Shop") "]");
    assert_int_equal(fixture->status, 200);
    assert_non_null(strstr(fixture->body, "\"at\":\"/1/group\""));
    ask(fixture, "GET", "/v1/tasks?group=other", BEARER(TASKS_TOKEN), NULL);
    expect_fault(fixture, 403, "forbidden", "group");
}

static void tasks_are_off_unless_they_are_switched_on(void **state)
{
    struct api_fixture *fixture = *state;
    struct api_config config = {.settings = &fixture->settings, .shards = 1};
    struct api *api = NULL;
    struct err err;

    ask(fixture, "POST", "/v1/tasks", JSON, TASK("default"));
    expect_fault(fixture, 403, "forbidden", NULL);
    assert_non_null(strstr(fixture->body, "api.tasks = on"));
    reopen_with_tokens(fixture, TASKS_TOKEN " tasks:shop\n");
    ask(fixture, "POST", "/v1/tasks", JSON BEARER(TASKS_TOKEN), TASK("shop"));
    expect_fault(fixture, 403, "forbidden", NULL);
    ask(fixture, "GET", "/v1/tasks", BEARER(TASKS_TOKEN), NULL);
    expect_fault(fixture, 403, "forbidden", NULL);

    /* No token could have the scope. */
    snprintf(fixture->settings.api.tasks, sizeof(fixture->settings.api.tasks), "on");
    fixture->settings.api.token_file[0] = '\0';
    assert_int_equal(api_open(&api, &config, &err), RC_REJECT);
    assert_non_null(strstr(err.text, "api.tasks is on but api.token_file is not set"));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_missing_scope_is_403_and_named),
        TEST(a_token_reaches_the_tasks_of_its_groups_alone),
        TEST(tasks_are_off_unless_they_are_switched_on),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
