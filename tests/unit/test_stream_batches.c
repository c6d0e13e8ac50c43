/* SPDX-License-Identifier: MIT */
/* Batches of committed rows against a model of a log: transactions of all sizes, parts that are
 * undone, pauses at any place, failures, and reading again from any position that was given. */
#include "outbox/relay/stream/stream_batches.h"

#include "common/hash.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BATCH_ROWS 16
#define MANY_ROWS ((size_t)10 * BATCH_ROWS)
#define BATCH_BYTES 400
#define ROW_BYTES_MAX 100
#define STEPS_MAX 12000
#define TRANSACTIONS_MAX 64
#define ROUNDS 3000
#define POSITIONS_MAX 4096

/* A step of the log: a row with its id, the undoing of rows, or the end of a transaction. */
struct step {
    enum stream_kind kind;
    uint64_t number; /* STREAM_UNDO: rows that stay */
    unsigned id;     /* STREAM_ROW */
    size_t bytes;
};

static struct {
    struct step steps[STEPS_MAX];
    size_t count;
    unsigned rows[STEPS_MAX]; /* ids of the committed rows, in their order */
    size_t row_count;
    uint64_t rng;

    /* The reader's place. */
    size_t at;
    size_t start; /* of the present transaction */
    uint64_t number;
    uint64_t skip;
    bool pauses;
    bool fails; /* a call may fail */
    bool failed;
    size_t opens;
} world;

static uint64_t below(uint64_t bound)
{
    return rng_next(&world.rng) % bound;
}

static void add_step(struct step step)
{
    assert_true(world.count < STEPS_MAX);
    world.steps[world.count++] = step;
}

/* Rows with now and then a part that is undone. */
static void add_transaction(size_t rows, bool undoes)
{
    static unsigned kept[STEPS_MAX];
    size_t count = 0;

    for (size_t i = 0; i < rows; i++) {
        static unsigned last_id;

        kept[count++] = ++last_id;
        add_step((struct step){
            .kind = STREAM_ROW, .id = last_id, .bytes = 8 + (size_t)below(ROW_BYTES_MAX - 8)});
        if (undoes && below(4) == 0) {
            count = (size_t)below(count + 1);
            add_step((struct step){.kind = STREAM_UNDO, .number = count});
        }
    }
    if (undoes && below(3) == 0) {
        count = 0;
        add_step((struct step){.kind = STREAM_UNDO});
    }
    if (undoes && below(5) == 0) {
        add_step((struct step){.kind = STREAM_CUT});
        return;
    }
    memcpy(&world.rows[world.row_count], kept, count * sizeof(kept[0]));
    world.row_count += count;
    add_step((struct step){.kind = STREAM_COMMIT});
}

static bool is_failing(struct err *err)
{
    world.failed = world.fails && below(300) == 0;
    if (world.failed)
        err_set(err, "the connection is lost");
    return world.failed;
}

static enum rc fake_open(void *ctx, const struct stream_position *from, struct err *err)
{
    (void)ctx;
    world.opens++;
    if (is_failing(err))
        return RC_RETRY;
    /* As the server's GTID of the transaction in which reading begins. */
    if (from->rows_done > 0)
        assert_int_equal(strtoull(from->gtid, NULL, 10), from->offset);
    world.start = world.at = (size_t)from->offset;
    world.skip = from->rows_done;
    world.number = 0;
    return RC_OK;
}

static enum rc fake_next(void *ctx, struct stream_change *change, struct err *err)
{
    static char bytes[ROW_BYTES_MAX];
    bool counts_only = change->counts_only;
    const struct step *step;

    (void)ctx;
    memset(bytes, 0xa5, sizeof(bytes));
    if (is_failing(err))
        return RC_RETRY;
    memset(change, 0, sizeof(*change));
    if (world.at == world.count || (world.pauses && below(5) == 0))
        return RC_OK;
    do {
        step = &world.steps[world.at++];
        change->kind = step->kind;
        if (step->kind == STREAM_COMMIT || step->kind == STREAM_CUT) {
            world.start = world.at;
            world.number = world.skip = 0;
            return RC_OK;
        }
        world.number = step->kind == STREAM_ROW ? world.number + 1 : step->number;
        change->number = world.number;
    } while (step->kind == STREAM_ROW && world.number <= world.skip);
    if (step->kind == STREAM_ROW && !counts_only) {
        memcpy(bytes, &step->id, sizeof(step->id));
        change->row.payload = (struct bytes){bytes, step->bytes};
    }
    return RC_OK;
}

static enum rc fake_position(void *ctx, struct stream_position *position, struct err *err)
{
    (void)ctx;
    if (is_failing(err))
        return RC_RETRY;
    position->offset = world.start;
    snprintf(position->gtid, sizeof(position->gtid), "%zu", world.start);
    return RC_OK;
}

static const struct stream_ops ops = {
    .open = fake_open, .next = fake_next, .position = fake_position};

static struct stream_batches batches;
static struct relay_batch batch;
static struct err err;

static int setup(void **state)
{
    (void)state;
    memset(&world, 0, sizeof(world));
    world.rng = 1;
    assert_int_equal(stream_batches_init(&batches, &ops, BATCH_ROWS, BATCH_BYTES, &err), RC_OK);
    assert_int_equal(relay_batch_init(&batch, BATCH_ROWS, BATCH_BYTES, &err), RC_OK);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    stream_batches_done(&batches);
    relay_batch_done(&batch);
    return 0;
}

static unsigned id_of(const struct relay_row *row)
{
    unsigned id;

    memcpy(&id, row->payload.data, sizeof(id));
    return id;
}

/* A position that was given, and the committed rows before it. */
struct given {
    struct stream_position position;
    size_t rows;
};

static struct given given[POSITIONS_MAX];
static size_t given_count;

/* Most often the last one, as a reader does that lost its connection. */
static const struct given *choose_position(void)
{
    return &given[below(10) == 0 ? below(given_count) : given_count - 1];
}

static void open_at(const struct given *from, size_t *row)
{
    *row = from->rows;
    while (stream_batches_open(&batches, &from->position, &err) != RC_OK)
        assert_true(world.failed);
}

/* Reads to the end of the log, now and then from an earlier position again. */
static void read_log(void)
{
    size_t row = 0;
    bool more = true;

    given_count = 1;
    given[0] = (struct given){.rows = 0};
    open_at(&given[0], &row);
    while (world.at < world.count || more || row < world.row_count) {
        struct given *next = &given[given_count];
        enum rc rc = stream_batches_fill(&batches, &batch, 1 + (size_t)below(BATCH_ROWS),
                                         &next->position, &more, &err);

        if (rc != RC_OK) {
            if (!world.failed)
                fail_msg("%s", err.text);
            assert_int_equal(batch.count, 0);
            open_at(choose_position(), &row);
            more = true;
            continue;
        }
        for (size_t i = 0; i < batch.count; i++, row++) {
            assert_true(row < world.row_count);
            assert_int_equal(id_of(&batch.rows[i]), world.rows[row]);
        }
        next->rows = row;
        if (given_count + 1 < POSITIONS_MAX)
            given_count++;
        if (world.pauses && below(50) == 0)
            open_at(choose_position(), &row);
    }
    assert_int_equal(row, world.row_count);
}

static void read_log_of(size_t transactions, size_t rows_max, unsigned undo_share)
{
    world.count = world.row_count = 0;
    for (size_t i = 0; i < transactions; i++)
        add_transaction((size_t)below(rows_max + 1), below(100) < undo_share);
    read_log();
}

static void rows_of_any_log_are_passed_on_once_and_in_order(void **state)
{
    (void)state;
    for (uint64_t round = 0; round < ROUNDS; round++) {
        static const size_t rows_max[] = {1, 5, BATCH_ROWS, MANY_ROWS / 2};
        static const unsigned undo_shares[] = {0, 30, 100};

        world.rng = round + 1;
        world.pauses = below(2) == 0;
        world.fails = below(2) == 0;
        read_log_of(1 + (size_t)below(12), rows_max[below(4)], undo_shares[below(3)]);
    }
}

static void add_many_rows(void)
{
    for (size_t i = 0; i < MANY_ROWS; i++)
        add_step((struct step){.kind = STREAM_ROW, .id = (unsigned)i + 1, .bytes = 8});
}

static void add_large_transaction(void)
{
    add_many_rows();
    add_step((struct step){.kind = STREAM_COMMIT});
    for (size_t i = 0; i < MANY_ROWS; i++)
        world.rows[world.row_count++] = (unsigned)i + 1;
}

static void a_large_transaction_is_read_twice(void **state)
{
    (void)state;
    add_large_transaction();
    read_log();
    assert_int_equal(world.opens, 2);
}

/* The one that follows it is large, too, and loses nothing. */
static void a_large_transaction_that_is_cut_off_passes_nothing_on(void **state)
{
    (void)state;
    add_many_rows();
    add_step((struct step){.kind = STREAM_CUT});
    add_large_transaction();
    read_log();
    assert_int_equal(world.opens, 2);
}

/* It is larger than a batch, and nothing of it stays: it need not be read again. */
static void a_large_transaction_that_is_rolled_back_is_read_once(void **state)
{
    (void)state;
    add_many_rows();
    add_step((struct step){.kind = STREAM_UNDO});
    add_step((struct step){.kind = STREAM_COMMIT});
    add_transaction(3, false);
    read_log();
    assert_int_equal(world.opens, 1);
}

static void rows_wait_for_their_commit(void **state)
{
    const struct given begin = {.rows = 0};
    struct stream_position position = {0};
    size_t row;
    bool more;

    (void)state;
    for (unsigned id = 1; id <= 3; id++)
        add_step((struct step){.kind = STREAM_ROW, .id = id, .bytes = 8});
    open_at(&begin, &row);
    assert_int_equal(stream_batches_fill(&batches, &batch, 1, &position, &more, &err), RC_OK);
    assert_int_equal(batch.count, 0);
    assert_false(more);
    assert_int_equal(position.offset, 0);
    assert_int_equal(position.rows_done, 0);
    add_step((struct step){.kind = STREAM_COMMIT});
    assert_int_equal(stream_batches_fill(&batches, &batch, 1, &position, &more, &err), RC_OK);
    assert_int_equal(batch.count, 3);
    assert_int_equal(position.offset, 4);
    assert_int_equal(position.rows_done, 0);
}

static void a_row_that_fits_into_no_batch_is_refused(void **state)
{
    const struct given begin = {.rows = 0};
    size_t row;
    bool more;

    (void)state;
    add_step((struct step){.kind = STREAM_ROW, .id = 1, .bytes = BATCH_BYTES + 1});
    add_step((struct step){.kind = STREAM_COMMIT});
    open_at(&begin, &row);
    assert_int_equal(stream_batches_fill(&batches, &batch, 1, NULL, &more, &err), RC_FATAL);
    assert_string_equal(err.text,
                        "a row of 401 bytes does not fit into a batch of 400, even without its "
                        "payload: set relay.read_bytes_max above its size");
}

/* A long stretch of the log without rows for the lane comes in parts. */
static void a_call_is_bounded(void **state)
{
    const struct given begin = {.rows = 0};
    struct stream_position position = {0};
    bool more = true;
    size_t calls = 0;
    size_t row;

    (void)state;
    for (size_t i = 0; i < STEPS_MAX; i++)
        add_step((struct step){.kind = STREAM_COMMIT});
    open_at(&begin, &row);
    for (; more; calls++)
        assert_int_equal(stream_batches_fill(&batches, &batch, 1, &position, &more, &err), RC_OK);
    assert_int_equal(calls, 2);
    assert_int_equal(position.offset, STEPS_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(rows_of_any_log_are_passed_on_once_and_in_order, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_large_transaction_is_read_twice, setup, teardown),
        cmocka_unit_test_setup_teardown(a_large_transaction_that_is_cut_off_passes_nothing_on,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(a_large_transaction_that_is_rolled_back_is_read_once, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(rows_wait_for_their_commit, setup, teardown),
        cmocka_unit_test_setup_teardown(a_row_that_fits_into_no_batch_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(a_call_is_bounded, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
