/* SPDX-License-Identifier: MIT */
/* The intake of tasks on a fake store, step by step. */
#include "producer/task/task_intake.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#define ITEMS 4

struct bench {
    struct task_store store;
    struct queue *queue;
    struct task_intake *intake;
    struct stop stop;
    struct task_intake_request request;
    struct task_item items[ITEMS];
    int64_t now_ms;
    int rooms;   /* times that the store was asked */
    int appends; /* tasks that were handed over */
    struct retry_room room;
    struct retry_group group;
    enum rc append_rc;
    int append_code;
    enum rc find_rc;
    bool answered;
    enum queue_end end;
};

static struct bench bench;

static int64_t clock_ms(void)
{
    return bench.now_ms;
}

static uint64_t fake_rng(void)
{
    return 0;
}

static enum rc store_ping(void *ctx, struct err *err)
{
    (void)ctx;
    (void)err;
    return RC_OK;
}

static enum rc store_room(void *ctx, const char *group, const char *scene,
                          const char *const *handlers, size_t handler_count,
                          struct retry_room *room, struct buf *options, struct err *err)
{
    (void)ctx;
    (void)handlers;
    (void)handler_count;
    (void)options;
    (void)err;
    assert_string_equal(group, "default");
    assert_string_equal(scene, "mail");
    bench.rooms++;
    *room = bench.room;
    return RC_OK;
}

static enum rc store_group(void *ctx, const char *name, struct retry_group *group, bool *found,
                           struct err *err)
{
    (void)ctx;
    (void)err;
    assert_string_equal(name, "default");
    *group = bench.group;
    *found = bench.group.name[0] != '\0';
    return RC_OK;
}

static enum rc store_append(void *ctx, const struct retry_new_task *tasks, size_t count,
                            struct retry_ticket *tickets, struct err *err)
{
    enum rc rc = bench.append_rc;

    (void)ctx;
    (void)tasks;
    bench.append_rc = RC_OK;
    if (rc != RC_OK)
        return err_fail(err, rc, bench.append_code, "the words of the store");
    for (size_t i = 0; i < count; i++)
        tickets[i] = (struct retry_ticket){.id = ++bench.appends};
    return RC_OK;
}

static enum rc store_find(void *ctx, bool ended, const struct retry_filter *filter, bool whole,
                          size_t rows_max, retry_on_view on_view, void *view_ctx,
                          struct retry_page *page, struct err *err)
{
    struct retry_view view = {.id = 7,
                              .group = "default",
                              .scene = "mail",
                              .handler = "http",
                              .params_type = "x",
                              .reason_class = "",
                              .reason = "",
                              .owner = ""};
    enum rc rc = bench.find_rc;

    (void)ctx;
    (void)whole;
    (void)rows_max;
    bench.find_rc = RC_OK;
    *page = (struct retry_page){.after = 7};
    if (filter->id_count == 1 && (filter->ids[0] != 7 || ended))
        return RC_OK;
    on_view(view_ctx, &view, err);
    return rc == RC_OK ? RC_OK : err_fail(err, rc, 0, "in the middle");
}

static enum rc store_attempts(void *ctx, int64_t task_id,
                              enum rc (*on_attempt)(void *attempt_ctx,
                                                    const struct retry_attempt_view *attempt,
                                                    struct err *err),
                              void *attempt_ctx, struct err *err)
{
    struct retry_attempt_view attempt = {
        .owner = "me", .outcome = "failed", .reason_class = "ours", .reason = "no"};

    (void)ctx;
    assert_int_equal(task_id, 7);
    return on_attempt(attempt_ctx, &attempt, err);
}

static bool store_collided(void *ctx, const struct err *err)
{
    (void)ctx;
    return err->code == 1213;
}

static void on_answer(struct queue_entry *entry, enum queue_end end)
{
    (void)entry;
    bench.answered = true;
    bench.end = end;
}

static void on_release(struct queue_entry *entry)
{
    (void)entry;
}

static int setup(void **state)
{
    struct queue_config queue = {.shards = 1,
                                 .weight_max = 100,
                                 .timeout_ms = 5000,
                                 .breaker_base_ms = 1,
                                 .breaker_cap_ms = 5};
    struct task_intake_config intake = {
        .store = &bench.store, .clock_ms = clock_ms, .rng = fake_rng, .stop = &bench.stop};
    struct err err;

    (void)state;
    bench = (struct bench){.now_ms = 1000};
    bench.group = (struct retry_group){
        .name = "default", .enabled = true, .handlers = "http", .scenes = "ma*"};
    bench.store = (struct task_store){.ping = store_ping,
                                      .room = store_room,
                                      .group = store_group,
                                      .append = store_append,
                                      .find = store_find,
                                      .attempts = store_attempts,
                                      .collided = store_collided};
    assert_int_equal(stop_init(&bench.stop, &err), RC_OK);
    assert_int_equal(queue_open(&bench.queue, &queue, &err), RC_OK);
    intake.queue = bench.queue;
    assert_int_equal(task_intake_open(&bench.intake, &intake, &err), RC_OK);
    task_intake_step(bench.intake, bench.now_ms); /* finds the database there */
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    task_intake_close(bench.intake);
    queue_close(bench.queue);
    queue_drop(bench.queue);
    queue_free(bench.queue);
    stop_done(&bench.stop);
    buf_done(&bench.request.body);
    return 0;
}

static void ask(enum task_intake_kind kind, size_t count)
{
    int64_t wait_ms;

    buf_done(&bench.request.body);
    bench.request = (struct task_intake_request){
        .kind = kind, .items = bench.items, .count = count, .rows_max = 10};
    bench.request.filter.until_ms = INT64_MAX;
    bench.request.entry.weight = 1;
    bench.request.entry.answer = on_answer;
    bench.request.entry.release = on_release;
    bench.answered = false;
    for (size_t i = 0; i < count; i++)
        bench.items[i] = (struct task_item){.task = {.scene = "mail", .handler = "http"}};
    assert_int_equal(queue_put(bench.queue, 0, &bench.request.entry, bench.now_ms, &wait_ms),
                     QUEUE_TAKEN);
}

static void work(void)
{
    for (int i = 0; i < 20 && !bench.answered; i++) {
        task_intake_step(bench.intake, bench.now_ms);
        bench.now_ms += 10;
    }
    assert_true(bench.answered);
    assert_int_equal(bench.end, QUEUE_DONE);
}

static void submit(size_t count)
{
    ask(TASK_INTAKE_SUBMIT, count);
    work();
}

static void each_task_gets_its_ticket(void **state)
{
    (void)state;
    ask(TASK_INTAKE_SUBMIT, 3);
    bench.items[1].bad = true;
    work();
    assert_false(bench.request.failed);
    assert_int_equal(bench.items[0].ticket.id, 1);
    assert_int_equal(bench.items[2].ticket.id, 2);
    assert_int_equal(bench.appends, 2);
    assert_int_equal(bench.rooms, 1);
}

static void a_full_scene_refuses_what_is_too_much(void **state)
{
    (void)state;
    bench.room = (struct retry_room){.limit = 5, .pending = 3};
    submit(4);
    assert_false(bench.items[1].bad);
    assert_true(bench.items[2].bad);
    assert_int_equal(bench.items[2].fault.code, FAULT_FULL);
    assert_string_equal(bench.items[2].fault.at, "/2");
    assert_int_equal(bench.appends, 2);
    submit(1);
    assert_true(bench.items[0].bad);
    assert_false(bench.items[0].fault.has_at);
    assert_int_equal(bench.appends, 2);
}

static void a_count_is_believed_for_a_second(void **state)
{
    (void)state;
    bench.room = (struct retry_room){.limit = 1};
    submit(1);
    submit(1);
    assert_true(bench.items[0].bad);
    assert_int_equal(bench.rooms, 1);
    bench.now_ms += TASK_INTAKE_ROOM_MS;
    submit(1);
    assert_false(bench.items[0].bad);
    assert_int_equal(bench.rooms, 2);
}

static void assert_forbidden(const char *words)
{
    bench.now_ms += TASK_INTAKE_ROOM_MS;
    submit(1);
    assert_true(bench.items[0].bad);
    assert_int_equal(bench.items[0].fault.code, FAULT_NO_SCOPE);
    if (!strstr(bench.items[0].fault.message, words))
        fail_msg("%s is not in: %s", words, bench.items[0].fault.message);
    assert_int_equal(bench.appends, 0);
}

static void a_task_that_its_group_does_not_allow_is_refused(void **state)
{
    const struct retry_group good = bench.group;

    (void)state;
    bench.group.enabled = false;
    assert_forbidden("group default is disabled");
    bench.group = good;
    bench.group.owner = OWNER_RELAY;
    assert_forbidden("group default belongs to the relay");
    bench.group.owner = OWNER_UNKNOWN;
    assert_forbidden("group default belongs to");
    bench.group = good;
    snprintf(bench.group.scenes, sizeof(bench.group.scenes), "sms,mai,mails");
    assert_forbidden("does not allow the scene mail");
    bench.group = good;
    snprintf(bench.group.handlers, sizeof(bench.group.handlers), "kafka");
    assert_forbidden("does not allow the handler http");
    bench.group = good;
    bench.group.name[0] = '\0';
    assert_forbidden("there is no group default");
    bench.group = good;
    bench.now_ms += TASK_INTAKE_ROOM_MS;
    submit(1);
    assert_false(bench.items[0].bad);
}

static void a_collision_is_tried_again(void **state)
{
    (void)state;
    bench.append_rc = RC_RETRY;
    bench.append_code = 1213;
    submit(2);
    assert_false(bench.request.failed);
    assert_int_equal(bench.appends, 2);
}

static void a_task_the_database_refuses_is_the_askers(void **state)
{
    (void)state;
    bench.append_rc = RC_REJECT;
    submit(1);
    assert_true(bench.request.failed);
    assert_int_equal(bench.request.fault.code, FAULT_REFUSED);
    assert_non_null(strstr(bench.request.fault.message, "the words of the store"));
    bench.append_rc = RC_REJECT;
    bench.append_code = 1406;
    submit(1);
    assert_null(strstr(bench.request.fault.message, "the words of the store"));
}

static void a_missing_right_is_said_and_stops_nothing(void **state)
{
    (void)state;
    bench.append_rc = RC_FATAL;
    bench.append_code = 1142;
    submit(1);
    assert_true(bench.request.failed);
    assert_int_equal(bench.request.fault.code, FAULT_AWAY);
    assert_false(stop_requested(&bench.stop));
    submit(1);
    assert_false(bench.request.failed);
}

static void a_list_begun_twice_is_answered_once(void **state)
{
    (void)state;
    bench.find_rc = RC_RETRY;
    ask(TASK_INTAKE_LIST, 0);
    work();
    assert_false(bench.request.failed);
    assert_memory_equal(bench.request.body.data, "{\"tasks\":[{\"id\":7,", 18);
    assert_int_equal(strstr(buf_text(&bench.request.body) + 18, "\"id\":7") == NULL, 1);
}

static void one_task_is_shown_or_there_is_none(void **state)
{
    (void)state;
    ask(TASK_INTAKE_SHOW, 0);
    bench.request.id = 7;
    work();
    assert_non_null(strstr(buf_text(&bench.request.body), "\"attempts\":[{\"at\":0,"));
    ask(TASK_INTAKE_SHOW, 0);
    bench.request.id = 8;
    work();
    assert_true(bench.request.failed);
    assert_int_equal(bench.request.fault.code, FAULT_NOT_FOUND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(each_task_gets_its_ticket, setup, teardown),
        cmocka_unit_test_setup_teardown(a_full_scene_refuses_what_is_too_much, setup, teardown),
        cmocka_unit_test_setup_teardown(a_count_is_believed_for_a_second, setup, teardown),
        cmocka_unit_test_setup_teardown(a_task_that_its_group_does_not_allow_is_refused, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_collision_is_tried_again, setup, teardown),
        cmocka_unit_test_setup_teardown(a_task_the_database_refuses_is_the_askers, setup, teardown),
        cmocka_unit_test_setup_teardown(a_missing_right_is_said_and_stops_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(a_list_begun_twice_is_answered_once, setup, teardown),
        cmocka_unit_test_setup_teardown(one_task_is_shown_or_there_is_none, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
