/* SPDX-License-Identifier: MIT */
/* The keeper of a stream lane, and a reader that offers positions, on a model of the tables: a
 * position that is saved has the seqs of all rows before it. */
#include "outbox/relay/stream/stream_keeper.h"

#include "common/hash.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROWS 20000
#define ROOM 64

static struct settings settings;
static struct lane_settings own;
static struct lane lane;
static struct stream_keeper keeper;
static uint64_t rng;
static int64_t now_ms;

/* The database: rows of the lane are numbered from 1. Their seqs are those of seq_of(), and each
 * fourth row has none, but an id. */
static struct {
    int64_t position; /* number of the last row before it */
    bool saved[ROWS + 1];
    int64_t epoch;
    size_t saves;
    unsigned failures; /* one of so many calls fails; 0: none */
    int64_t due_ms;    /* of the keeper that sleeps */
} base;

/* Not in the order of commits; a permutation of each 8 of them. */
static int64_t seq_of(int64_t number)
{
    return (number ^ 5) + 8;
}

static bool has_id(int64_t number)
{
    return number % 4 == 0;
}

static struct published_id id_of(int64_t number)
{
    struct published_id id;
    char text[24];
    int len = snprintf(text, sizeof(text), "%" PRId64, number);

    assert_true(published_id_set(&id, (struct bytes){text, (size_t)len}));
    return id;
}

static int64_t number_of(const struct published_id *id)
{
    char text[24] = "";

    memcpy(text, id->bytes + 1, id->bytes[0]);
    return strtoll(text, NULL, 10);
}

static enum rc save(void *ctx, const struct stream_position *position, const struct done_rows *rows,
                    int64_t epoch, bool *fenced, struct err *err)
{
    const int64_t *seqs = rows->seqs;
    size_t seq_count = rows->seq_count;

    (void)ctx;
    *fenced = false;
    base.saves++;
    assert_true(seq_count + rows->id_count <= ROOM);
    for (size_t i = 1; i < seq_count; i++)
        assert_true(seqs[i - 1] < seqs[i]);
    if (base.failures > 0 && rng_next(&rng) % base.failures == 0)
        return err_fail(err, RC_RETRY, 0, "not saved");
    if (epoch != base.epoch) {
        *fenced = true;
        return RC_OK;
    }
    base.position = (int64_t)position->offset;
    for (size_t i = 0; i < seq_count; i++)
        base.saved[(seqs[i] - 8) ^ 5] = true;
    for (size_t i = 0; i < rows->id_count; i++)
        base.saved[number_of(&rows->ids[i])] = true;
    for (int64_t number = 1; number <= base.position; number++)
        assert_true(base.saved[number]);
    if (base.failures > 0 && rng_next(&rng) % base.failures == 0)
        return err_fail(err, RC_RETRY, 0, "the answer to the COMMIT was lost");
    return RC_OK;
}

static enum rc move_rows(void *ctx, const struct relay_move *moves, size_t count, int64_t epoch,
                         bool *fenced, struct err *err)
{
    (void)ctx, (void)moves, (void)count, (void)epoch, (void)fenced, (void)err;
    return RC_OK;
}

static enum rc load_keys(void *ctx, size_t keys_max, diverter_on_key on_key, void *on_key_ctx,
                         struct err *err)
{
    (void)ctx, (void)keys_max, (void)on_key, (void)on_key_ctx, (void)err;
    return RC_OK;
}

static enum rc keys_left(void *ctx, struct lane_key *keys, size_t count, struct err *err)
{
    (void)ctx, (void)keys, (void)count, (void)err;
    return RC_OK;
}

static void start_keeper(void)
{
    static const struct position_store positions = {.save = save};
    static const struct diverter_ops diverts = {
        .move_rows = move_rows, .load_keys = load_keys, .keys_left = keys_left};

    stream_keeper_init(&keeper, &lane, &positions, &diverts, 9);
    assert_int_equal(stream_keeper_save_rows(&keeper, ROOM, true, NULL), RC_OK);
}

static void set_lease(int64_t epoch)
{
    atomic_store(&lane.lease.epoch, epoch);
    atomic_store(&lane.lease.valid_until_ms, epoch == 0 ? 0 : INT64_MAX);
}

static int setup(void **state)
{
    (void)state;
    memset(&base, 0, sizeof(base));
    base.epoch = 1;
    rng = 77;
    now_ms = 1000000;
    settings.relay.read_rows_max = settings.relay.window_rows_max = 10;
    settings.relay.read_bytes_max = settings.relay.row_bytes_max = 1024;
    settings.relay.diverted_keys_max = 10;
    snprintf(own.name, sizeof(own.name), "outbox");
    snprintf(own.source, sizeof(own.source), "binlog");
    assert_int_equal(lane_init(&lane, &own, &settings, relay_metrics_of(0, own.name), NULL), RC_OK);
    set_lease(1);
    start_keeper();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    stream_keeper_done(&keeper);
    lane_done(&lane);
    return 0;
}

/* Offers the position behind row `to`; the rows up to `from` were added before. */
static bool offer(int64_t from, int64_t to, int64_t epoch, bool at_once)
{
    struct stream_position position = {.offset = (uint64_t)to};
    struct published_id ids[ROOM];
    int64_t seqs[ROOM];
    size_t count = 0;

    if (!stream_keeper_has_room(&keeper, (size_t)(to - from)))
        return false;
    for (int64_t number = from + 1; number <= to; number++) {
        ids[count] = id_of(number);
        seqs[count++] = has_id(number) ? 0 : seq_of(number);
    }
    stream_keeper_add(&keeper, seqs, ids, count);
    assert_true(stream_keeper_offer(&keeper, &position, to, epoch, at_once));
    return true;
}

static void run(int64_t ms)
{
    int64_t until_ms = now_ms + ms;

    for (; now_ms < until_ms; now_ms++)
        stream_keeper_step(&keeper, now_ms);
}

static void note_wake(void *ctx, enum lane_step step)
{
    if (step == LANE_DELETER)
        *(bool *)ctx = true;
}

/* As its thread does: a step only when the last one is over, or when it is woken. */
static void run_asleep(int64_t ms, const bool *woken)
{
    int64_t until_ms = now_ms + ms;
    int64_t due_ms = *woken ? now_ms : base.due_ms;

    for (; now_ms < until_ms; now_ms++) {
        if (now_ms >= due_ms)
            due_ms = now_ms + stream_keeper_step(&keeper, now_ms);
    }
    base.due_ms = due_ms;
}

/* A position without rows may wait for long, and the one that replaces it may not. */
static void a_row_behind_an_idle_position_is_saved_within_a_second(void **state)
{
    bool woken = false;

    (void)state;
    lane.wake = note_wake;
    lane.wake_ctx = &woken;
    assert_true(offer(0, 0, 1, true));
    run_asleep(100, &woken);
    woken = false;
    assert_true(offer(0, 0, 1, false));
    run_asleep(100, &woken);
    assert_int_equal(base.saves, 1);
    woken = false;
    assert_true(offer(0, 3, 1, false));
    run_asleep(KEEPER_SAVE_MS, &woken);
    assert_int_equal(base.position, 3);
    lane.wake = NULL;
}

/* A kill repeats at most so many rows that were offered, or those of a second. */
static void ten_thousand_rows_are_saved_at_once(void **state)
{
    struct stream_position position = {.offset = 0};
    bool woken = false;

    (void)state;
    lane.wake = note_wake;
    lane.wake_ctx = &woken;
    assert_true(offer(0, 0, 1, true));
    run_asleep(1, &woken);
    for (int64_t row = 1; row < 10000; row += 101) {
        woken = false;
        assert_true(stream_keeper_offer(&keeper, &position, row, 1, false));
        run_asleep(5, &woken);
    }
    assert_int_equal(base.saves, 1);
    woken = false;
    assert_true(stream_keeper_offer(&keeper, &position, 10000, 1, false));
    run_asleep(1, &woken);
    assert_int_equal(base.saves, 2);
    lane.wake = NULL;
}

static void offers_that_replace_each_other_lose_no_seq(void **state)
{
    (void)state;
    assert_true(offer(0, 0, 1, true));
    run(1);
    assert_int_equal(base.saves, 1);
    for (int64_t number = 0; number < 60; number += 3)
        assert_true(offer(number, number + 3, 1, false));
    run(KEEPER_SAVE_MS + 1);
    assert_int_equal(base.saves, 2);
    assert_int_equal(base.position, 60);
    assert_true(stream_keeper_is_saved(&keeper));
}

/* Otherwise a small window would be passed once a second. */
static void a_full_list_is_saved_at_once(void **state)
{
    (void)state;
    assert_true(offer(0, 0, 1, true));
    run(1);
    assert_true(offer(0, 50, 1, true));
    run(1);
    assert_true(offer(50, 100, 1, false));
    run(5);
    assert_int_equal(base.position, 50);
    assert_false(offer(100, 120, 1, false));
    run(5);
    assert_int_equal(base.position, 100);
    assert_true(offer(100, 120, 1, false));
}

static void a_list_is_tried_again_as_it_is(void **state)
{
    (void)state;
    assert_true(offer(0, 0, 1, true));
    run(1);
    base.failures = 1;
    assert_true(offer(0, 40, 1, true));
    run(100);
    assert_true(offer(40, 100, 1, true));
    assert_false(offer(100, 110, 1, true));
    run(100);
    assert_int_equal(base.position, 0);
    base.failures = 0;
    run(KEEPER_SAVE_MS);
    assert_int_equal(base.position, 100);
}

static void seqs_of_a_lost_lease_are_dropped(void **state)
{
    (void)state;
    assert_true(offer(0, 0, 1, true));
    run(1);
    assert_true(offer(0, 30, 1, true));
    run(1);
    assert_true(offer(30, 60, 1, false));
    set_lease(0);
    run(KEEPER_SAVE_MS);
    assert_true(stream_keeper_is_settled(&keeper));
    assert_false(stream_keeper_is_saved(&keeper));
    base.epoch = 3;
    set_lease(3);
    stream_keeper_begin(&keeper);
    assert_true(offer(30, 30, 3, true));
    assert_true(offer(30, 40, 3, true));
    run(1);
    assert_int_equal(base.position, 40);
    for (int64_t number = 41; number <= 60; number++)
        assert_false(base.saved[number]);
}

/* The reader waits for it before the lease can be taken again. */
static void an_offer_of_a_lost_lease_is_settled_at_once(void **state)
{
    (void)state;
    assert_true(offer(0, 0, 1, true));
    run(1);
    assert_true(offer(0, 0, 1, false));
    set_lease(0);
    run(2);
    assert_true(stream_keeper_is_settled(&keeper));
    assert_false(stream_keeper_is_saved(&keeper));
    assert_int_equal(base.saves, 1);
}

/* Kills, lost leases, gaps of a lease and failures; rows behind the saved position are done again.
 */
static void any_course_saves_the_seqs_before_the_position(void **state)
{
    int64_t added = 0;
    int64_t epoch = 1;

    (void)state;
    base.failures = 5;
    assert_true(offer(0, 0, 1, true));
    for (size_t i = 0; i < 60000 && base.position < ROWS - ROOM; i++) {
        int64_t to = added + (int64_t)(rng_next(&rng) % 20);
        unsigned chance = (unsigned)(rng_next(&rng) % 400);

        if (to <= ROWS - 8 && offer(added, to, epoch, rng_next(&rng) % 3 == 0))
            added = to;
        run(rng_next(&rng) % 4);
        if (chance == 2) {
            set_lease(0);
            run((int64_t)(rng_next(&rng) % 3000));
            set_lease(epoch);
        }
        if (chance > 1)
            continue;
        if (chance == 0) {
            stream_keeper_done(&keeper);
            start_keeper();
        }
        epoch = ++base.epoch;
        set_lease(epoch);
        stream_keeper_begin(&keeper);
        added = base.position;
        assert_true(offer(added, added, epoch, true));
    }
    assert_true(base.position > 1000);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(a_row_behind_an_idle_position_is_saved_within_a_second),
        TEST(offers_that_replace_each_other_lose_no_seq),
        TEST(ten_thousand_rows_are_saved_at_once),
        TEST(a_full_list_is_saved_at_once),
        TEST(a_list_is_tried_again_as_it_is),
        TEST(seqs_of_a_lost_lease_are_dropped),
        TEST(an_offer_of_a_lost_lease_is_settled_at_once),
        TEST(any_course_saves_the_seqs_before_the_position),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
