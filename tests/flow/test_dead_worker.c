/* SPDX-License-Identifier: MIT */
/* The worker of dead records on fake ops, step by step. */
#include "producer/dead/dead_worker.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#define STEPS_MAX 8
#define TIMEOUT_MS 5000

/* What one step does. */
struct fake_step {
    enum rc rc;
    bool more;
    int count; /* results of this outcome */
    enum dead_outcome outcome;
    int64_t behind;
    int code; /* of err */
};

struct fixture {
    struct dead_admin_ops ops;
    struct queue *queue;
    struct dead_worker *worker;
    struct stop stop;
    struct dead_worker_request request;
    struct dead_operation operation;
    int64_t now_ms;
    struct fake_step steps[STEPS_MAX];
    int step_count; /* that were done */
    int counts;     /* calls of count() */
    int leaves;
    int64_t id_max;
    int64_t step_id_max; /* of the filter in the last step */
    uint64_t matched;
    int64_t next_id;
    const char *decision; /* of the record in the history; NULL: none */
    enum rc list_rc;
    int lists;
    bool answered;
    enum queue_end end;
};

static struct fixture fixture;

static uint64_t fake_rng(void)
{
    return 0;
}

static enum rc fake_ping(void *ctx, struct err *err)
{
    (void)ctx;
    (void)err;
    return RC_OK;
}

static enum rc fake_list(void *ctx, const struct dead_filter *filter, bool decided, int64_t after,
                         size_t rows_max, dead_on_view on_view, void *view_ctx, struct err *err)
{
    struct dead_view view = {.topic = "t",
                             .time_ms = DEAD_NUMBER_ANY,
                             .reason_class = "decode",
                             .reason = "a test",
                             .decision = fixture.decision,
                             .decided_by = "ann"};
    enum rc rc = fixture.list_rc;

    (void)ctx;
    (void)filter;
    fixture.lists++;
    fixture.list_rc = RC_OK;
    if (rc != RC_OK)
        return err_fail(err, rc, 0, "in the middle");
    if (decided && !fixture.decision)
        return RC_OK;
    for (size_t i = 0; i < rows_max; i++) {
        view.id = after + 1 + (int64_t)i;
        on_view(view_ctx, &view, err);
    }
    return RC_OK;
}

static enum rc fake_show(void *ctx, int64_t id, dead_on_view on_view, void *view_ctx,
                         struct err *err)
{
    const struct dead_view view = {.id = id,
                                   .topic = "t",
                                   .value = "{}",
                                   .value_len = 2,
                                   .has_value = true,
                                   .headers = "[]",
                                   .time_ms = DEAD_NUMBER_ANY,
                                   .reason_class = "decode",
                                   .reason = "a test"};

    (void)ctx;
    return id == 7 ? on_view(view_ctx, &view, err) : RC_OK;
}

static enum rc fake_count(void *ctx, const struct dead_filter *filter, uint64_t *count,
                          int64_t *id_max, struct err *err)
{
    (void)ctx;
    (void)err;
    assert_int_equal(filter->id_max, 0);
    fixture.counts++;
    *count = fixture.matched;
    *id_max = fixture.id_max;
    return RC_OK;
}

static enum rc fake_step(void *ctx, struct dead_operation *operation, bool *more, struct err *err)
{
    const struct fake_step *step = &fixture.steps[fixture.step_count];

    (void)ctx;
    assert_true(fixture.step_count < STEPS_MAX);
    fixture.step_count++;
    fixture.step_id_max = operation->filter.id_max;
    *more = step->more;
    if (step->rc != RC_OK)
        return err_fail(err, step->rc, step->code, "the words of the database");
    for (int i = 0; i < step->count; i++) {
        const struct dead_result result = {.outcome = step->outcome,
                                           .id = ++fixture.next_id,
                                           .place = {.topic = "t"},
                                           .reason_class = "decode",
                                           .reason = "no JSON",
                                           .behind = step->behind};

        operation->on_result(operation->ctx, &result);
    }
    return RC_OK;
}

static void fake_leave(void *ctx)
{
    (void)ctx;
    fixture.leaves++;
}

static bool fake_audit_failed(void *ctx)
{
    (void)ctx;
    return false;
}

static bool fake_collided(void *ctx, const struct err *err)
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
    struct queue_config queue = {.name = "dead records",
                                 .dep = "sink",
                                 .dep_more = "mysql",
                                 .shards = 1,
                                 .weight_max = 100,
                                 .timeout_ms = TIMEOUT_MS,
                                 .breaker_base_ms = 1,
                                 .breaker_cap_ms = 5};
    struct dead_worker_config worker = {
        .ops = &fixture.ops, .rng = fake_rng, .stop = &fixture.stop};
    struct err err;

    (void)state;
    fixture = (struct fixture){.now_ms = 1000, .id_max = 99};
    fixture.ops = (struct dead_admin_ops){.ping = fake_ping,
                                          .list = fake_list,
                                          .show = fake_show,
                                          .count = fake_count,
                                          .step = fake_step,
                                          .leave = fake_leave,
                                          .audit_failed = fake_audit_failed,
                                          .collided = fake_collided};
    assert_int_equal(stop_init(&fixture.stop, &err), RC_OK);
    assert_int_equal(queue_open(&fixture.queue, &queue, &err), RC_OK);
    worker.queue = fixture.queue;
    assert_int_equal(dead_worker_open(&fixture.worker, &worker, &err), RC_OK);
    dead_worker_step(fixture.worker, fixture.now_ms); /* finds the database there */
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    dead_worker_close(fixture.worker);
    queue_close(fixture.queue);
    queue_drop(fixture.queue);
    queue_free(fixture.queue);
    stop_done(&fixture.stop);
    buf_done(&fixture.request.body);
    return 0;
}

static void ask(enum dead_worker_kind kind)
{
    int64_t wait_ms;

    buf_done(&fixture.request.body);
    fixture.operation = (struct dead_operation){.by = "ann", .via = "http"};
    fixture.request = (struct dead_worker_request){
        .kind = kind, .id = 7, .rows_max = 2, .operation = &fixture.operation};
    fixture.request.entry.weight = 1;
    fixture.request.entry.answer = on_answer;
    fixture.request.entry.release = on_release;
    fixture.answered = false;
    assert_int_equal(queue_put(fixture.queue, 0, &fixture.request.entry, fixture.now_ms, &wait_ms),
                     QUEUE_TAKEN);
}

static void work(void)
{
    for (int i = 0; i < 40 && !fixture.answered; i++) {
        dead_worker_step(fixture.worker, fixture.now_ms);
        fixture.now_ms += 10;
    }
    assert_true(fixture.answered);
    assert_int_equal(fixture.end, QUEUE_DONE);
}

static void assert_answer(const char *words)
{
    assert_false(fixture.request.failed);
    if (!strstr(buf_text(&fixture.request.body), words))
        fail_msg("%s is not in: %s", words, buf_text(&fixture.request.body));
}

static void assert_fault(enum request_fault_code code, const char *words)
{
    assert_true(fixture.request.failed);
    assert_int_equal(fixture.request.fault.code, code);
    if (!strstr(fixture.request.fault.message, words))
        fail_msg("%s is not in: %s", words, fixture.request.fault.message);
}

static void a_page_has_a_cursor(void **state)
{
    (void)state;
    ask(DEAD_WORKER_LIST);
    work();
    assert_answer("\"more\":true,\"after\":2}");
    ask(DEAD_WORKER_SHOW);
    work();
    assert_answer("\"payload\":\"{}\"");
    ask(DEAD_WORKER_SHOW);
    fixture.request.id = 8;
    work();
    assert_fault(REQUEST_FAULT_NOT_FOUND, "there is no dead record 8");
}

static void many_records_are_done_page_by_page(void **state)
{
    const struct fake_step steps[] = {{.more = true, .count = 3},
                                      {.rc = RC_RETRY},
                                      {.rc = RC_RETRY, .code = 1213},
                                      {.more = true, .count = 2, .outcome = DEAD_OUTCOME_DUPLICATE},
                                      {.count = 1, .outcome = DEAD_OUTCOME_STAYS}};

    (void)state;
    memcpy(fixture.steps, steps, sizeof(steps));
    fixture.matched = 9;
    ask(DEAD_WORKER_MANY);
    work();
    assert_answer("\"matched\":9,\"applied\":3,\"duplicates\":2,\"stale\":0,\"dropped\":0,"
                  "\"stillDead\":1,\"more\":true,\"stay\":[{\"id\":6,");
    assert_int_equal(fixture.counts, 1);
    assert_int_equal(fixture.step_count, 5);
    assert_int_equal(fixture.step_id_max, 99);
}

static void what_dies_after_the_count_is_not_selected(void **state)
{
    (void)state;
    fixture.id_max = 0;
    ask(DEAD_WORKER_MANY);
    work();
    assert_answer("\"matched\":0");
    /* The step writes the row of the audit, and 0 would select any record. */
    assert_int_equal(fixture.step_count, 1);
    assert_int_equal(fixture.step_id_max, 1);
}

static void a_dry_run_only_counts(void **state)
{
    (void)state;
    fixture.matched = 3;
    ask(DEAD_WORKER_MANY);
    fixture.request.dry_run = true;
    work();
    assert_answer("\"dryRun\":true,\"matched\":3,\"applied\":0");
    assert_int_equal(fixture.step_count, 0);
}

static void one_record_has_its_outcome(void **state)
{
    (void)state;
    fixture.steps[0] = (struct fake_step){.count = 1, .outcome = DEAD_OUTCOME_STALE};
    ask(DEAD_WORKER_ONE);
    work();
    assert_answer("{\"id\":7,\"action\":\"replay\",\"changed\":true,\"outcome\":\"stale\"}");
    fixture.steps[1] = (struct fake_step){.count = 1, .outcome = DEAD_OUTCOME_DROPPED};
    ask(DEAD_WORKER_ONE);
    fixture.operation.drop = true;
    work();
    assert_answer("\"action\":\"drop\",\"changed\":true,\"outcome\":\"dropped\"");
    fixture.steps[2] = (struct fake_step){.count = 1, .outcome = DEAD_OUTCOME_STAYS};
    ask(DEAD_WORKER_ONE);
    work();
    assert_fault(REQUEST_FAULT_REFUSED, "stays dead: decode: no JSON");
    fixture.steps[3] = (struct fake_step){.count = 1, .outcome = DEAD_OUTCOME_WAITS, .behind = 5};
    ask(DEAD_WORKER_ONE);
    work();
    assert_fault(REQUEST_FAULT_CONFLICT, "record 5 is older");
    assert_int_equal(fixture.counts, 0);
}

/* The action has ended: it is not done again because the second answer was lost. */
static void a_record_that_was_decided_before_is_left_as_it_is(void **state)
{
    (void)state;
    fixture.decision = "applied";
    fixture.list_rc = RC_RETRY;
    ask(DEAD_WORKER_ONE);
    work();
    assert_answer("\"changed\":false,\"outcome\":\"applied\"");
    assert_int_equal(fixture.step_count, 1);
    assert_int_equal(fixture.lists, 2);
    fixture.decision = NULL;
    ask(DEAD_WORKER_ONE);
    work();
    assert_fault(REQUEST_FAULT_NOT_FOUND, "there is no dead record 7");
}

static void a_fatal_error_fails_the_request_and_not_the_role(void **state)
{
    (void)state;
    fixture.steps[0].rc = RC_FATAL;
    fixture.steps[1].rc = RC_REJECT;
    ask(DEAD_WORKER_ONE);
    work();
    assert_fault(REQUEST_FAULT_UNAVAILABLE, "sending it again is harmless");
    ask(DEAD_WORKER_ONE);
    work();
    assert_fault(REQUEST_FAULT_REFUSED, "what was done before stays done");
    fixture.steps[2].count = 1;
    ask(DEAD_WORKER_ONE);
    work();
    assert_answer("\"outcome\":\"applied\"");
    assert_false(stop_requested(&fixture.stop));
}

static void an_action_is_left_after_its_deadline(void **state)
{
    int leaves;

    (void)state;
    fixture.matched = 9;
    for (int i = 0; i < STEPS_MAX; i++)
        fixture.steps[i] = (struct fake_step){.more = i < 2, .count = 1};
    ask(DEAD_WORKER_MANY);
    dead_worker_step(fixture.worker, fixture.now_ms);
    dead_worker_step(fixture.worker, fixture.now_ms);
    assert_int_equal(fixture.step_count, 2);
    leaves = fixture.leaves;
    fixture.now_ms += TIMEOUT_MS;
    queue_expire(fixture.queue, fixture.now_ms);
    assert_true(fixture.answered);
    assert_int_equal(fixture.end, QUEUE_UNKNOWN);
    dead_worker_step(fixture.worker, fixture.now_ms);
    assert_int_equal(fixture.step_count, 2);
    assert_true(fixture.leaves > leaves);
    ask(DEAD_WORKER_MANY);
    work();
    assert_answer("\"applied\":1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_page_has_a_cursor, setup, teardown),
        cmocka_unit_test_setup_teardown(many_records_are_done_page_by_page, setup, teardown),
        cmocka_unit_test_setup_teardown(what_dies_after_the_count_is_not_selected, setup, teardown),
        cmocka_unit_test_setup_teardown(a_dry_run_only_counts, setup, teardown),
        cmocka_unit_test_setup_teardown(one_record_has_its_outcome, setup, teardown),
        cmocka_unit_test_setup_teardown(a_record_that_was_decided_before_is_left_as_it_is, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_fatal_error_fails_the_request_and_not_the_role, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(an_action_is_left_after_its_deadline, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
