/* SPDX-License-Identifier: MIT */
/* The rows of a replay from a model of a binary log. */
#include "outbox/relay/replay/replay_log.h"

#include "common/hash.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define TRANSACTIONS 60
#define FILE_TRANSACTIONS 10 /* of a file */
#define TRANSACTION_BYTES 100
#define ROWS_MAX 20 /* of a batch */
#define ROWS_ALL 4000
#define KEYS 3
#define KEY_ANY KEYS

/* A transaction begins a second after the one before, at the time of its number. */
struct model {
    struct replay_log log;
    struct relay_batch batch;
    struct err err;
    uint64_t rng;
    unsigned faults; /* thousandths of calls that fail */
    size_t count;    /* of transactions */
    uint64_t rows[TRANSACTIONS];
    bool is_published[TRANSACTIONS];
    size_t at; /* the stream: the transaction, and the row in it */
    uint64_t row;
    size_t reads_most; /* the last transaction that was read */
    struct binlog_gtid gtid;
    char id[48];
    char key[16];
    struct replay_log_options options;
};

static struct model model;

static bool chance(unsigned thousandths)
{
    return thousandths > 0 && rng_next(&model.rng) % 1000 < thousandths;
}

static void name_file(char file[BINLOG_FILE_SIZE], size_t transaction)
{
    snprintf(file, BINLOG_FILE_SIZE, "bin.%06zu", transaction / FILE_TRANSACTIONS + 1);
}

static uint64_t offset_of(size_t transaction)
{
    return 4 + transaction % FILE_TRANSACTIONS * TRANSACTION_BYTES;
}

static enum rc open_stream(void *ctx, const struct stream_position *from, struct err *err)
{
    size_t file = 0;

    (void)ctx;
    if (chance(model.faults))
        return err_fail(err, RC_RETRY, 0, "the server is away");
    assert_false(from->by_gtid);
    assert_int_equal(sscanf(from->file, "bin.%zu", &file), 1);
    model.at = (file - 1) * FILE_TRANSACTIONS + (from->offset - 4) / TRANSACTION_BYTES;
    assert_int_equal(offset_of(model.at), from->offset);
    model.row = 0;
    return RC_OK;
}

static struct bytes text_of(const char *text)
{
    return (struct bytes){text, strlen(text)};
}

static void make_row(struct relay_row *row)
{
    snprintf(model.id, sizeof(model.id), "%zu.%" PRIu64, model.at, model.row);
    snprintf(model.key, sizeof(model.key), "key-%" PRIu64, model.row % KEYS);
    memset(row, 0, sizeof(*row));
    row->id = text_of(model.id);
    row->aggregate_id = text_of(model.key);
    row->type = text_of("type");
}

static enum rc next_change(void *ctx, struct stream_change *change, struct err *err)
{
    (void)ctx;
    if (chance(model.faults))
        return err_fail(err, RC_RETRY, 0, "the stream is lost");
    memset(change, 0, sizeof(*change));
    if (model.at == model.count || chance(model.faults))
        return RC_OK;
    if (model.at > model.reads_most)
        model.reads_most = model.at;
    if (model.row < model.rows[model.at]) {
        change->kind = STREAM_ROW;
        change->number = ++model.row;
        make_row(&change->row);
        return RC_OK;
    }
    change->kind = STREAM_COMMIT;
    model.at++;
    model.row = 0;
    return RC_OK;
}

static enum rc write_position(void *ctx, struct stream_position *position, struct err *err)
{
    (void)ctx;
    (void)err;
    name_file(position->file, model.at);
    position->offset = offset_of(model.at);
    return RC_OK;
}

static struct stream_place get_place(void *ctx)
{
    (void)ctx;
    model.gtid.sequence = model.at;
    return (struct stream_place){
        .gtid = &model.gtid,
        .time_s = (int64_t)model.at,
        .file_time_s = (int64_t)(model.at / FILE_TRANSACTIONS * FILE_TRANSACTIONS),
    };
}

static bool has_ended(void *ctx)
{
    (void)ctx;
    return model.at == model.count;
}

static bool is_published(void *ctx, const struct stream_place *place)
{
    (void)ctx;
    return model.is_published[place->gtid->sequence];
}

static void begin(void)
{
    const struct replay_log_ops ops = {
        .log = {.stream = {.open = open_stream, .next = next_change, .position = write_position},
                .place = get_place,
                .has_ended = has_ended},
        .is_published = is_published};

    assert_int_equal(replay_log_init(&model.log, &model.options, &ops, &model.err), RC_OK);
}

static int clear(void **state)
{
    (void)state;
    memset(&model, 0, sizeof(model));
    model.rng = 7;
    model.count = TRANSACTIONS;
    for (size_t i = 0; i < TRANSACTIONS; i++) {
        model.rows[i] = i % 7 == 3 ? 90 : i % 5;
        model.is_published[i] = true;
    }
    model.options = (struct replay_log_options){
        .from_ms = 10000, .to_ms = 40000, .rows_max = ROWS_MAX, .batch_bytes = 1 << 16};
    name_file(model.options.after.at.file, 0);
    model.options.after.at.offset = offset_of(0);
    snprintf(model.options.after.server, sizeof(model.options.after.server), "server");
    name_file(model.options.end.file, TRANSACTIONS);
    model.options.end.offset = offset_of(TRANSACTIONS);
    return relay_batch_init(&model.batch, ROWS_MAX, 1 << 16, &model.err) == RC_OK ? 0 : -1;
}

static int finish(void **state)
{
    (void)state;
    replay_log_done(&model.log);
    relay_batch_done(&model.batch);
    return 0;
}

/* The ids of the rows that are to come, in their order. key: KEY_ANY, or the number of the only
 * one.
 */
struct wanted {
    char ids[ROWS_ALL][16];
    size_t count;
};

static struct wanted wanted;

static void want(size_t from, size_t to, uint64_t key)
{
    wanted.count = 0;
    for (size_t i = from; i < to; i++)
        for (uint64_t row = 1; row <= model.rows[i] && model.is_published[i]; row++)
            if (key == KEY_ANY || row % KEYS == key)
                snprintf(wanted.ids[wanted.count++], sizeof(wanted.ids[0]), "%zu.%" PRIu64, i, row);
}

/* Takes some rows of the batch, and returns the number of rows that were taken before and now. */
static size_t take_rows(const struct replay_source *source, size_t taken, size_t most)
{
    struct relay_batch *batch = &model.batch;

    for (; batch->next < batch->count && most > 0; batch->next++, most--) {
        const struct relay_row *row = &batch->rows[batch->next];

        assert_true(taken < wanted.count);
        assert_int_equal(row->id.len, strlen(wanted.ids[taken]));
        assert_memory_equal(row->id.data, wanted.ids[taken++], row->id.len);
        source->pass(source->ctx, batch);
    }
    source->pass(source->ctx, batch);
    return taken;
}

static enum rc read_some(const struct replay_source *source, bool *complete)
{
    enum rc rc = source->read(source->ctx, &model.batch, complete, &model.err);

    if (rc == RC_RETRY)
        relay_batch_reset(&model.batch);
    return rc;
}

/* Reads to the end, from `taken` rows on. */
static void read_all(size_t taken)
{
    struct replay_source source = replay_log_source(&model.log);
    bool complete = false;

    while (!complete) {
        enum rc rc = read_some(&source, &complete);

        assert_true(rc == RC_OK || rc == RC_RETRY);
        taken = take_rows(&source, taken, SIZE_MAX);
    }
    assert_int_equal(taken, wanted.count);
}

static void the_rows_of_the_period_come_in_their_order(void **state)
{
    (void)state;
    want(10, 40, KEY_ANY);
    begin();
    read_all(0);
    assert_int_equal(model.reads_most, TRANSACTIONS - 1);
}

static void rows_of_one_key_are_selected(void **state)
{
    (void)state;
    want(10, 40, 2);
    model.options.key = "key-2";
    begin();
    read_all(0);
    replay_log_done(&model.log);
    wanted.count = 0;
    model.options.type = "typ";
    begin();
    read_all(0);
}

static void transactions_that_the_lane_has_not_published_are_left_out(void **state)
{
    (void)state;
    model.is_published[12] = model.is_published[17] = false;
    want(10, 40, KEY_ANY);
    begin();
    read_all(0);
}

static void nothing_is_read_behind_the_end(void **state)
{
    (void)state;
    name_file(model.options.end.file, 25);
    model.options.end.offset = offset_of(25);
    want(10, 25, KEY_ANY);
    for (size_t i = 25; i < TRANSACTIONS; i++)
        model.is_published[i] = false;
    begin();
    read_all(0);
    assert_true(model.reads_most < 40);
}

static void a_file_that_was_begun_long_after_the_period_ends_it(void **state)
{
    (void)state;
    model.options.from_ms = -REPLAY_LOG_SLACK_MS;
    model.options.to_ms = 20000 - REPLAY_LOG_SLACK_MS;
    wanted.count = 0;
    begin();
    read_all(0);
    assert_in_range(model.reads_most, 19, 40);
}

/* Streams are lost, and the process is killed between any two rows: the next one goes on with the
 * first row that is not done. */
static void a_place_names_the_row_that_comes_next(void **state)
{
    (void)state;
    want(10, 40, KEY_ANY);
    for (uint64_t seed = 1; seed <= 200; seed++) {
        struct replay_log_options options = model.options;
        size_t taken = 0;
        bool complete = false;

        model.rng = seed;
        model.faults = seed % 2 == 0 ? 15 : 0;
        while (!complete) {
            struct replay_source source;
            uint64_t reads = rng_next(&model.rng) % 40;
            enum rc rc = RC_OK;

            begin();
            source = replay_log_source(&model.log);
            while (!complete && reads-- > 0) {
                rc = read_some(&source, &complete);
                assert_true(rc == RC_OK || rc == RC_RETRY);
                taken = take_rows(&source, taken, reads > 0 ? SIZE_MAX : seed % ROWS_MAX);
            }
            model.options.after = model.log.place;
            replay_log_done(&model.log);
            relay_batch_reset(&model.batch);
        }
        assert_int_equal(taken, wanted.count);
        model.options = options;
    }
}

static size_t asked;

/* Each file is begun 1000 s after the one before. */
static enum rc give_begin(void *ctx, size_t number, int64_t *begin_ms, struct err *err)
{
    const size_t *failing = ctx;

    asked++;
    if (number == *failing)
        return err_fail(err, RC_RETRY, 0, "the server is away");
    *begin_ms = (int64_t)(number + 1) * 1000000;
    return RC_OK;
}

static void the_file_to_begin_with_is_found(void **state)
{
    size_t failing = SIZE_MAX;
    const struct replay_log_ops ops = {.ctx = &failing, .file_begin = give_begin};
    int64_t oldest_ms = 0;
    size_t number = 0;
    struct err err = {0};

    (void)state;
    assert_int_equal(replay_log_find_file(&ops, 1000, 999999, &number, &oldest_ms, &err),
                     RC_REJECT);
    assert_int_equal(oldest_ms, 1000000);
    assert_int_equal(replay_log_find_file(&ops, 1000, 1000000, &number, &oldest_ms, &err), RC_OK);
    assert_int_equal(number, 0);
    asked = 0;
    assert_int_equal(replay_log_find_file(&ops, 1000, 500000000 + REPLAY_LOG_SLACK_MS, &number,
                                          &oldest_ms, &err),
                     RC_OK);
    assert_int_equal(number, 499);
    assert_true(asked < 13);
    assert_int_equal(replay_log_find_file(&ops, 1000, INT64_MAX, &number, &oldest_ms, &err), RC_OK);
    assert_int_equal(number, 999);
    assert_int_equal(replay_log_find_file(&ops, 1, INT64_MAX, &number, &oldest_ms, &err), RC_OK);
    assert_int_equal(number, 0);
    failing = 500;
    number = 7;
    assert_int_equal(replay_log_find_file(&ops, 1000, 700000000, &number, &oldest_ms, &err),
                     RC_RETRY);
    assert_int_equal(number, 7);
}

static void a_place_is_read_as_it_was_written(void **state)
{
    static const char *const bad[] = {"",
                                      "@",
                                      "bin.1/4/0@",
                                      "bin.1/4@s",
                                      "/4/0@s",
                                      "bin.1/3/0@s",
                                      "1/2",
                                      "bin.1/4/0",
                                      "bin.1/4294967296/0@s",
                                      "bin.1/4/-1@s",
                                      "bin.1/4/0x@s",
                                      "bin.1//0@s",
                                      "b/4 /0@s"};
    struct replay_log_place place;
    struct buf out = {0};

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_false(replay_log_place_read(&place, bad[i]));
    assert_true(replay_log_place_read(&place, "my-bin.000012/4294967295/17@a-b-1"));
    assert_string_equal(place.at.file, "my-bin.000012");
    assert_int_equal(place.at.offset, UINT32_MAX);
    assert_int_equal(place.rows, 17);
    assert_string_equal(place.server, "a-b-1");
    replay_log_place_put(&place, &out);
    assert_string_equal(buf_text(&out), "my-bin.000012/4294967295/17@a-b-1");
    buf_done(&out);
}

static void files_with_more_digits_come_later(void **state)
{
    (void)state;
    assert_true(stream_place_compare("bin.999999", 900, "bin.1000000", 4) < 0);
    assert_true(stream_place_compare("bin.000011", 4, "bin.000010", 900) > 0);
    assert_true(stream_place_compare("bin.000010", 4, "bin.000010", 900) < 0);
    assert_int_equal(stream_place_compare("bin.000010", 4, "bin.000010", 4), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_rows_of_the_period_come_in_their_order, clear, finish),
        cmocka_unit_test_setup_teardown(rows_of_one_key_are_selected, clear, finish),
        cmocka_unit_test_setup_teardown(transactions_that_the_lane_has_not_published_are_left_out,
                                        clear, finish),
        cmocka_unit_test_setup_teardown(nothing_is_read_behind_the_end, clear, finish),
        cmocka_unit_test_setup_teardown(a_file_that_was_begun_long_after_the_period_ends_it, clear,
                                        finish),
        cmocka_unit_test_setup_teardown(a_place_names_the_row_that_comes_next, clear, finish),
        cmocka_unit_test(the_file_to_begin_with_is_found),
        cmocka_unit_test(a_place_is_read_as_it_was_written),
        cmocka_unit_test(files_with_more_digits_come_later),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
