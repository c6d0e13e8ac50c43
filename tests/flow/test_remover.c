/* SPDX-License-Identifier: MIT */
#include "producer/remark/remover.h"

#include "common/os.h"
#include "producer/serve_metrics.h"
#include "tests/fakes/fake_removal.h"
#include "tests/flow/votes_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define REMARKS_MAX 8
#define STEPS_MAX 2000

/* What the sink has of the votes of a remark. */
struct sink_votes {
    size_t lasts; /* rows of vote_last */
    bool ended;   /* the tally */
};

struct fixture {
    struct votes_db votes;
    struct fake_removal_row rows[REMARKS_MAX]; /* by id */
    struct sink_votes sink[REMARKS_MAX];
    struct fake_alone alone; /* the connection to the sink */
    struct fake_removal fake;
    /* Rows of deleted_content by id, found while they are marked; the same connection. */
    struct fake_removal_row contents[REMARKS_MAX];
    struct fake_removal contents_fake;
    struct removal_store store;
    struct removal_marks marks[REMOVAL_KINDS];
    unsigned calls; /* of the sink: statements and answers */
    unsigned fail_at;
    enum rc fail_rc;
    bool sink_away;  /* for pings */
    int64_t refused; /* the remark that cannot be deleted */
    int64_t now_ms;
    struct queue *queue;
    struct remover *remover;
    struct stop stop;
    struct removal_request request;
    unsigned answers;
    enum queue_end end;
};

static enum rc count_call(void *ctx, struct err *err)
{
    struct fixture *fixture = ctx;

    if (++fixture->calls != fixture->fail_at)
        return RC_OK;
    return err_fail(err, fixture->fail_rc, 2006, "call %u fails", fixture->calls);
}

/* Not counted: it may not be refused. */
static enum rc ping_sink(void *ctx, struct err *err)
{
    const struct fixture *fixture = ((const struct fake_removal *)ctx)->ctx;

    return fixture->sink_away ? err_fail(err, RC_RETRY, 2006, "the sink is away") : RC_OK;
}

static int64_t read_clock(void *ctx)
{
    return ((const struct fixture *)ctx)->now_ms;
}

static int64_t item_of(void *ctx, int64_t id)
{
    (void)ctx;
    (void)id;
    return 5;
}

static bool is_ended(void *ctx, int64_t content_id)
{
    return ((const struct fixture *)ctx)->sink[content_id].ended;
}

/* At once: the transaction that does it is not undone, but its answer may be lost. */
static enum rc delete_lasts(void *ctx, int64_t content_id, size_t rows_max, size_t *count,
                            struct err *err)
{
    struct sink_votes *sink = &((struct fixture *)ctx)->sink[content_id];

    (void)err;
    assert_true(sink->ended); /* invariant P6 */
    *count = sink->lasts < rows_max ? sink->lasts : rows_max;
    sink->lasts -= *count;
    return RC_OK;
}

static bool is_refused(void *ctx, int64_t id)
{
    return id == ((const struct fixture *)ctx)->refused;
}

static void check_row(void *ctx, const struct fake_removal_row *row)
{
    const struct fixture *fixture = ctx;
    const struct sink_votes *sink = &fixture->sink[row - fixture->rows];

    assert_true(row->now.found || (row->old.deleted && sink->ended && sink->lasts == 0));
}

static void check_content(void *ctx, const struct fake_removal_row *row)
{
    const struct fixture *fixture = ctx;
    const struct sink_votes *sink = &fixture->sink[row - fixture->contents];

    assert_true(row->now.found || (sink->ended && sink->lasts == 0));
}

static void make_row(struct fixture *fixture, struct fake_removal_row *row, bool deleted)
{
    row->now = (struct fake_removal_version){.found = true,
                                             .deleted = deleted,
                                             .deleted_ms = fixture->now_ms,
                                             .remove_ms = fixture->now_ms};
    row->old = row->now;
}

static void make_remark(struct fixture *fixture, int64_t id, bool deleted)
{
    make_row(fixture, &fixture->rows[id], deleted);
}

static uint64_t no_chance(void)
{
    return 0;
}

static void open_remover(struct fixture *fixture)
{
    const struct remover_config config = {
        .queue = fixture->queue,
        .store = &fixture->store,
        .marks = {&fixture->marks[REMOVAL_REMARKS], &fixture->marks[REMOVAL_CONTENTS]},
        .close = {.store = &fixture->votes.ops, .lane_count = 1, .rng_bytes = os_random},
        .rng = no_chance,
        .stop = &fixture->stop,
    };
    struct err err;

    assert_int_equal(remover_open(&fixture->remover, &config, &err), RC_OK);
}

static int set_up(void **state)
{
    struct fixture *fixture = calloc(1, sizeof(*fixture));
    const struct queue_config queue = {.shards = 1,
                                       .weight_max = 10,
                                       .timeout_ms = 60000,
                                       .breaker_base_ms = 100,
                                       .breaker_cap_ms = 400,
                                       .name = "removals",
                                       .dep = "sink",
                                       .dep_more = "mysql"};
    struct err err;

    assert_non_null(fixture);
    votes_db_init(&fixture->votes);
    fixture->now_ms = 1000;
    fixture->fail_rc = RC_RETRY;
    fixture->alone.hooks = (struct fake_hooks){fixture, count_call, count_call, read_clock};
    fixture->fake = (struct fake_removal){
        .session = fake_alone_session(&fixture->alone),
        .rows = fixture->rows,
        .id_max = REMARKS_MAX - 1,
        .ctx = fixture,
        .item_of = item_of,
        .is_ended = is_ended,
        .delete_lasts = delete_lasts,
        .refuses_remark = is_refused,
        .on_row = check_row,
    };
    fixture->contents_fake = fixture->fake;
    fixture->contents_fake.rows = fixture->contents;
    fixture->contents_fake.on_row = check_content;
    fixture->store = fake_removal_ops(&fixture->fake);
    fixture->marks[REMOVAL_REMARKS] = fake_removal_marks(&fixture->fake);
    fixture->marks[REMOVAL_CONTENTS] = fake_removal_marks(&fixture->contents_fake);
    fixture->store.ping = ping_sink;
    assert_int_equal(stop_init(&fixture->stop, &err), RC_OK);
    assert_int_equal(queue_open(&fixture->queue, &queue, &err), RC_OK);
    open_remover(fixture);
    *state = fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;

    remover_close(fixture->remover);
    queue_free(fixture->queue);
    stop_done(&fixture->stop);
    votes_db_done(&fixture->votes);
    free(fixture);
    return 0;
}

/* voters votes of a remark, by the vote engine's own ops. */
static void add_votes(struct fixture *fixture, int64_t id, size_t voters)
{
    const struct vote_store *ops = &fixture->votes.ops;
    struct vote_count_row count = {.content_id = id, .wanted = true};
    struct err err;

    assert_int_equal(ops->begin(ops->ctx, &err), RC_OK);
    assert_int_equal(ops->make_counts(ops->ctx, &count, 1, &err), RC_OK);
    assert_int_equal(ops->commit(ops->ctx, &err), RC_OK);
    for (size_t voter = 1; voter <= voters; voter++)
        votes_db_change(&fixture->votes, (int64_t)voter, id, 1);
    make_remark(fixture, id, false);
    fixture->sink[id] = (struct sink_votes){.lasts = voters};
}

static void step(struct fixture *fixture)
{
    int64_t wait_ms = remover_step(fixture->remover, fixture->now_ms);

    assert_false(fixture->votes.alone.open || fixture->alone.open);
    fixture->now_ms += wait_ms > 0 ? wait_ms : 1;
}

static void answer(struct queue_entry *entry, enum queue_end end)
{
    struct fixture *fixture = (struct fixture *)((char *)entry - offsetof(struct fixture, request));

    fixture->answers++;
    fixture->end = end;
}

static void release(struct queue_entry *entry)
{
    (void)entry;
}

static enum removal_end request(struct fixture *fixture, int64_t id)
{
    int64_t wait_ms;
    unsigned before = fixture->answers;

    while (queue_is_unavailable(fixture->queue))
        step(fixture);
    fixture->request = (struct removal_request){
        .entry = {.weight = 1, .answer = answer, .release = release}, .id = id};
    assert_int_equal(
        queue_put(fixture->queue, 0, &fixture->request.entry, fixture->now_ms, &wait_ms),
        QUEUE_TAKEN);
    for (int steps = 0; fixture->answers == before; steps++) {
        assert_true(steps < STEPS_MAX);
        step(fixture);
    }
    assert_int_equal(fixture->answers, before + 1);
    assert_int_equal(fixture->end, QUEUE_DONE);
    return fixture->request.end;
}

static bool is_closed(struct fixture *fixture, int64_t id)
{
    struct vote_count_row count = {.content_id = id};
    struct err err;

    fixture->votes.fail_at = 0;
    assert_int_equal(fixture->votes.ops.read_deleted(fixture->votes.ops.ctx, &count, 1, &err),
                     RC_OK);
    return count.deleted;
}

static size_t count_states(const struct fixture *fixture, int64_t id)
{
    size_t count = 0;

    for (const struct fake_state *state = fixture->votes.tables->states; state->old.found; state++)
        count += state->old.content_id == id;
    return count;
}

static bool has_count(const struct fixture *fixture, int64_t id)
{
    for (const struct fake_count *count = fixture->votes.tables->counts; count->old.found; count++)
        if (count->content_id == id)
            return true;
    return false;
}

/* As an application and, later, housekeeping do. */
static void mark_content(struct fixture *fixture, int64_t id, size_t voters)
{
    add_votes(fixture, id, voters);
    votes_db_delete(&fixture->votes, id);
    fixture->rows[id] = (struct fake_removal_row){.now = {.found = false}};
    make_row(fixture, &fixture->contents[id], true);
}

static void run_until_removed(struct fixture *fixture, int64_t id)
{
    for (int steps = 0; fixture->rows[id].old.found || fixture->contents[id].old.found; steps++) {
        assert_true(steps < STEPS_MAX);
        step(fixture);
    }
    assert_int_equal(count_states(fixture, id), 0);
    assert_false(has_count(fixture, id));
    assert_int_equal(fixture->sink[id].lasts, 0);
    assert_true(is_closed(fixture, id));
    votes_db_check(&fixture->votes);
}

static void a_request_is_answered_when_the_remark_is_marked_and_closed(void **state)
{
    struct fixture *fixture = *state;

    add_votes(fixture, 1, 3);
    assert_int_equal(request(fixture, 1), REMOVAL_DONE);
    assert_true(fixture->rows[1].old.deleted);
    assert_true(is_closed(fixture, 1));
    assert_true(fixture->votes.tables->events[3].ends);
    assert_int_equal(request(fixture, 2), REMOVAL_NOT_FOUND);
    assert_false(is_closed(fixture, 2));
}

static void the_votes_go_first_and_the_remark_after_its_tally(void **state)
{
    struct fixture *fixture = *state;

    add_votes(fixture, 1, 2 * REMOVER_BATCH_ROWS + 1);
    add_votes(fixture, 2, 3);
    assert_int_equal(request(fixture, 1), REMOVAL_DONE);
    for (int steps = 0; has_count(fixture, 1); steps++) {
        assert_true(steps < STEPS_MAX);
        step(fixture);
    }
    assert_int_equal(count_states(fixture, 1), 0);
    for (int steps = 0; steps < 200; steps++)
        step(fixture);
    assert_true(fixture->rows[1].old.found);
    assert_int_equal(fixture->sink[1].lasts, 2 * REMOVER_BATCH_ROWS + 1);
    assert_true(metric_value(&serve_removal_oldest_age) > 0);
    fixture->sink[1].ended = true;
    run_until_removed(fixture, 1);
    assert_int_equal(count_states(fixture, 2), 3);
    assert_true(has_count(fixture, 2));
    assert_true(fixture->rows[2].old.found);
    assert_int_equal(request(fixture, 1), REMOVAL_DONE); /* sent again */
    for (int steps = 0; steps < 40; steps++)
        step(fixture);
    assert_int_equal(metric_value(&serve_removal_oldest_age), 0);
}

static void a_remark_that_waits_delays_no_other(void **state)
{
    struct fixture *fixture = *state;
    struct err err;

    for (int64_t id = 1; id <= 4; id++) {
        add_votes(fixture, id, 5);
        assert_int_equal(request(fixture, id), REMOVAL_DONE);
    }
    fixture->refused = 2;
    for (int64_t id = 2; id <= 4; id++)
        fixture->sink[id].ended = true;
    run_until_removed(fixture, 3);
    run_until_removed(fixture, 4);
    for (int steps = 0; steps < 300; steps++)
        step(fixture);
    assert_true(remover_waits(fixture->remover, &err)); /* also between two attempts */
    assert_string_equal(err.text, "remark 2 is not removed: remark 2 is refused");
    assert_true(fixture->rows[1].old.found && fixture->rows[2].old.found);
    fixture->refused = 0;
    run_until_removed(fixture, 2);
    fixture->sink[1].ended = true;
    run_until_removed(fixture, 1);
    for (int steps = 0; steps < 300; steps++)
        step(fixture);
    assert_false(remover_waits(fixture->remover, NULL));
}

static void a_removal_is_finished_by_another_process(void **state)
{
    struct fixture *fixture = *state;

    for (int steps = 1; steps < 12; steps++) {
        struct fixture *again;

        add_votes(fixture, 1, REMOVER_BATCH_ROWS + 5);
        assert_int_equal(request(fixture, 1), REMOVAL_DONE);
        fixture->sink[1].ended = true;
        for (int i = 0; i < steps; i++)
            step(fixture);
        remover_close(fixture->remover); /* as if it was killed */
        open_remover(fixture);
        if (fixture->rows[1].old.found)
            fixture->now_ms += REMOVER_CLAIM_MS;
        run_until_removed(fixture, 1);
        tear_down((void **)&fixture);
        set_up((void **)&again);
        fixture = again;
        *state = again;
    }
}

static size_t count_tombstones(const struct fixture *fixture, int64_t id)
{
    const struct votes_tables *tables = fixture->votes.tables;
    size_t count = 0;

    for (size_t i = 0; i < tables->event_count; i++)
        count += tables->events[i].ends && tables->events[i].content_id == id;
    return count;
}

static void votes_of_a_marked_content_go_and_its_row_stays(void **state)
{
    struct fixture *fixture = *state;

    mark_content(fixture, 1, REMOVER_BATCH_ROWS + 1);
    mark_content(fixture, 2, 3);
    fixture->contents[2] = (struct fake_removal_row){.now = {.found = false}};
    for (int steps = 0; has_count(fixture, 1); steps++) {
        assert_true(steps < STEPS_MAX);
        step(fixture);
    }
    for (int steps = 0; steps < 200; steps++)
        step(fixture);
    assert_true(fixture->contents[1].old.found);
    assert_int_equal(fixture->sink[1].lasts, REMOVER_BATCH_ROWS + 1);
    assert_true(metric_value(&serve_removal_oldest_age) > 0);
    fixture->sink[1].ended = true;
    run_until_removed(fixture, 1);
    assert_int_equal(count_tombstones(fixture, 1), 1);
    assert_int_equal(count_states(fixture, 2), 3);
    assert_int_equal(count_tombstones(fixture, 2), 0);
}

static void remarks_and_contents_take_turns(void **state)
{
    struct fixture *fixture = *state;
    struct err err;

    for (int64_t id = 1; id <= 4; id++) {
        mark_content(fixture, id, 2);
        fixture->sink[id].ended = true;
    }
    add_votes(fixture, 5, 2);
    make_remark(fixture, 5, true);
    fixture->sink[5].ended = true;
    run_until_removed(fixture, 5);
    assert_true(fixture->contents[3].old.found && fixture->contents[4].old.found);
    fixture->refused = 4;
    run_until_removed(fixture, 3);
    for (int steps = 0; steps < 300; steps++)
        step(fixture);
    assert_true(remover_waits(fixture->remover, &err));
    assert_string_equal(err.text, "content 4 is not removed: remark 4 is refused");
    fixture->refused = 0;
    run_until_removed(fixture, 4);
}

/* Statements and answers of oldest and claim of both kinds, is_ended, delete_lasts and finish; a
 * content is claimed first. */
#define SINK_CALLS 17
#define VOTES_CALLS \
    7 /* begin, make_counts, mark_closed, append, commit, delete_states, delete_count */

/* Of a removal: each call of both databases, in each way. */
static void every_call_may_fail(void **state)
{
    static const enum rc rcs[] = {RC_RETRY, RC_REJECT, RC_FATAL};
    struct fixture *fixture = *state;

    for (unsigned way = 0; way < 3; way++) {
        for (unsigned call = 1; call <= SINK_CALLS + VOTES_CALLS; call++) {
            bool sink = call <= SINK_CALLS;
            struct fixture *again;
            unsigned fail_at;

            if (call % 2 == way % 2) {
                mark_content(fixture, 1, 7);
            } else {
                add_votes(fixture, 1, 7);
                make_remark(fixture, 1, true); /* by an application */
            }
            fixture->sink[1].ended = true;
            fixture->fail_rc = rcs[way];
            fixture->votes.fail_rc = rcs[way];
            fail_at = sink ? fixture->calls + call : fixture->votes.calls + call - SINK_CALLS;
            if (sink)
                fixture->fail_at = fail_at;
            else
                fixture->votes.fail_at = fail_at;
            run_until_removed(fixture, 1);
            assert_true((sink ? fixture->calls : fixture->votes.calls) >= fail_at);
            assert_false(stop_requested(&fixture->stop));
            tear_down((void **)&fixture);
            set_up((void **)&again);
            fixture = again;
            *state = again;
        }
    }
}

static void a_request_outlives_failures(void **state)
{
    struct fixture *fixture = *state;

    for (int64_t id = 1; id <= 5; id++) {
        add_votes(fixture, id, 2);
        while (queue_is_unavailable(fixture->queue))
            step(fixture);
        if (id == 1)
            fixture->fail_at = fixture->calls + 1;
        else
            fixture->votes.fail_at = fixture->votes.calls + (unsigned)id - 1;
        assert_int_equal(request(fixture, id), REMOVAL_DONE);
        assert_true(is_closed(fixture, id));
    }
    votes_db_check(&fixture->votes);
}

/* What is logged in some steps. */
static const char *log_of_steps(struct fixture *fixture, bool votes_away, bool sink_away)
{
    static char lines[8192];
    FILE *log = tmpfile();
    int kept = dup(STDERR_FILENO);
    ssize_t n;

    assert_non_null(log);
    dup2(fileno(log), STDERR_FILENO);
    fixture->sink_away = sink_away;
    fixture->votes.away = votes_away;
    for (int steps = 0; steps < 200; steps++)
        step(fixture);
    dup2(kept, STDERR_FILENO);
    close(kept);
    n = pread(fileno(log), lines, sizeof(lines) - 1, 0);
    fclose(log);
    lines[n > 0 ? n : 0] = '\0';
    return lines;
}

static void the_server_that_fails_is_named(void **state)
{
    static const char down_mysql[] = "event=dependency_down dep=mysql role=serve reason=no_answer";
    static const char down_sink[] = "event=dependency_down dep=sink role=serve reason=no_answer";
    struct fixture *fixture = *state;
    const char *lines = log_of_steps(fixture, false, false);

    assert_null(strstr(lines, "dependency_down"));
    lines = log_of_steps(fixture, true, false);
    assert_non_null(strstr(lines, down_mysql));
    assert_null(strstr(lines, "dep=sink"));
    lines = log_of_steps(fixture, false, false);
    assert_non_null(strstr(lines, "event=dependency_up dep=mysql"));
    assert_null(strstr(lines, "dep=sink"));
    lines = log_of_steps(fixture, false, true);
    assert_non_null(strstr(lines, down_sink));
    assert_null(strstr(lines, "dep=mysql"));
    lines = log_of_steps(fixture, true, false); /* the sink is back, and now the other is away */
    assert_non_null(strstr(lines, "event=dependency_up dep=sink"));
    assert_non_null(strstr(lines, down_mysql));
    lines = log_of_steps(fixture, false, false);
    assert_non_null(strstr(lines, "event=dependency_up dep=mysql"));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_request_is_answered_when_the_remark_is_marked_and_closed),
        TEST(the_votes_go_first_and_the_remark_after_its_tally),
        TEST(a_remark_that_waits_delays_no_other),
        TEST(a_removal_is_finished_by_another_process),
        TEST(votes_of_a_marked_content_go_and_its_row_stays),
        TEST(remarks_and_contents_take_turns),
        TEST(every_call_may_fail),
        TEST(a_request_outlives_failures),
        TEST(the_server_that_fails_is_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
