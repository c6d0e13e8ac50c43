/* SPDX-License-Identifier: MIT */
/* The retry queue's steps as threads, as the role runs them: nothing is done twice, nothing is
 * left, and a stop in the middle gives back tasks that have not begun. Mainly for the thread
 * sanitizer. */
#include "common/log.h"
#include "common/loop.h"
#include "common/os.h"
#include "outbox/retry/dispatcher.h"
#include "outbox/retry/lease_renewer.h"
#include "outbox/retry/pool.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define TASKS 2000
#define WORKERS 4

static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER; /* guards the table */
static struct {
    enum task_state state;
    bool gone;
    int64_t epoch;
} table[TASKS];

static atomic_size_t done;
static atomic_int runs[TASKS];
static size_t stop_at; /* so many done tasks request the stop; 0: none */

static struct settings settings;
static struct stop stop;
static struct pool pool;
static struct dispatcher dispatcher;
static struct lease_renewer renewer;
static struct pool_worker runners[WORKERS];
static struct loop poll_loop;
static struct loop renew_loop;
static struct loop run_loops[WORKERS];

static enum rc store_look(void *ctx, retry_on_class on_class, void *on_class_ctx, struct err *err)
{
    const struct task_class class = {.handler = "test", .group = "default", .scene = "mail"};
    bool any = false;

    (void)ctx;
    (void)err;
    pthread_mutex_lock(&table_lock);
    for (size_t i = 0; i < TASKS; i++)
        any = any || (!table[i].gone && table[i].state == TASK_WAITING);
    pthread_mutex_unlock(&table_lock);
    if (any)
        on_class(on_class_ctx, &class, 0);
    return RC_OK;
}

static enum rc store_scenes(void *ctx, retry_on_scene on_scene, void *on_scene_ctx,
                            struct scene_change *change, struct err *err)
{
    const struct scene_row row = {"default", "mail", "{\"lease\": \"1s\"}", "{\"a\": 1}", false, 1};

    (void)ctx;
    (void)err;
    on_scene(on_scene_ctx, &row);
    *change = (struct scene_change){1, 0};
    return RC_OK;
}

static enum rc store_record(void *ctx, int64_t change, struct err *err)
{
    (void)ctx;
    (void)change;
    (void)err;
    return RC_OK;
}

static enum rc store_groups(void *ctx, retry_on_group on_group, void *on_group_ctx, struct err *err)
{
    const struct retry_group group = {.name = "default",
                                      .owner = OWNER_CLIENT,
                                      .enabled = true,
                                      .handlers = "test",
                                      .scenes = "mail"};

    (void)ctx;
    return on_group(on_group_ctx, &group, err);
}

static enum rc store_claim(void *ctx, const struct task_class *class, size_t rows_max,
                           int64_t lease_ms, retry_on_task on_task, void *on_task_ctx, bool *full,
                           struct err *err)
{
    size_t count = 0;

    (void)ctx;
    (void)class;
    (void)lease_ms;
    (void)err;
    pthread_mutex_lock(&table_lock);
    for (size_t i = 0; i < TASKS && count < rows_max; i++) {
        struct task_row row = {.id = (int64_t)i + 1,
                               .task_hash = "00",
                               .params_type = "text/plain",
                               .scene_version = 1};

        if (table[i].gone || table[i].state != TASK_WAITING)
            continue;
        table[i].state = TASK_RUNNING;
        row.epoch = ++table[i].epoch;
        count++;
        on_task(on_task_ctx, &row);
    }
    pthread_mutex_unlock(&table_lock);
    *full = count == rows_max;
    return RC_OK;
}

static bool is_ours(int64_t id, int64_t epoch)
{
    return table[id - 1].state == TASK_RUNNING && !table[id - 1].gone &&
           table[id - 1].epoch == epoch;
}

static enum rc store_finish(void *ctx, const struct task_update *results, size_t count,
                            enum task_written *written, struct err *err)
{
    (void)ctx;
    (void)err;
    pthread_mutex_lock(&table_lock);
    for (size_t i = 0; i < count; i++) {
        written[i] = is_ours(results[i].id, results[i].epoch) ? TASK_WRITTEN : TASK_LOST;
        if (written[i] == TASK_LOST)
            continue;
        table[results[i].id - 1].gone = results[i].end == TASK_END_DONE;
        table[results[i].id - 1].state = TASK_WAITING;
    }
    pthread_mutex_unlock(&table_lock);
    return RC_OK;
}

static enum rc store_renew(void *ctx, const int64_t *ids, const int64_t *epochs, size_t count,
                           int64_t lease_ms, bool *lost, struct err *err)
{
    (void)ctx;
    (void)lease_ms;
    (void)err;
    pthread_mutex_lock(&table_lock);
    for (size_t i = 0; i < count; i++)
        lost[i] = !is_ours(ids[i], epochs[i]);
    pthread_mutex_unlock(&table_lock);
    return RC_OK;
}

static enum rc store_rescue(void *ctx, size_t rows_max, size_t *count, size_t *shortened,
                            struct err *err)
{
    (void)ctx;
    (void)rows_max;
    (void)err;
    *count = *shortened = 0;
    return RC_OK;
}

static enum rc store_forget(void *ctx, size_t rows_max, size_t *count, struct err *err)
{
    (void)ctx;
    (void)rows_max;
    (void)err;
    *count = 0;
    return RC_OK;
}

static enum rc store_handlers(void *ctx, int64_t lease_ms, retry_on_handler on_handler,
                              void *on_handler_ctx, struct err *err)
{
    (void)ctx;
    (void)lease_ms;
    (void)on_handler;
    (void)on_handler_ctx;
    (void)err;
    return RC_OK;
}

static enum rc store_depths(void *ctx, retry_on_depth on_depth, void *on_depth_ctx, struct err *err)
{
    (void)ctx;
    (void)on_depth;
    (void)on_depth_ctx;
    (void)err;
    return RC_OK;
}

static void handler_run(void *handler, size_t worker, const struct retry_job *job,
                        struct attempt_result *attempt)
{
    size_t now_done = atomic_fetch_add(&done, 1) + 1;

    (void)handler;
    (void)attempt;
    assert_true(worker < WORKERS);
    assert_string_equal(job->options, "{\"a\": 1}");
    atomic_fetch_add(&runs[job->id - 1], 1);
    if (now_done == (stop_at > 0 ? stop_at : TASKS))
        stop_request(&stop);
}

static void wake_dispatcher(void *ctx)
{
    (void)ctx;
    loop_wake(&poll_loop);
}

static void wake_worker(void *ctx, size_t worker)
{
    (void)ctx;
    loop_wake(&run_loops[worker]);
}

static int64_t time_ms(void *ctx)
{
    (void)ctx;
    return os_now_ms();
}

static void threads_run(void)
{
    assert_int_equal(loop_init(&poll_loop, "poll", dispatcher_step, &dispatcher, &stop, NULL),
                     RC_OK);
    assert_int_equal(loop_init(&renew_loop, "renew", lease_renewer_step, &renewer, &stop, NULL),
                     RC_OK);
    for (size_t i = 0; i < WORKERS; i++) {
        runners[i] = (struct pool_worker){&pool, i};
        assert_int_equal(
            loop_init(&run_loops[i], "run", pool_worker_step, &runners[i], &stop, NULL), RC_OK);
    }
    assert_int_equal(loop_start(&poll_loop, NULL), RC_OK);
    assert_int_equal(loop_start(&renew_loop, NULL), RC_OK);
    for (size_t i = 0; i < WORKERS; i++)
        assert_int_equal(loop_start(&run_loops[i], NULL), RC_OK);
    loop_join(&poll_loop);
    loop_join(&renew_loop);
    /* As the role stops: runners may still be at their last task. */
    dispatcher_leave(&dispatcher);
    dispatcher_step(&dispatcher, os_now_ms());
    for (size_t i = 0; i < WORKERS; i++)
        loop_join(&run_loops[i]);
    dispatcher_step(&dispatcher, os_now_ms());
    assert_true(dispatcher_left(&dispatcher));
    for (size_t i = 0; i < WORKERS; i++)
        loop_done(&run_loops[i]);
    loop_done(&renew_loop);
    loop_done(&poll_loop);
}

static void work(void)
{
    static const struct retry_handler handler = {.name = "test", .run = handler_run};
    static const struct retry_handler *const list[] = {&handler};
    void *opened[] = {&done};
    const struct retry_handlers all = {list, 1, opened, NULL, NULL};
    /* No scene has a deadline. */
    const struct retry_store store = {.look = store_look,
                                      .scenes = store_scenes,
                                      .record = store_record,
                                      .claim = store_claim,
                                      .finish = store_finish,
                                      .renew = store_renew,
                                      .rescue = store_rescue,
                                      .forget = store_forget,
                                      .handlers = store_handlers,
                                      .depths = store_depths,
                                      .groups = store_groups};

    assert_int_equal(stop_init(&stop, NULL), RC_OK);
    assert_int_equal(pool_init(&pool, &settings, &all, NULL), RC_OK);
    pool.wake_dispatcher = wake_dispatcher;
    pool.wake_worker = wake_worker;
    pool.time_ms = time_ms;
    assert_int_equal(dispatcher_init(&dispatcher, &pool, &store, 1, NULL), RC_OK);
    assert_int_equal(lease_renewer_init(&renewer, &pool, &store, 2, NULL), RC_OK);
    threads_run();
    lease_renewer_done(&renewer);
    dispatcher_done(&dispatcher);
    pool_done(&pool);
    stop_done(&stop);
}

static int set_up(void **state)
{
    (void)state;
    memset(table, 0, sizeof(table));
    memset(&settings, 0, sizeof(settings));
    atomic_store(&done, 0);
    for (size_t i = 0; i < TASKS; i++)
        atomic_store(&runs[i], 0);
    stop_at = 0;
    settings.retry.threads = WORKERS;
    settings.retry.batch_rows_max = 50;
    settings.retry.in_flight_max = 120;
    settings.retry.poll_ms = 5;
    settings.retry.rescue_ms = 100;
    snprintf(settings.retry.shards, sizeof(settings.retry.shards), "0-15");
    return 0;
}

static void every_task_is_run_once(void **state)
{
    (void)state;
    work();
    for (size_t i = 0; i < TASKS; i++) {
        assert_int_equal(atomic_load(&runs[i]), 1);
        assert_true(table[i].gone);
    }
}

static void a_stop_in_the_middle_gives_back_tasks_that_have_not_begun(void **state)
{
    (void)state;
    for (stop_at = 1; stop_at < TASKS; stop_at += 370) {
        size_t left = 0;
        size_t at = stop_at;

        set_up(NULL);
        stop_at = at;
        work();
        for (size_t i = 0; i < TASKS; i++) {
            assert_int_equal(atomic_load(&runs[i]), table[i].gone);
            assert_int_equal(table[i].state, TASK_WAITING);
            left += !table[i].gone;
        }
        assert_int_equal(left + atomic_load(&done), TASKS);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(every_task_is_run_once, set_up),
        cmocka_unit_test_setup(a_stop_in_the_middle_gives_back_tasks_that_have_not_begun, set_up),
    };

    log_init(LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
