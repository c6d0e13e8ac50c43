/* SPDX-License-Identifier: MIT */
#include "tests/flow/commit_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static void one_lost_connection_is_nobodys_business(void **state)
{
    struct commit_fixture *fixture = *state;
    struct asked *asked;

    commit_fixture_begin(fixture);
    asked = commit_fixture_ask(fixture, 0, 1, 1, 10, QUEUE_TAKEN);
    fixture->fake.calls = 0;
    fixture->fake.fail_at = 2;
    assert_int_equal(commit_fixture_step(fixture, 0), 0);
    assert_false(queue_is_unavailable(fixture->queue));
    assert_int_equal(asked->answers, 0);
    commit_fixture_step(fixture, 0);
    assert_int_equal(asked->end, QUEUE_DONE);
}

static void an_absent_database_is_503_at_once_and_comes_back_by_itself(void **state)
{
    struct commit_fixture *fixture = *state;
    struct asked *asked;
    int64_t wait_ms;

    commit_fixture_begin(fixture);
    asked = commit_fixture_ask(fixture, 0, 1, 1, 10, QUEUE_TAKEN);
    fixture->fake.away = true;
    assert_int_equal(commit_fixture_step(fixture, 0), 0);
    wait_ms = commit_fixture_step(fixture, 0);
    assert_in_range(wait_ms, 1, BREAKER_CAP_MS);
    assert_true(queue_is_unavailable(fixture->queue));
    commit_fixture_ask(fixture, 1, 2, 1, 10, QUEUE_UNAVAILABLE);
    assert_int_equal(commit_fixture_step(fixture, 0), wait_ms);
    fixture->now_ms += wait_ms;
    fixture->fake.away = false;
    commit_fixture_step(fixture, 0);
    assert_int_equal(asked->end, QUEUE_DONE);
    assert_int_equal(asked->answers, 1);
    assert_false(queue_is_unavailable(fixture->queue));
    commit_fixture_ask(fixture, 1, 2, 1, 10, QUEUE_TAKEN);
    commit_fixture_step(fixture, 1);
}

static void an_idle_committer_notices_the_loss_and_the_return(void **state)
{
    struct commit_fixture *fixture = *state;
    int64_t wait_ms;

    commit_fixture_begin(fixture);
    fixture->fake.away = true;
    fixture->now_ms += 5000;
    while (!queue_is_unavailable(fixture->queue))
        fixture->now_ms += commit_fixture_step(fixture, 0);
    fixture->fake.away = false;
    for (int looks = 0; queue_is_unavailable(fixture->queue); looks++) {
        assert_true(looks < 10);
        wait_ms = commit_fixture_step(fixture, 0);
        assert_true(wait_ms > 0);
        fixture->now_ms += wait_ms;
    }
}

static void a_conflict_delays_the_batch_and_refuses_no_request(void **state)
{
    struct commit_fixture *fixture = *state;
    struct asked *asked;
    int64_t wait_ms;

    commit_fixture_begin(fixture);
    asked = commit_fixture_ask(fixture, 0, 1, 1, 10, QUEUE_TAKEN);
    fixture->fake.collides = true;
    fixture->fake.calls = 0;
    fixture->fake.fail_at = 2;
    wait_ms = commit_fixture_step(fixture, 0);
    assert_in_range(wait_ms, 1, 500);
    assert_false(queue_is_unavailable(fixture->queue));
    fixture->now_ms += wait_ms;
    commit_fixture_step(fixture, 0);
    assert_int_equal(asked->end, QUEUE_DONE);
}

static void a_request_that_waited_too_long_is_refused_and_not_counted(void **state)
{
    struct commit_fixture *fixture = *state;
    struct asked *asked;

    commit_fixture_begin(fixture);
    asked = commit_fixture_ask(fixture, 0, 1, 1, 10, QUEUE_TAKEN);
    assert_int_equal(queue_expire(fixture->queue, fixture->now_ms), TIMEOUT_MS);
    fixture->now_ms += TIMEOUT_MS - 1;
    assert_int_equal(queue_expire(fixture->queue, fixture->now_ms), 1);
    assert_int_equal(asked->answers, 0);
    fixture->now_ms++;
    queue_expire(fixture->queue, fixture->now_ms);
    assert_int_equal(asked->end, QUEUE_LATE);
    commit_fixture_step(fixture, 0);
    assert_int_equal(votes_db_total(&fixture->fake, 10), 0);
}

static void a_late_request_is_not_begun_even_without_a_step_before(void **state)
{
    struct commit_fixture *fixture = *state;
    struct asked *asked;

    commit_fixture_begin(fixture);
    asked = commit_fixture_ask(fixture, 0, 1, 1, 10, QUEUE_TAKEN);
    fixture->now_ms += TIMEOUT_MS;
    commit_fixture_step(fixture, 0);
    assert_int_equal(asked->end, QUEUE_LATE);
    assert_int_equal(fixture->fake.commits, 0);
}

static void a_request_in_flight_too_long_is_answered_as_unknown(void **state)
{
    struct commit_fixture *fixture = *state;
    struct asked *old;
    struct asked *young;

    commit_fixture_begin(fixture);
    old = commit_fixture_ask(fixture, 0, 1, 2, 10, QUEUE_TAKEN);
    fixture->now_ms += TIMEOUT_MS / 2;
    young = commit_fixture_ask(fixture, 0, 3, 2, 10, QUEUE_TAKEN);
    fixture->fake.away = true;
    while (!queue_is_unavailable(fixture->queue))
        commit_fixture_step(fixture, 0);
    fixture->now_ms += TIMEOUT_MS / 2;
    queue_expire(fixture->queue, fixture->now_ms);
    assert_int_equal(old->answers, 1);
    assert_int_equal(old->end, QUEUE_UNKNOWN);
    assert_int_equal(old->releases, 0);
    assert_int_equal(young->answers, 0);
    fixture->fake.away = false;
    commit_fixture_step(fixture, 0);
    assert_int_equal(old->releases, 1);
    assert_int_equal(young->end, QUEUE_DONE);
    /* The old one was given up, not done behind its back. */
    assert_int_equal(votes_db_total(&fixture->fake, 10), 2);
}

static void a_lost_commit_is_answered_once_it_is_known(void **state)
{
    struct commit_fixture *fixture = *state;
    struct asked *asked;

    commit_fixture_begin(fixture);
    asked = commit_fixture_ask(fixture, 0, 1, 3, 10, QUEUE_TAKEN);
    fixture->fake.next = VOTES_COMMIT_LOST_AFTER;
    commit_fixture_step(fixture, 0);
    assert_int_equal(asked->answers, 0);
    commit_fixture_step(fixture, 0);
    assert_int_equal(asked->end, QUEUE_DONE);
    assert_int_equal(asked->items[2].votes, 3);
    assert_true(asked->items[2].changed);
    assert_int_equal(fixture->fake.commits, 1);
}

static void a_fatal_error_answers_every_request_and_stops_the_process(void **state)
{
    struct commit_fixture *fixture = *state;
    struct asked *asked;

    commit_fixture_begin(fixture);
    asked = commit_fixture_ask(fixture, 0, 1, 1, 10, QUEUE_TAKEN);
    fixture->fake.calls = 0;
    fixture->fake.fail_at = 1;
    fixture->fake.fail_rc = RC_FATAL;
    commit_fixture_step(fixture, 0);
    assert_int_equal(asked->end, QUEUE_UNKNOWN);
    assert_true(stop_requested(&fixture->stop));
    assert_true(atomic_load(&fixture->stop.failed));
    commit_fixture_ask(fixture, 1, 2, 1, 10, QUEUE_STOPPING);
}

static void a_closed_queue_takes_nothing_and_drops_waiting_requests(void **state)
{
    struct commit_fixture *fixture = *state;
    struct asked *asked;

    commit_fixture_begin(fixture);
    asked = commit_fixture_ask(fixture, 0, 1, 1, 10, QUEUE_TAKEN);
    queue_close(fixture->queue);
    commit_fixture_ask(fixture, 0, 2, 1, 10, QUEUE_STOPPING);
    queue_drop(fixture->queue);
    assert_int_equal(asked->end, QUEUE_CLOSED);
    assert_true(queue_idle(fixture->queue));
}

static void a_closed_committer_answers_its_requests_in_flight(void **state)
{
    struct commit_fixture *fixture = *state;
    struct asked *asked;

    commit_fixture_begin(fixture);
    asked = commit_fixture_ask(fixture, 0, 1, 1, 10, QUEUE_TAKEN);
    fixture->fake.away = true;
    commit_fixture_step(fixture, 0);
    committer_close(fixture->committers[0]);
    fixture->committers[0] = NULL;
    assert_int_equal(asked->end, QUEUE_UNKNOWN);
    fixture->fake.away = false;
}

static void a_refused_vote_does_not_hold_up_its_batch(void **state)
{
    struct commit_fixture *fixture = *state;
    struct asked *good;
    struct asked *bad;

    commit_fixture_begin(fixture);
    fixture->fake.refused_voter = 2;
    good = commit_fixture_ask(fixture, 0, 10, 2, 10, QUEUE_TAKEN);
    bad = commit_fixture_ask(fixture, 0, 1, 3, 10, QUEUE_TAKEN);
    for (int steps = 0; bad->answers == 0; steps++) {
        assert_true(steps < 30);
        commit_fixture_step(fixture, 0);
    }
    assert_int_equal(good->end, QUEUE_DONE);
    assert_int_equal(bad->items[0].outcome, VOTE_DONE);
    assert_int_equal(bad->items[1].outcome, VOTE_REFUSED);
    assert_int_equal(bad->items[2].outcome, VOTE_DONE);
    assert_int_equal(votes_db_total(&fixture->fake, 10), 4);
}

static void votes_that_are_done_stay_done_when_a_request_leaves_the_batch(void **state)
{
    struct commit_fixture *fixture = *state;
    struct asked *old;
    struct asked *young;

    commit_fixture_begin(fixture);
    fixture->fake.refused_voter = 4;
    old = commit_fixture_ask(fixture, 0, 1, 1, 10, QUEUE_TAKEN);
    fixture->now_ms += TIMEOUT_MS / 2;
    young = commit_fixture_ask(fixture, 0, 2, 4, 10, QUEUE_TAKEN);
    while (votes_db_total(&fixture->fake, 10) < 2)
        commit_fixture_step(fixture, 0);
    assert_int_equal(young->items[0].outcome, VOTE_DONE);
    fixture->now_ms += TIMEOUT_MS / 2;
    queue_expire(fixture->queue, fixture->now_ms);
    for (int steps = 0; young->answers == 0; steps++) {
        assert_true(steps < 20);
        commit_fixture_step(fixture, 0);
    }
    assert_int_equal(old->end, QUEUE_UNKNOWN);
    assert_true(young->items[0].changed);
    assert_int_equal(young->items[0].votes, 2);
    assert_int_equal(young->items[2].outcome, VOTE_REFUSED);
    assert_int_equal(votes_db_total(&fixture->fake, 10), 4);
}

static unsigned roll(unsigned *rng, unsigned sides)
{
    *rng = *rng * 1103515245 + 12345;
    return (*rng >> 8) % sides;
}

static void trouble_make(struct commit_fixture *fixture, unsigned *rng)
{
    struct votes_db *fake = &fixture->fake;

    fake->away = fake->away ? roll(rng, 3) > 0 : roll(rng, 40) == 0;
    fake->collides = roll(rng, 2) == 0;
    fake->fail_at = roll(rng, 4) == 0 ? fake->calls + 1 + roll(rng, 9) : 0;
    if (roll(rng, 5) == 0)
        fake->next = (enum votes_commit)roll(rng, 3);
}

static void ask_random(struct commit_fixture *fixture, unsigned *rng)
{
    size_t shard = roll(rng, SHARDS);
    size_t count = 1 + roll(rng, 14);
    struct asked *asked = commit_fixture_make(fixture, count);

    for (size_t i = 0; i < count; i++)
        asked->items[i] = (struct vote_item){.voter_id = 1 + roll(rng, 20),
                                             .content_id = 1 + roll(rng, 5),
                                             .voting = (uint8_t)roll(rng, 2)};
    commit_fixture_put(fixture, shard, asked);
}

/* Every change that was answered has its event; every event was answered as a change, unless its
 * asker had lost patience. */
static void answers_check(const struct commit_fixture *fixture)
{
    const struct votes_tables *tables = fixture->fake.tables;
    size_t changed = 0;
    size_t unknown = 0;

    for (size_t i = 0; i < fixture->asked_count; i++) {
        const struct asked *asked = fixture->asked[i];

        for (size_t n = 0; n < asked->request.count; n++) {
            changed += asked->end == QUEUE_DONE && asked->items[n].changed;
            unknown += asked->end == QUEUE_UNKNOWN;
        }
    }
    assert_true(changed > 0);
    assert_in_range(tables->event_count, changed, changed + unknown);
}

static void random_failures_answer_every_request_once_and_correctly(void **state)
{
    struct commit_fixture *fixture = *state;

    for (unsigned seed = 1; seed <= 20; seed++) {
        unsigned rng = seed * 7919;

        for (int round = 0; round < 150; round++) {
            trouble_make(fixture, &rng);
            if (roll(&rng, 3) > 0)
                ask_random(fixture, &rng);
            commit_fixture_step(fixture, roll(&rng, SHARDS));
            if (roll(&rng, 4) == 0)
                queue_expire(fixture->queue, fixture->now_ms);
            fixture->now_ms += roll(&rng, 200);
        }
        fixture->fake.away = false;
        fixture->fake.fail_at = 0;
        fixture->fake.next = VOTES_COMMIT_WORKS;
        for (int steps = 0; !queue_idle(fixture->queue); steps++) {
            assert_true(steps < 1000);
            commit_fixture_step(fixture, (size_t)steps % SHARDS);
            fixture->now_ms += 50;
        }
        votes_db_check(&fixture->fake);
        answers_check(fixture);
    }
}

int main(void)
{
#define TEST(name) \
    cmocka_unit_test_setup_teardown(name, commit_fixture_set_up, commit_fixture_tear_down)
    const struct CMUnitTest tests[] = {
        TEST(one_lost_connection_is_nobodys_business),
        TEST(an_absent_database_is_503_at_once_and_comes_back_by_itself),
        TEST(an_idle_committer_notices_the_loss_and_the_return),
        TEST(a_conflict_delays_the_batch_and_refuses_no_request),
        TEST(a_request_that_waited_too_long_is_refused_and_not_counted),
        TEST(a_late_request_is_not_begun_even_without_a_step_before),
        TEST(a_request_in_flight_too_long_is_answered_as_unknown),
        TEST(a_lost_commit_is_answered_once_it_is_known),
        TEST(a_fatal_error_answers_every_request_and_stops_the_process),
        TEST(a_closed_queue_takes_nothing_and_drops_waiting_requests),
        TEST(a_closed_committer_answers_its_requests_in_flight),
        TEST(a_refused_vote_does_not_hold_up_its_batch),
        TEST(votes_that_are_done_stay_done_when_a_request_leaves_the_batch),
        TEST(random_failures_answer_every_request_once_and_correctly),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
