/* SPDX-License-Identifier: MIT */
/* What each token may do, and what may be done without one. */
#include "tests/flow/api_bench.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define VOTES_TOKEN "votes-token-0123456789"
#define READ_TOKEN "read-token-01234567890"
#define TASKS_TOKEN "tasks-token-0123456789"
#define BEARER(token) "Authorization: Bearer " token "\r\n"
#define TASK(group) "{\"group\":\"" group "\",\"scene\":\"s\",\"handler\":\"h\"}"

/* Opens the API again, with a file of tokens and with tasks. */
static void reopen_with_tokens(struct bench *bench, const char *text)
{
    struct api_config config = {.settings = &bench->settings, .shards = 1};
    char path[] = "/tmp/tallybox-api-XXXXXX";
    struct err err;
    int fd = mkstemp(path);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
    snprintf(bench->settings.api.token_file, sizeof(bench->settings.api.token_file), "%s", path);
    config.votes = bench->votes;
    config.reads = bench->reads;
    api_close(bench->api);
    assert_int_equal(api_open(&bench->api, &config, &err), RC_OK);
    unlink(path);
}

static void a_missing_scope_is_403_and_named(void **state)
{
    struct bench *bench = *state;

    snprintf(bench->settings.api.tasks, sizeof(bench->settings.api.tasks), "on");
    reopen_with_tokens(bench, VOTES_TOKEN " votes\n" READ_TOKEN " read\n" TASKS_TOKEN
                                          " tasks:shop tasks:mail\n");
    workers_start(bench);
    ask(bench, "POST", "/v1/votes", JSON BEARER(VOTES_TOKEN), GOOD);
    assert_int_equal(bench->status, 200);
    ask(bench, "GET", "/v1/contents/2/votes", BEARER(READ_TOKEN), NULL);
    assert_int_equal(bench->status, 200);

    ask(bench, "POST", "/v1/votes", JSON BEARER(READ_TOKEN), GOOD);
    expect_fault(bench, 403, "forbidden", NULL);
    assert_non_null(strstr(bench->body, "lacks the scope votes"));
    ask(bench, "GET", "/v1/contents/2/votes", BEARER(VOTES_TOKEN), NULL);
    expect_fault(bench, 403, "forbidden", NULL);
    assert_non_null(strstr(bench->body, "lacks the scope read"));
    ask(bench, "GET", "/v1/votes?voterId=1&contentIds=2", BEARER(TASKS_TOKEN), NULL);
    expect_fault(bench, 403, "forbidden", NULL);
    ask(bench, "POST", "/v1/votes", JSON BEARER(TASKS_TOKEN), GOOD);
    expect_fault(bench, 403, "forbidden", NULL);
}

static void a_token_reaches_the_tasks_of_its_groups_alone(void **state)
{
    static const char *const paths[] = {"/v1/tasks", "/v1/tasks?group=shop", "/v1/tasks/1"};
    struct bench *bench = *state;

    snprintf(bench->settings.api.tasks, sizeof(bench->settings.api.tasks), "on");
    reopen_with_tokens(bench, VOTES_TOKEN "\n" READ_TOKEN " read operate\n" TASKS_TOKEN
                                          " tasks:shop tasks:mail\n");
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        ask(bench, "GET", paths[i], BEARER(READ_TOKEN), NULL);
        expect_fault(bench, 403, "forbidden", NULL);
        assert_non_null(strstr(bench->body, "lacks the scope tasks:GROUP"));
    }
    ask(bench, "POST", "/v1/tasks", JSON BEARER(VOTES_TOKEN), TASK("shop"));
    expect_fault(bench, 403, "forbidden", NULL);
    ask(bench, "POST", "/v1/tasks", JSON BEARER(TASKS_TOKEN), TASK("other"));
    expect_fault(bench, 403, "forbidden", "/group");
    assert_non_null(strstr(bench->body, "lacks the scope tasks:other"));
    ask(bench, "POST", "/v1/tasks", JSON BEARER(TASKS_TOKEN),
        "{\"scene\":\"s\",\"handler\":\"h\"}");
    expect_fault(bench, 403, "forbidden", "/group");
    assert_non_null(strstr(bench->body, "lacks the scope tasks:default"));
    ask(bench, "POST", "/v1/tasks", JSON BEARER(TASKS_TOKEN),
        "[" TASK("other") "," TASK("Shop") "]");
    assert_int_equal(bench->status, 200);
    assert_non_null(strstr(bench->body, "\"at\":\"/1/group\""));
    ask(bench, "GET", "/v1/tasks?group=other", BEARER(TASKS_TOKEN), NULL);
    expect_fault(bench, 403, "forbidden", "group");
}

static void tasks_are_off_unless_they_are_switched_on(void **state)
{
    struct bench *bench = *state;
    struct api_config config = {.settings = &bench->settings, .shards = 1};
    struct api *api = NULL;
    struct err err;

    ask(bench, "POST", "/v1/tasks", JSON, TASK("default"));
    expect_fault(bench, 403, "forbidden", NULL);
    assert_non_null(strstr(bench->body, "api.tasks = on"));
    reopen_with_tokens(bench, TASKS_TOKEN " tasks:shop\n");
    ask(bench, "POST", "/v1/tasks", JSON BEARER(TASKS_TOKEN), TASK("shop"));
    expect_fault(bench, 403, "forbidden", NULL);
    ask(bench, "GET", "/v1/tasks", BEARER(TASKS_TOKEN), NULL);
    expect_fault(bench, 403, "forbidden", NULL);

    /* Nobody could have the scope. */
    snprintf(bench->settings.api.tasks, sizeof(bench->settings.api.tasks), "on");
    bench->settings.api.token_file[0] = '\0';
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
