/* SPDX-License-Identifier: MIT */
/* The reading of live clients on fake ops, each call made to fail in turn. */
#include "outbox/retry/clients/client_watch.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#define ROWS_MAX 200

struct fixture {
    struct clients *clients;
    struct client_watch watch;
    struct live_client rows[ROWS_MAX];
    size_t row_count;
    enum rc each_rc, push_rc, forget_rc;
    int pushes;
    int push_calls;
    int forgets;
    char pushed[RETRY_CLIENT_ADDRESS_SIZE];
    int64_t now_ms;
};

static struct fixture fixture;

static enum rc fake_each(void *ctx,
                         enum rc (*on_client)(void *client_ctx, const struct live_client *client,
                                              struct err *err),
                         void *client_ctx, struct err *err)
{
    (void)ctx;
    for (size_t i = 0; i < fixture.row_count; i++)
        assert_int_equal(on_client(client_ctx, &fixture.rows[i], err), RC_OK);
    return fixture.each_rc == RC_OK ? RC_OK : err_fail(err, fixture.each_rc, 0, "each");
}

static enum rc fake_push(void *ctx, const struct client_push *pushes, size_t count, size_t *pushed,
                         struct err *err)
{
    (void)ctx;
    assert_true(count > 0);
    if (fixture.push_rc != RC_OK)
        return err_fail(err, fixture.push_rc, 0, "push");
    fixture.pushes += (int)count;
    fixture.push_calls++;
    snprintf(fixture.pushed, sizeof(fixture.pushed), "%s", pushes[count - 1].address);
    *pushed = count;
    for (size_t i = 0; i < fixture.row_count; i++)
        for (size_t k = 0; k < count; k++)
            if (strcmp(fixture.rows[i].address, pushes[k].address) == 0)
                fixture.rows[i].told_version = fixture.rows[i].config_version;
    return RC_OK;
}

static enum rc fake_forget(void *ctx, size_t rows_max, size_t *count, struct err *err)
{
    (void)ctx;
    (void)rows_max;
    fixture.forgets++;
    *count = 0;
    return fixture.forget_rc == RC_OK ? RC_OK : err_fail(err, fixture.forget_rc, 0, "forget");
}

static int setup(void **state)
{
    const struct client_ops ops = {.each = fake_each, .push = fake_push, .forget = fake_forget};
    struct err err = {0};

    (void)state;
    memset(&fixture, 0, sizeof(fixture));
    if (clients_open(&fixture.clients, &err) != RC_OK)
        return -1;
    client_watch_init(&fixture.watch, fixture.clients, &ops, "a,b,c", 1);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    client_watch_done(&fixture.watch);
    clients_close(fixture.clients);
    return 0;
}

static struct live_client make_row(const char *address, const char *told)
{
    return (struct live_client){.group = "shop",
                                .address = address,
                                .route = "lru",
                                .told_version = told,
                                .config_version = "2",
                                .takes_pushes = true};
}

static void add_row(const char *address, const char *told)
{
    fixture.rows[fixture.row_count++] = make_row(address, told);
}

static int64_t step(void)
{
    fixture.now_ms += 100;
    return client_watch_step(&fixture.watch, fixture.now_ms);
}

static enum clients_found find(void)
{
    struct clients_attempt attempt = {.group = "shop", .key = "k"};

    return clients_pick(fixture.clients, &attempt, fixture.now_ms, 0);
}

static void live_clients_of_allowed_hosts_are_called(void **state)
{
    struct clients_attempt attempt = {.group = "shop", .key = "k"};

    (void)state;
    add_row("http://a:80", "2");
    add_row("http://x:80", "1");
    assert_true(step() > 0);
    assert_int_equal(clients_pick(fixture.clients, &attempt, 0, 0), CLIENTS_FOUND);
    assert_string_equal(attempt.tried[0], "http://a:80");
    assert_int_equal(clients_pick(fixture.clients, &attempt, 0, 0), CLIENTS_NONE);
    /* One that is not called is told nothing. */
    assert_int_equal(fixture.pushes, 0);
    assert_true(condition_read(&fixture.watch.hosts_listed, NULL));
    fixture.row_count = 1;
    step();
    assert_false(condition_read(&fixture.watch.hosts_listed, NULL));
}

static void a_failed_reading_leaves_the_clients_as_they_were(void **state)
{
    (void)state;
    fixture.each_rc = RC_RETRY;
    step();
    assert_int_equal(find(), CLIENTS_UNREAD);
    assert_true(condition_read(&fixture.watch.reading, NULL));
    fixture.each_rc = RC_OK;
    add_row("http://a:80", "2");
    step();
    assert_false(condition_read(&fixture.watch.reading, NULL));
    fixture.row_count = 0;
    fixture.each_rc = RC_FATAL;
    step();
    assert_int_equal(find(), CLIENTS_FOUND);
}

static void a_change_is_pushed_once_after_any_failure(void **state)
{
    (void)state;
    add_row("http://a:80", "2");
    add_row("http://b:80", "1");
    add_row("http://c:80", "");
    fixture.push_rc = RC_RETRY;
    step();
    assert_true(condition_read(&fixture.watch.reading, NULL));
    assert_int_equal(find(), CLIENTS_FOUND);
    fixture.push_rc = RC_OK;
    step();
    step();
    assert_int_equal(fixture.pushes, 1);
    assert_string_equal(fixture.pushed, "http://b:80");
    fixture.rows[0].takes_pushes = false;
    fixture.rows[0].told_version = "1";
    step();
    assert_int_equal(fixture.pushes, 1);
}

static void many_pushes_take_several_steps(void **state)
{
    static char addresses[ROWS_MAX][32];

    (void)state;
    for (int i = 0; i < ROWS_MAX; i++) {
        snprintf(addresses[i], sizeof(addresses[i]), "http://a:80/%03d", i);
        add_row(addresses[i], "1");
    }
    assert_int_equal(step(), 0);
    assert_int_equal(fixture.pushes, CLIENT_PUSHES_MAX);
    assert_true(step() > 0);
    assert_int_equal(fixture.pushes, ROWS_MAX);
    /* One transaction each: a COMMIT costs more than its statements. */
    assert_int_equal(fixture.push_calls, 2);
}

/* Whenever it is written: each reading pushes what it finds, and the next one is not later. */
static void a_change_is_pushed_within_a_second(void **state)
{
    int64_t wait_ms;

    (void)state;
    add_row("http://a:80", "2");
    wait_ms = step();
    assert_true(wait_ms > 0 && wait_ms <= 500);
    fixture.rows[0].told_version = "1";
    fixture.now_ms += wait_ms;
    wait_ms = client_watch_step(&fixture.watch, fixture.now_ms);
    assert_int_equal(fixture.pushes, 1);
    assert_true(wait_ms > 0 && wait_ms <= 500);
}

static void old_rows_are_deleted_once_a_minute(void **state)
{
    (void)state;
    fixture.forget_rc = RC_RETRY;
    step();
    step();
    assert_int_equal(fixture.forgets, 2);
    fixture.forget_rc = RC_OK;
    step();
    step();
    assert_int_equal(fixture.forgets, 3);
    fixture.now_ms += 60000;
    step();
    assert_int_equal(fixture.forgets, 4);
}

static void tasks_without_a_live_client_make_a_condition(void **state)
{
    (void)state;
    step();
    assert_false(condition_read(&fixture.watch.missing, NULL));
    assert_int_equal(find(), CLIENTS_NONE);
    step();
    assert_true(condition_read(&fixture.watch.missing, NULL));
    add_row("http://a:80", "2");
    step();
    assert_false(condition_read(&fixture.watch.missing, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(live_clients_of_allowed_hosts_are_called, setup, teardown),
        cmocka_unit_test_setup_teardown(a_failed_reading_leaves_the_clients_as_they_were, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_change_is_pushed_once_after_any_failure, setup, teardown),
        cmocka_unit_test_setup_teardown(many_pushes_take_several_steps, setup, teardown),
        cmocka_unit_test_setup_teardown(a_change_is_pushed_within_a_second, setup, teardown),
        cmocka_unit_test_setup_teardown(old_rows_are_deleted_once_a_minute, setup, teardown),
        cmocka_unit_test_setup_teardown(tasks_without_a_live_client_make_a_condition, setup,
                                        teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
