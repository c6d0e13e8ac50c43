/* SPDX-License-Identifier: MIT */
/* Requests for totals that wait together are answered from one read. */
#include "producer/remark/totals_reader.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <string.h>

#define REQUESTS 20
#define ROWS_MAX TOTALS_REQUEST_CONTENTS_MAX

struct asked {
    struct totals_request request; /* first */
    struct totals_row rows[ROWS_MAX];
    unsigned answers;
    enum queue_end end;
};

struct fixture {
    struct queue *queue;
    struct stop stop;
    struct totals_reader *reader;
    struct totals_store store;
    struct asked asked[REQUESTS];
    size_t count;
    enum rc rc; /* of the next reads */
    size_t reads;
    size_t rows_read;
};

static int64_t now_ms;

static int64_t clock_ms(void)
{
    return now_ms;
}

static uint64_t no_rng(void)
{
    return 0;
}

static enum rc ping(void *ctx, struct err *err)
{
    (void)ctx;
    (void)err;
    return RC_OK;
}

/* Content n has n * 10 votes, and voter v votes for the contents that it divides. */
static enum rc read_totals(void *ctx, struct totals_row **rows, size_t count, struct err *err)
{
    struct fixture *fixture = ctx;

    fixture->reads++;
    fixture->rows_read += count;
    for (size_t i = 0; i < count; i++) {
        struct totals_row *row = rows[count - 1 - i];

        row->votes = row->content_id * 10;
        row->voting = row->voter_id > 0 && row->content_id % row->voter_id == 0;
    }
    return fixture->rc == RC_OK ? RC_OK : err_fail(err, fixture->rc, 0, "away");
}

static void answer(struct queue_entry *entry, enum queue_end end)
{
    struct asked *asked = (struct asked *)entry;

    asked->answers++;
    asked->end = end;
}

static void release(struct queue_entry *entry)
{
    (void)entry;
}

static int set_up(void **state)
{
    static struct fixture fixture;
    struct queue_config queue = {
        .name = "reads",
        .dep = "mysql",
        .shards = 1,
        .weight_max = 10000,
        .timeout_ms = 1000,
        .breaker_base_ms = 1,
        .breaker_cap_ms = 1,
    };
    struct totals_reader_config config = {
        .store = &fixture.store, .clock_ms = clock_ms, .rng = no_rng, .stop = &fixture.stop};
    struct err err;

    memset(&fixture, 0, sizeof(fixture));
    now_ms = 1000;
    fixture.store = (struct totals_store){.ctx = &fixture, .ping = ping, .read = read_totals};
    assert_int_equal(stop_init(&fixture.stop, &err), RC_OK);
    assert_int_equal(queue_open(&fixture.queue, &queue, &err), RC_OK);
    config.queue = fixture.queue;
    assert_int_equal(totals_reader_open(&fixture.reader, &config, &err), RC_OK);
    totals_reader_step(fixture.reader, now_ms); /* the ping that closes the breaker */
    *state = &fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;

    totals_reader_close(fixture->reader);
    queue_free(fixture->queue);
    stop_done(&fixture->stop);
    return 0;
}

static void ask(struct fixture *fixture, int64_t voter_id, int64_t first, size_t count)
{
    struct asked *asked = &fixture->asked[fixture->count++];
    int64_t wait_ms;

    for (size_t i = 0; i < count; i++)
        asked->rows[i].content_id = first + (int64_t)i;
    asked->request.entry.answer = answer;
    asked->request.entry.release = release;
    asked->request.entry.weight = count;
    asked->request.voter_id = voter_id;
    asked->request.count = count;
    asked->request.rows = asked->rows;
    assert_int_equal(queue_put(fixture->queue, 0, &asked->request.entry, now_ms, &wait_ms),
                     QUEUE_TAKEN);
}

static void check_answer(const struct asked *asked)
{
    int64_t voter_id = asked->request.voter_id;

    assert_int_equal(asked->answers, 1);
    assert_int_equal(asked->end, QUEUE_DONE);
    assert_int_equal(asked->request.read_ms, now_ms);
    for (size_t i = 0; i < asked->request.count; i++) {
        assert_int_equal(asked->rows[i].votes, asked->rows[i].content_id * 10);
        assert_int_equal(asked->rows[i].voting,
                         voter_id > 0 && asked->rows[i].content_id % voter_id == 0);
    }
}

static void requests_that_wait_are_answered_from_one_read(void **state)
{
    struct fixture *fixture = *state;

    ask(fixture, 0, 1, 20);
    ask(fixture, 3, 10, 20);
    ask(fixture, 0, 5, 20);
    ask(fixture, 2, 10, 1);
    totals_reader_step(fixture->reader, now_ms);
    assert_int_equal(fixture->reads, 1);
    assert_int_equal(fixture->rows_read, 61);
    for (size_t i = 0; i < fixture->count; i++)
        check_answer(&fixture->asked[i]);
}

static void a_read_has_a_bound_on_requests_and_on_rows(void **state)
{
    struct fixture *fixture = *state;

    for (size_t i = 0; i < 17; i++)
        ask(fixture, 1, 1, 2);
    for (size_t i = 0; i < 3; i++)
        ask(fixture, 0, 1, ROWS_MAX);
    totals_reader_step(fixture->reader, now_ms);
    assert_int_equal(fixture->rows_read, 16 * 2);
    /* One of 2 rows and one of 200, the next 200 do not fit; then these and the last ones. */
    totals_reader_step(fixture->reader, now_ms);
    assert_int_equal(fixture->rows_read, 16 * 2 + 2 + ROWS_MAX);
    totals_reader_step(fixture->reader, now_ms);
    assert_int_equal(fixture->reads, 3);
    assert_int_equal(fixture->rows_read, 17 * 2 + 3 * ROWS_MAX);
    for (size_t i = 0; i < fixture->count; i++)
        check_answer(&fixture->asked[i]);
}

static void a_read_that_failed_is_repeated_without_the_late_ones(void **state)
{
    struct fixture *fixture = *state;

    ask(fixture, 0, 1, 3);
    now_ms += 600;
    ask(fixture, 2, 7, 3);
    fixture->rc = RC_RETRY;
    totals_reader_step(fixture->reader, now_ms);
    assert_int_equal(fixture->rows_read, 6);
    now_ms += 600;
    queue_expire(fixture->queue, now_ms);
    assert_int_equal(fixture->asked[0].end, QUEUE_UNKNOWN);
    assert_int_equal(fixture->asked[1].answers, 0);
    fixture->rc = RC_OK;
    totals_reader_step(fixture->reader, now_ms);
    assert_int_equal(fixture->rows_read, 9);
    assert_int_equal(fixture->asked[0].answers, 1);
    check_answer(&fixture->asked[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(requests_that_wait_are_answered_from_one_read, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_read_has_a_bound_on_requests_and_on_rows, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_read_that_failed_is_repeated_without_the_late_ones,
                                        set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
