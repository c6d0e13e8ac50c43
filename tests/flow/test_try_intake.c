/* SPDX-License-Identifier: MIT */
/* The worker of tasks that are to be tried first, on fakes of its store and of the tries. */
#include "producer/task/try_intake.h"

#include "common/log.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#define REQUESTS 3
#define TRIES_MAX 2
#define TIMEOUT_MS 5000

struct asked {
    struct task_intake_request request; /* first */
    struct task_item item;
    struct first_try_result result;
    bool answered;
    bool released;
    enum queue_end end;
};

static struct fixture {
    struct task_store store;
    struct first_try_ops tries;
    struct queue *queue;
    struct try_intake *intake;
    struct stop stop;
    struct asked asked[REQUESTS];
    int64_t now_ms;
    int64_t limit; /* of the scene */
    enum rc make_rc;
    int make_code;
    bool begins;
    size_t makes;
    void *owners[REQUESTS];
} fixture;

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
    (void)group;
    (void)scene;
    (void)handlers;
    (void)handler_count;
    (void)options;
    (void)err;
    *room = (struct retry_room){.limit = fixture.limit};
    return RC_OK;
}

static enum rc store_group(void *ctx, const char *name, struct retry_group *group, bool *found,
                           struct err *err)
{
    (void)ctx;
    (void)name;
    (void)err;
    *group =
        (struct retry_group){.name = "default", .enabled = true, .handlers = "http", .scenes = "*"};
    *found = true;
    return RC_OK;
}

static bool store_collided(void *ctx, const struct err *err)
{
    (void)ctx;
    return err->code == 1213;
}

static enum rc tries_make(void *ctx, const struct retry_new_task *task, void *owner,
                          struct first_try_result *result, int64_t now_ms, struct err *err)
{
    enum rc rc = fixture.make_rc;

    (void)ctx;
    assert_string_equal(task->scene, "mail");
    assert_int_equal(now_ms, fixture.now_ms);
    *result = (struct first_try_result){.reason_class = ""};
    fixture.make_rc = RC_OK;
    if (rc != RC_OK)
        return err_fail(err, rc, fixture.make_code, "the words of the store");
    result->ticket.id = (int64_t)fixture.makes + 1;
    result->begun = fixture.begins;
    if (!result->begun)
        snprintf(result->reason, sizeof(result->reason), "it waits");
    fixture.owners[fixture.makes++] = owner;
    return RC_OK;
}

static int64_t tries_step(void *ctx, int64_t now_ms)
{
    (void)ctx;
    (void)now_ms;
    return 1000;
}

static void on_answer(struct queue_entry *entry, enum queue_end end)
{
    struct asked *asked = (struct asked *)entry;

    assert_false(asked->answered);
    asked->answered = true;
    asked->end = end;
}

static void on_release(struct queue_entry *entry)
{
    assert_false(((struct asked *)entry)->released);
    ((struct asked *)entry)->released = true;
}

static void step(void)
{
    for (int i = 0; i < 5; i++) {
        try_intake_step(fixture.intake, fixture.now_ms);
        fixture.now_ms += 10;
    }
}

static int set_up(void **state)
{
    struct queue_config queue = {.name = "tries",
                                 .dep = "mysql",
                                 .shards = 1,
                                 .weight_max = 100,
                                 .timeout_ms = TIMEOUT_MS,
                                 .breaker_base_ms = 1,
                                 .breaker_cap_ms = 5};
    struct try_intake_config intake = {.store = &fixture.store,
                                       .tries = &fixture.tries,
                                       .tries_max = TRIES_MAX,
                                       .clock_ms = clock_ms,
                                       .rng = fake_rng,
                                       .stop = &fixture.stop};
    struct err err;

    (void)state;
    fixture = (struct fixture){.now_ms = 1000};
    fixture.store = (struct task_store){
        .ping = store_ping, .room = store_room, .group = store_group, .collided = store_collided};
    fixture.tries = (struct first_try_ops){NULL, tries_make, tries_step};
    assert_int_equal(stop_init(&fixture.stop, &err), RC_OK);
    assert_int_equal(queue_open(&fixture.queue, &queue, &err), RC_OK);
    intake.queue = fixture.queue;
    assert_int_equal(try_intake_open(&fixture.intake, &intake, &err), RC_OK);
    step();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    try_intake_close(fixture.intake);
    queue_close(fixture.queue);
    queue_drop(fixture.queue);
    for (size_t i = 0; i < REQUESTS; i++)
        assert_int_equal(fixture.asked[i].released, fixture.asked[i].answered);
    queue_free(fixture.queue);
    stop_done(&fixture.stop);
    return 0;
}

static struct asked *ask(size_t number)
{
    struct asked *asked = &fixture.asked[number];
    int64_t wait_ms;

    *asked = (struct asked){.item = {.task = {.scene = "mail", .handler = "http"}}};
    asked->request = (struct task_intake_request){
        .kind = TASK_INTAKE_SUBMIT, .items = &asked->item, .count = 1, .first_try = &asked->result};
    asked->request.entry.weight = 1;
    asked->request.entry.answer = on_answer;
    asked->request.entry.release = on_release;
    assert_int_equal(queue_put(fixture.queue, 0, &asked->request.entry, fixture.now_ms, &wait_ms),
                     QUEUE_TAKEN);
    return asked;
}

static void end_try(size_t number)
{
    struct first_try_result result = {
        .ticket = {.id = 99}, .tried = true, .outcome = "done", .reason_class = ""};

    try_intake_on_end(fixture.intake, fixture.owners[number], &result);
}

static void a_request_is_answered_when_its_try_has_ended(void **state)
{
    struct asked *first = ask(0);
    struct asked *second;

    (void)state;
    fixture.begins = true;
    step();
    assert_false(first->answered);
    assert_false(queue_idle(fixture.queue));
    second = ask(1);
    step();
    assert_int_equal(fixture.makes, 2);
    end_try(1);
    assert_true(second->answered);
    assert_int_equal(second->end, QUEUE_DONE);
    assert_int_equal(second->result.ticket.id, 2);
    assert_string_equal(second->result.outcome, "done");
    assert_false(first->answered);
    end_try(0);
    assert_true(first->answered && first->released);
    assert_true(queue_idle(fixture.queue));
}

static void a_task_that_is_not_tried_is_answered_at_once(void **state)
{
    struct asked *asked = ask(0);

    (void)state;
    step();
    assert_true(asked->answered && asked->released);
    assert_int_equal(asked->end, QUEUE_DONE);
    assert_int_equal(asked->item.ticket.id, 1);
    assert_string_equal(asked->result.reason, "it waits");
}

/* A task that has ended takes no room of its scene. */
static void a_task_is_checked_before_it_is_made(void **state)
{
    struct asked *asked;

    (void)state;
    fixture.limit = 1;
    fixture.begins = true;
    ask(0);
    step();
    asked = ask(1);
    step();
    assert_true(asked->answered && asked->item.bad);
    assert_int_equal(asked->item.fault.code, REQUEST_FAULT_FULL);
    assert_int_equal(fixture.makes, 1);
    end_try(0);
    asked = ask(2);
    step();
    assert_false(asked->answered);
    assert_int_equal(fixture.makes, 2);
    end_try(1);
}

static void a_failed_call_is_repeated_or_answered(void **state)
{
    struct asked *asked = ask(0);

    (void)state;
    fixture.make_rc = RC_RETRY;
    fixture.make_code = 1213;
    for (int i = 0; i < 100 && !asked->answered; i++)
        step();
    assert_int_equal(asked->end, QUEUE_DONE);
    assert_int_equal(fixture.makes, 1);
    fixture.make_rc = RC_FATAL;
    asked = ask(1);
    step();
    assert_true(asked->answered && asked->request.failed);
    assert_int_equal(asked->request.fault.code, REQUEST_FAULT_UNAVAILABLE);
    fixture.make_rc = RC_REJECT;
    fixture.make_code = 0;
    asked = ask(2);
    step();
    assert_true(asked->answered && asked->request.failed);
    assert_int_equal(asked->request.fault.code, REQUEST_FAULT_REFUSED);
    assert_string_equal(asked->request.fault.message, "the words of the store; nothing was done");
    assert_int_equal(fixture.makes, 1);
}

/* The request is answered, and the try still owns it. */
static void a_try_may_end_after_the_deadline_of_its_request(void **state)
{
    struct asked *asked = ask(0);

    (void)state;
    fixture.begins = true;
    step();
    fixture.now_ms += TIMEOUT_MS;
    queue_expire(fixture.queue, fixture.now_ms);
    assert_true(asked->answered);
    assert_int_equal(asked->end, QUEUE_UNKNOWN);
    assert_false(asked->released);
    step();
    end_try(0);
    assert_true(asked->released);
}

static void a_stop_answers_the_requests_that_are_left(void **state)
{
    struct asked *asked = ask(0);

    (void)state;
    fixture.begins = true;
    step();
    try_intake_close(fixture.intake);
    fixture.intake = NULL;
    assert_true(asked->answered && asked->released);
    assert_int_equal(asked->end, QUEUE_UNKNOWN);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_request_is_answered_when_its_try_has_ended),
        TEST(a_task_that_is_not_tried_is_answered_at_once),
        TEST(a_task_is_checked_before_it_is_made),
        TEST(a_failed_call_is_repeated_or_answered),
        TEST(a_try_may_end_after_the_deadline_of_its_request),
        TEST(a_stop_answers_the_requests_that_are_left),
    };

    log_init(LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
