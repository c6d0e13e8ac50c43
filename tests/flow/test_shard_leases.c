/* SPDX-License-Identifier: MIT */
/* The shard leases of a process with three handlers, on a store that gives every lease. */
#include "outbox/retry/shard_leases.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define HANDLERS 3
#define LEASE_MS 3000

static const struct retry_handler handler_list[HANDLERS] = {
    {.name = "http"}, {.name = "kafka"}, {.name = "exec"}};
static const struct retry_handler *const handlers_listed[HANDLERS] = {
    &handler_list[0], &handler_list[1], &handler_list[2]};
static void *opened[HANDLERS] = {&opened[0], NULL, &opened[2]};

static const struct retry_handlers handlers = {handlers_listed, HANDLERS, opened, NULL, NULL};
static struct settings settings;
static struct pool pool;
static struct shard_leases leases;
static int ends[2];

/* The leases of one handler. All of them are taken in one step. */
static struct store {
    bool down; /* the database does not answer */
    bool taken;
} rows[HANDLERS];

static enum rc answer(void *ctx, struct err *err)
{
    const struct store *store = ctx;

    return store->down ? err_fail(err, RC_RETRY, 2006, "the database cannot be reached") : RC_OK;
}

static enum rc on_beat(void *ctx, int64_t lease_ms, struct err *err)
{
    (void)lease_ms;
    return answer(ctx, err);
}

static enum rc on_read(void *ctx, const char *const *names, size_t count, struct lease_view *views,
                       struct err *err)
{
    const struct store *store = ctx;

    (void)names;
    memset(views, 0, count * sizeof(*views));
    for (size_t i = 0; i < count && store->taken; i++) {
        snprintf(views[i].owner, sizeof(views[i].owner), "me");
        views[i].epoch = 1;
        views[i].left_ms = LEASE_MS;
    }
    return answer(ctx, err);
}

static enum rc on_instances(void *ctx, int64_t lease_ms, lease_on_instance on_instance,
                            void *on_instance_ctx, struct err *err)
{
    enum rc rc = answer(ctx, err);

    (void)lease_ms;
    return rc == RC_OK ? on_instance(on_instance_ctx, "me", 1, err) : rc;
}

static enum rc on_take(void *ctx, const char *name, int64_t lease_ms, bool *taken, int64_t *epoch,
                       struct err *err)
{
    struct store *store = ctx;

    (void)name;
    (void)lease_ms;
    *taken = store->taken = true;
    *epoch = 1;
    return answer(ctx, err);
}

static void wake(void *ctx)
{
    (void)ctx;
}

static int set_up(void **state)
{
    struct lease_store stores[HANDLERS];

    (void)state;
    memset(&settings, 0, sizeof(settings));
    settings.retry.threads = 1;
    settings.retry.in_flight_max = 1;
    snprintf(settings.retry.shards, sizeof(settings.retry.shards), "auto");
    settings.retry.lease_ms = LEASE_MS;
    memset(rows, 0, sizeof(rows));
    for (size_t i = 0; i < HANDLERS; i++)
        stores[i] = (struct lease_store){.ctx = &rows[i],
                                         .beat = on_beat,
                                         .read = on_read,
                                         .instances = on_instances,
                                         .take = on_take};
    assert_int_equal(pool_init(&pool, &settings, &handlers, NULL), RC_OK);
    pool.wake_dispatcher = wake;
    assert_int_equal(shard_leases_init(&leases, &pool, "me", stores, 1, NULL), RC_OK);
    return pipe(ends);
}

static int tear_down(void **state)
{
    (void)state;
    shard_leases_done(&leases);
    pool_done(&pool);
    close(ends[0]);
    close(ends[1]);
    return 0;
}

/* Returns what the log gets while every set takes its next step. */
static const char *step(int64_t now_ms)
{
    static char lines[8192];
    int kept = dup(STDERR_FILENO);
    ssize_t n;

    dup2(ends[1], STDERR_FILENO);
    for (size_t i = 0; i < leases.count; i++)
        leases.sets[i].due_ms = 0;
    shard_leases_step(&leases, now_ms);
    n = write(STDERR_FILENO, "|", 1);
    dup2(kept, STDERR_FILENO);
    close(kept);
    assert_int_equal(n, 1);
    n = read(ends[0], lines, sizeof(lines) - 1);
    lines[n > 0 ? n : 0] = '\0';
    return lines;
}

static size_t count_lines(const char *text)
{
    size_t count = 0;

    for (; *text; text++)
        count += *text == '\n';
    return count;
}

static void the_shards_of_all_handlers_are_one_line(void **state)
{
    const char *lines = step(1000);

    (void)state;
    assert_non_null(
        strstr(lines, "event=shards_leased handlers=http:16,exec:16 of=16 instances=1\n"));
    assert_int_equal(count_lines(lines), 1);
}

static void one_outage_is_one_line(void **state)
{
    const char *lines;
    struct err err;

    (void)state;
    step(1000);
    rows[0].down = rows[2].down = true;
    lines = step(1500);
    assert_non_null(strstr(lines, "level=warn event=dependency_down dep=mysql role=retry "
                                  "reason=cannot_renew_leases err="));
    assert_int_equal(count_lines(lines), 1);
    assert_true(shard_leases_failing(&leases, &err));
    /* It lasts until the leases of every handler are renewed. */
    rows[0].down = false;
    assert_string_equal(step(1600), "|");
    assert_true(shard_leases_failing(&leases, &err));
    assert_string_equal(err.text, "the database cannot be reached");
    rows[2].down = false;
    lines = step(1800);
    assert_non_null(strstr(lines, "event=dependency_up dep=mysql role=retry "
                                  "reason=cannot_renew_leases after_ms=300\n"));
    assert_false(shard_leases_failing(&leases, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_shards_of_all_handlers_are_one_line, set_up, tear_down),
        cmocka_unit_test_setup_teardown(one_outage_is_one_line, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
