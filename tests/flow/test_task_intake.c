/* SPDX-License-Identifier: MIT */
/* The intake of tasks on a fake store, step by step. */
#include "producer/task/task_intake.h"

#include "producer/task/task_check.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#define ITEMS 4

struct fixture {
    struct task_store store;
    struct queue *queue;
    struct task_intake *intake;
    struct stop stop;
    struct task_intake_request request;
    struct task_item items[ITEMS];
    int64_t now_ms;
    int rooms;   /* reads of the number of tasks */
    int appends; /* tasks that were handed over */
    struct retry_room room;
    struct retry_group group;
    enum rc append_rc;
    int append_code;
    void (*after_append)(void); /* once, after an append that failed */
    enum rc find_rc;
    bool answered;
    enum queue_end end;
};

static struct fixture fixture;

static int64_t clock_ms(void)
{
    return fixture.now_ms;
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
    fixture.rooms++;
    *room = fixture.room;
    return RC_OK;
}

static enum rc store_group(void *ctx, const char *name, struct retry_group *group, bool *found,
                           struct err *err)
{
    (void)ctx;
    (void)err;
    assert_string_equal(name, "default");
    *group = fixture.group;
    *found = fixture.group.name[0] != '\0';
    return RC_OK;
}

static enum rc store_append(void *ctx, const struct retry_new_task *tasks, size_t count,
                            struct retry_ticket *tickets, struct err *err)
{
    enum rc rc = fixture.append_rc;

    (void)ctx;
    (void)tasks;
    fixture.append_rc = RC_OK;
    if (rc != RC_OK && fixture.after_append) {
        fixture.after_append();
        fixture.after_append = NULL;
    }
    if (rc != RC_OK)
        return err_fail(err, rc, fixture.append_code, "the words of the store");
    for (size_t i = 0; i < count; i++)
        tickets[i] = (struct retry_ticket){.id = ++fixture.appends};
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
                              .origin = "client",
                              .reason_class = "",
                              .reason = "",
                              .owner = ""};
    enum rc rc = fixture.find_rc;

    (void)ctx;
    (void)whole;
    (void)rows_max;
    fixture.find_rc = RC_OK;
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
    fixture.answered = true;
    fixture.end = end;
}

static void on_release(struct queue_entry *entry)
{
    (void)entry;
}

static int setup(void **state)
{
    struct queue_config queue = {.name = "tasks",
                                 .dep = "mysql",
                                 .shards = 1,
                                 .weight_max = 100,
                                 .timeout_ms = 5000,
                                 .breaker_base_ms = 1,
                                 .breaker_cap_ms = 5};
    struct task_intake_config intake = {
        .store = &fixture.store, .clock_ms = clock_ms, .rng = fake_rng, .stop = &fixture.stop};
    struct err err;

    (void)state;
    fixture = (struct fixture){.now_ms = 1000};
    fixture.group = (struct retry_group){
        .name = "default", .enabled = true, .handlers = "http", .scenes = "ma*"};
    fixture.store = (struct task_store){.ping = store_ping,
                                        .room = store_room,
                                        .group = store_group,
                                        .append = store_append,
                                        .find = store_find,
                                        .attempts = store_attempts,
                                        .collided = store_collided};
    assert_int_equal(stop_init(&fixture.stop, &err), RC_OK);
    assert_int_equal(queue_open(&fixture.queue, &queue, &err), RC_OK);
    intake.queue = fixture.queue;
    assert_int_equal(task_intake_open(&fixture.intake, &intake, &err), RC_OK);
    task_intake_step(fixture.intake, fixture.now_ms); /* finds the database there */
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    task_intake_close(fixture.intake);
    queue_close(fixture.queue);
    queue_drop(fixture.queue);
    queue_free(fixture.queue);
    stop_done(&fixture.stop);
    buf_done(&fixture.request.body);
    return 0;
}

static void ask(enum task_intake_kind kind, size_t count)
{
    int64_t wait_ms;

    buf_done(&fixture.request.body);
    fixture.request = (struct task_intake_request){
        .kind = kind, .items = fixture.items, .count = count, .rows_max = 10};
    fixture.request.filter.until_ms = INT64_MAX;
    fixture.request.entry.weight = 1;
    fixture.request.entry.answer = on_answer;
    fixture.request.entry.release = on_release;
    fixture.answered = false;
    for (size_t i = 0; i < count; i++)
        fixture.items[i] = (struct task_item){.task = {.scene = "mail", .handler = "http"}};
    assert_int_equal(queue_put(fixture.queue, 0, &fixture.request.entry, fixture.now_ms, &wait_ms),
                     QUEUE_TAKEN);
}

static void work(void)
{
    for (int i = 0; i < 20 && !fixture.answered; i++) {
        task_intake_step(fixture.intake, fixture.now_ms);
        fixture.now_ms += 10;
    }
    assert_true(fixture.answered);
    assert_int_equal(fixture.end, QUEUE_DONE);
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
    fixture.items[1].bad = true;
    work();
    assert_false(fixture.request.failed);
    assert_int_equal(fixture.items[0].ticket.id, 1);
    assert_int_equal(fixture.items[2].ticket.id, 2);
    assert_int_equal(fixture.appends, 2);
    assert_int_equal(fixture.rooms, 1);
}

static void a_full_scene_refuses_surplus_tasks(void **state)
{
    (void)state;
    fixture.room = (struct retry_room){.limit = 5, .pending = 3};
    submit(4);
    assert_false(fixture.items[1].bad);
    assert_true(fixture.items[2].bad);
    assert_int_equal(fixture.items[2].fault.code, REQUEST_FAULT_FULL);
    assert_string_equal(fixture.items[2].fault.at, "/2");
    assert_int_equal(fixture.appends, 2);
    submit(1);
    assert_true(fixture.items[0].bad);
    assert_false(fixture.items[0].fault.has_at);
    assert_int_equal(fixture.appends, 2);
}

static void a_count_is_believed_for_a_second(void **state)
{
    (void)state;
    fixture.room = (struct retry_room){.limit = 1};
    submit(1);
    submit(1);
    assert_true(fixture.items[0].bad);
    assert_int_equal(fixture.rooms, 1);
    fixture.now_ms += TASK_CHECK_ROOM_MS;
    submit(1);
    assert_false(fixture.items[0].bad);
    assert_int_equal(fixture.rooms, 2);
}

static void assert_forbidden(const char *words)
{
    fixture.now_ms += TASK_CHECK_ROOM_MS;
    submit(1);
    assert_true(fixture.items[0].bad);
    assert_int_equal(fixture.items[0].fault.code, REQUEST_FAULT_NO_SCOPE);
    if (!strstr(fixture.items[0].fault.message, words))
        fail_msg("%s is not in: %s", words, fixture.items[0].fault.message);
    assert_int_equal(fixture.appends, 0);
}

static void a_task_that_its_group_does_not_allow_is_refused(void **state)
{
    const struct retry_group good = fixture.group;

    (void)state;
    fixture.group.enabled = false;
    assert_forbidden("group default is disabled");
    fixture.group = good;
    fixture.group.owner = OWNER_RELAY;
    assert_forbidden("group default belongs to the relay");
    fixture.group.owner = OWNER_UNKNOWN;
    assert_forbidden("group default belongs to");
    fixture.group = good;
    snprintf(fixture.group.scenes, sizeof(fixture.group.scenes), "sms,mai,mails");
    assert_forbidden("does not allow the scene mail");
    fixture.group = good;
    snprintf(fixture.group.handlers, sizeof(fixture.group.handlers), "kafka");
    assert_forbidden("does not allow the handler http");
    fixture.group = good;
    fixture.now_ms += TASK_CHECK_ROOM_MS;
    submit(1);
    assert_false(fixture.items[0].bad);
}

static void assert_not_configured(const char *words)
{
    fixture.now_ms += TASK_CHECK_ROOM_MS;
    submit(1);
    assert_true(fixture.items[0].bad);
    assert_int_equal(fixture.items[0].fault.code, REQUEST_FAULT_REFUSED);
    if (!strstr(fixture.items[0].fault.message, words))
        fail_msg("%s is not in: %s", words, fixture.items[0].fault.message);
    assert_int_equal(fixture.appends, 0);
}

/* 422: it has to be configured; 403 would say that the token or the group forbids it. */
static void a_task_without_a_configuration_is_refused(void **state)
{
    const struct retry_group good = fixture.group;

    (void)state;
    fixture.group.name[0] = '\0';
    assert_not_configured("no group configuration found");
    fixture.group = good;
    snprintf(fixture.group.init_scene, sizeof(fixture.group.init_scene), "refuse");
    assert_not_configured("no scene configuration found");
    fixture.room.configured = true;
    submit(1);
    assert_false(fixture.items[0].bad);
    assert_int_equal(fixture.appends, 1);
}

/* What was read within the last second refuses nothing. */
static void a_task_is_right_at_once_after_a_change_of_its_group(void **state)
{
    (void)state;
    fixture.group.enabled = false;
    submit(1);
    assert_true(fixture.items[0].bad);
    fixture.group.enabled = true;
    submit(2);
    assert_false(fixture.items[0].bad);
    assert_false(fixture.items[1].bad);
    assert_int_equal(fixture.appends, 2);
    assert_int_equal(fixture.rooms, 2);
}

static void a_collision_is_tried_again(void **state)
{
    (void)state;
    fixture.append_rc = RC_RETRY;
    fixture.append_code = 1213;
    submit(2);
    assert_false(fixture.request.failed);
    assert_int_equal(fixture.appends, 2);
}

static void disable_group(void)
{
    fixture.group.enabled = false;
}

static void lose_privilege(void)
{
    fixture.append_rc = RC_FATAL;
    fixture.append_code = 1142;
}

/* The first INSERT may have been committed: nothing may be refused as if it had not been. */
static void tasks_that_may_be_there_are_refused_no_more(void **state)
{
    (void)state;
    fixture.append_rc = RC_RETRY;
    fixture.append_code = 2013;
    fixture.after_append = disable_group;
    submit(2);
    assert_false(fixture.request.failed);
    assert_false(fixture.items[0].bad);
    assert_int_equal(fixture.appends, 2);
    fixture.group.enabled = true;
    fixture.append_rc = RC_RETRY;
    fixture.append_code = 2013;
    fixture.after_append = lose_privilege;
    submit(1);
    assert_true(fixture.request.failed);
    assert_int_equal(fixture.request.fault.code, REQUEST_FAULT_TIMEOUT);
}

static void a_task_the_database_refuses_is_the_askers(void **state)
{
    (void)state;
    fixture.append_rc = RC_REJECT;
    submit(1);
    assert_true(fixture.request.failed);
    assert_int_equal(fixture.request.fault.code, REQUEST_FAULT_REFUSED);
    assert_non_null(strstr(fixture.request.fault.message, "the words of the store"));
    fixture.append_rc = RC_REJECT;
    fixture.append_code = 1406;
    submit(1);
    assert_null(strstr(fixture.request.fault.message, "the words of the store"));
}

static void a_missing_privilege_is_reported_and_stops_nothing(void **state)
{
    (void)state;
    fixture.append_rc = RC_FATAL;
    fixture.append_code = 1142;
    submit(1);
    assert_true(fixture.request.failed);
    assert_int_equal(fixture.request.fault.code, REQUEST_FAULT_UNAVAILABLE);
    assert_false(stop_requested(&fixture.stop));
    submit(1);
    assert_false(fixture.request.failed);
}

static void a_list_begun_twice_is_answered_once(void **state)
{
    (void)state;
    fixture.find_rc = RC_RETRY;
    ask(TASK_INTAKE_LIST, 0);
    work();
    assert_false(fixture.request.failed);
    assert_memory_equal(fixture.request.body.data, "{\"tasks\":[{\"id\":7,", 18);
    assert_int_equal(strstr(buf_text(&fixture.request.body) + 18, "\"id\":7") == NULL, 1);
}

static void one_task_is_shown_or_there_is_none(void **state)
{
    (void)state;
    ask(TASK_INTAKE_SHOW, 0);
    fixture.request.id = 7;
    work();
    assert_non_null(strstr(buf_text(&fixture.request.body), "\"attempts\":[{\"at\":0,"));
    assert_non_null(strstr(buf_text(&fixture.request.body), "\"waitsFor\":null"));
    fixture.group.enabled = false;
    ask(TASK_INTAKE_SHOW, 0);
    fixture.request.id = 7;
    work();
    assert_non_null(
        strstr(buf_text(&fixture.request.body), "\"waitsFor\":\"group default is disabled\""));
    ask(TASK_INTAKE_SHOW, 0);
    fixture.request.id = 8;
    work();
    assert_true(fixture.request.failed);
    assert_int_equal(fixture.request.fault.code, REQUEST_FAULT_NOT_FOUND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(each_task_gets_its_ticket, setup, teardown),
        cmocka_unit_test_setup_teardown(a_full_scene_refuses_surplus_tasks, setup, teardown),
        cmocka_unit_test_setup_teardown(a_count_is_believed_for_a_second, setup, teardown),
        cmocka_unit_test_setup_teardown(a_task_that_its_group_does_not_allow_is_refused, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_task_without_a_configuration_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(a_task_is_right_at_once_after_a_change_of_its_group, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_collision_is_tried_again, setup, teardown),
        cmocka_unit_test_setup_teardown(tasks_that_may_be_there_are_refused_no_more, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_task_the_database_refuses_is_the_askers, setup, teardown),
        cmocka_unit_test_setup_teardown(a_missing_privilege_is_reported_and_stops_nothing, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_list_begun_twice_is_answered_once, setup, teardown),
        cmocka_unit_test_setup_teardown(one_task_is_shown_or_there_is_none, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
