/* SPDX-License-Identifier: MIT */
/* The engine of a replay on a model of entries, rows and a broker, in virtual time. */
#include "outbox/relay/replay/replay.h"

#include "outbox/relay/replay/replay_table.h"

#include "common/hash.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#define ENTRIES 4
#define ENTRY_ROWS 3000
#define ROWS INT64_C(12000) /* of all entries */
#define FLIGHT_MAX 4096
#define STEPS_MAX 2000000

/* Entry n has the seqs n + 1, n + 1 + ENTRIES, ...: the entries overlap. */
struct model {
    struct replay replay;
    struct replay_table table;
    struct replay_place after;
    struct err err;
    int64_t now_ms;
    uint64_t rng;
    unsigned faults; /* thousandths of calls that fail */
    bool row_is_bad[ROWS + 1];
    bool row_is_gone[ROWS + 1];
    size_t published[ROWS + 1];
    size_t named[ROWS + 1];
    int64_t last_published; /* number of the row in the order of the replay */
    size_t disorders;
    uint64_t tickets[FLIGHT_MAX];
    int64_t seqs[FLIGHT_MAX];
    size_t flight;
    size_t flight_most;
    size_t sent;
    bool refused; /* the producer sends nothing any more */
    bool silent;
    bool topic_refused;
    char last_topic[64];
};

static struct model model;

static bool chance(unsigned thousandths)
{
    return thousandths > 0 && rng_next(&model.rng) % 1000 < thousandths;
}

static enum rc fail_call(struct err *err)
{
    return err_fail(err, RC_RETRY, 0, "the server is away");
}

static enum rc give_entry(void *ctx, int64_t from, int64_t to, struct replay_entry *entry,
                          bool *found, struct err *err)
{
    static int64_t seqs[ENTRY_ROWS];
    int64_t number = from > 1 ? from : 1;

    (void)ctx;
    if (chance(model.faults))
        return fail_call(err);
    *found = number <= to && number <= ENTRIES;
    if (!*found)
        return RC_OK;
    for (int64_t i = 0; i < ENTRY_ROWS; i++)
        seqs[i] = number + i * ENTRIES;
    entry->number = number;
    buf_reset(&entry->seqs);
    seq_ranges_put(&entry->seqs, seqs, ENTRY_ROWS);
    return RC_OK;
}

static struct bytes text_of(const char *text)
{
    return (struct bytes){text, strlen(text)};
}

static bool give_row(int64_t seq, source_on_row on_row, void *ctx)
{
    char key[24];
    struct relay_row row = {.seq = seq, .table_seq = seq, .created_ms = seq * 1000};

    snprintf(key, sizeof(key), "key-%d", (int)(seq % 7));
    row.id = text_of("id");
    row.aggregate_type = text_of("kind");
    row.aggregate_id = text_of(key);
    row.type = text_of("type");
    return on_row(ctx, &row);
}

static enum rc give_rows(void *ctx, const struct seq_range *ranges, size_t count, size_t rows_max,
                         source_on_row on_row, void *on_row_ctx, struct err *err)
{
    size_t given = 0;

    (void)ctx;
    for (size_t i = 0; i < count; i++) {
        for (int64_t seq = ranges[i].from; seq <= ranges[i].to; seq++) {
            if (model.row_is_gone[seq])
                continue;
            if (chance(model.faults / 20 + (model.faults > 0 && given == 7)))
                return fail_call(err);
            if (given++ == rows_max || !give_row(seq, on_row, on_row_ctx))
                return RC_OK;
        }
    }
    return RC_OK;
}

static enum rc open_topic(void *ctx, const char *topic, size_t topic_index, struct err *err)
{
    (void)ctx;
    (void)topic_index;
    assert_int_equal(model.flight, 0);
    if (model.topic_refused)
        return err_fail(err, RC_REJECT, 0, "no such topic");
    snprintf(model.last_topic, sizeof(model.last_topic), "%s", topic);
    return chance(model.faults) ? fail_call(err) : RC_OK;
}

static enum rc send_row(void *ctx, const char *topic, size_t topic_index,
                        const struct relay_row *row, uint64_t ticket, struct err *err)
{
    (void)ctx;
    (void)topic;
    (void)topic_index;
    if (chance(model.faults / 10))
        return err_fail(err, RC_FATAL, 0, "the producer is finished");
    if (model.flight == FLIGHT_MAX)
        return fail_call(err);
    model.tickets[model.flight] = ticket;
    model.seqs[model.flight++] = row->seq;
    model.sent++;
    if (model.flight > model.flight_most)
        model.flight_most = model.flight;
    return RC_OK;
}

/* The place of a row in the order in which a replay publishes. */
static int64_t order_of(int64_t seq)
{
    return (seq - 1) % ENTRIES * ROWS + seq;
}

static void append_record(int64_t seq)
{
    if (model.published[seq]++ > 0)
        return;
    if (order_of(seq) < model.last_published)
        model.disorders++;
    model.last_published = order_of(seq);
}

/* A refused record refuses its whole request, here all that is in flight. */
static void report_all(broker_on_report on_report, void *ctx, bool fails)
{
    struct err err = {0};
    bool bad = false;
    size_t count = model.flight;

    model.flight = 0;
    for (size_t i = 0; i < count; i++)
        bad |= model.row_is_bad[model.seqs[i]];
    err_set(&err, bad ? "too large" : "gone");
    for (size_t i = 0; i < count; i++) {
        bool acked = !bad && !fails;

        if (acked)
            append_record(model.seqs[i]);
        on_report(ctx, model.tickets[i],
                  acked ? RC_OK
                  : bad ? RC_REJECT
                        : RC_RETRY,
                  acked ? NULL : &err);
    }
    model.refused |= bad;
}

static enum rc poll_reports(void *ctx, broker_on_report on_report, void *on_report_ctx,
                            struct err *err)
{
    (void)ctx;
    (void)err;
    if (!model.silent)
        report_all(on_report, on_report_ctx, chance(model.faults));
    return RC_OK;
}

static void purge(void *ctx)
{
    (void)ctx;
}

static void reset(void *ctx)
{
    (void)ctx;
    model.flight = 0;
    model.refused = false;
}

static void on_refused(void *ctx, const struct relay_row *row, const struct err *why)
{
    (void)ctx;
    assert_true(why->text[0]);
    model.named[row->seq]++;
}

static void begin(struct replay_options *options)
{
    const struct replay_table_ops ops = {NULL, give_entry, give_rows};
    struct replay_source source;
    const struct broker broker = {.topic_open = open_topic,
                                  .send = send_row,
                                  .poll = poll_reports,
                                  .purge = purge,
                                  .reset = reset};

    options->map = "";
    options->prefix = "event.";
    if (!options->rule)
        options->rule = options->regex = "";
    options->row_bytes_max = 1000;
    options->batch_bytes_max = 1 << 20;
    options->send_timeout_ms = 1000;
    options->on_refused = on_refused;
    replay_table_init(&model.table, &ops, model.after, ENTRIES);
    source = replay_table_source(&model.table);
    assert_int_equal(
        replay_init(&model.replay, options, &source, &broker, model.now_ms, 1, &model.err), RC_OK);
}

/* Runs up to so many steps. */
static enum rc run(size_t steps)
{
    enum rc rc = RC_OK;

    while (rc == RC_OK && !model.replay.ended && steps-- > 0) {
        int64_t wait_ms = 0;

        rc = replay_step(&model.replay, model.now_ms, &wait_ms, &model.err);
        model.now_ms += wait_ms;
    }
    return rc;
}

static int clear(void **state)
{
    (void)state;
    memset(&model, 0, sizeof(model));
    model.now_ms = 1000;
    model.rng = 7;
    return 0;
}

static void end(void)
{
    replay_done(&model.replay);
    replay_table_done(&model.table);
}

static int finish(void **state)
{
    (void)state;
    end();
    return 0;
}

static void assert_counts(int64_t published, int64_t refused)
{
    assert_true(model.replay.complete);
    assert_int_equal(model.replay.counts.published, published);
    assert_int_equal(model.replay.counts.refused, refused);
}

static void every_row_of_the_entries_is_published_in_order(void **state)
{
    struct replay_options options = {.rate = 0};

    (void)state;
    model.row_is_gone[5] = true; /* deleted meanwhile */
    begin(&options);
    assert_int_equal(run(STEPS_MAX), RC_OK);
    assert_counts(ROWS - 1, 0);
    assert_int_equal(model.replay.counts.read, ROWS - 1);
    assert_int_equal(model.disorders, 0);
    for (int64_t seq = 1; seq <= ROWS; seq++)
        assert_int_equal(model.published[seq], seq != 5);
    assert_string_equal(model.last_topic, "event.kind");
    assert_true(model.flight_most <= REPLAY_ROWS_MAX);
    assert_int_equal(model.replay.first.seq, 1);
    assert_int_equal(model.replay.last.seq, ROWS);
}

static void a_dry_run_sends_nothing(void **state)
{
    struct replay_options options = {.rate = 1, .dry_run = true, .topic = "other"};

    (void)state;
    begin(&options);
    assert_int_equal(run(STEPS_MAX), RC_OK);
    assert_counts(0, 0);
    assert_int_equal(model.replay.counts.read, ROWS);
    assert_int_equal(model.sent, 0);
}

static void the_rate_holds(void **state)
{
    struct replay_options options = {.rate = 1000, .topic = "other"};
    int64_t from_ms = model.now_ms;

    (void)state;
    begin(&options);
    assert_int_equal(run(STEPS_MAX), RC_OK);
    assert_counts(ROWS, 0);
    assert_in_range(model.now_ms - from_ms, ROWS - 300, ROWS + 3000);
    assert_string_equal(model.last_topic, "other");
}

static void a_refused_row_is_named_once_and_the_others_are_published(void **state)
{
    struct replay_options options = {.rate = 0};

    (void)state;
    model.row_is_bad[1] = model.row_is_bad[ROWS] = model.row_is_bad[77] = true;
    begin(&options);
    assert_int_equal(run(STEPS_MAX), RC_OK);
    assert_counts(ROWS - 3, 3);
    assert_int_equal(model.disorders, 0);
    for (int64_t seq = 1; seq <= ROWS; seq++) {
        assert_int_equal(model.published[seq] > 0, !model.row_is_bad[seq]);
        assert_int_equal(model.named[seq], model.row_is_bad[seq]);
    }
}

static void a_topic_that_cannot_be_made_refuses_its_rows(void **state)
{
    struct replay_options options = {.rate = 0};

    (void)state;
    model.topic_refused = true;
    begin(&options);
    assert_int_equal(run(STEPS_MAX), RC_OK);
    assert_counts(0, ROWS);
    assert_int_equal(model.sent, 0);
}

static void rows_of_keys_with_tasks_are_left_out(void **state)
{
    uint64_t topic = hash_bytes(HASH_START, "event.kind", strlen("event.kind"));
    uint64_t key = ordering_key_hash_of_row(topic, text_of("key-3"));
    struct replay_options options = {.rate = 0, .tasks_keys = &key, .tasks_key_count = 1};

    (void)state;
    begin(&options);
    assert_int_equal(run(STEPS_MAX), RC_OK);
    for (int64_t seq = 1; seq <= ROWS; seq++) {
        assert_int_equal(model.published[seq], seq % 7 != 3);
        assert_int_equal(model.named[seq], seq % 7 == 3);
    }
    assert_int_equal(model.replay.counts.left + model.replay.counts.published, ROWS);
}

static void the_rule_of_the_lane_makes_the_topic(void **state)
{
    struct replay_options options = {.rate = 0, .rule = "all.$1", .regex = "(ki).*"};

    (void)state;
    begin(&options);
    assert_int_equal(run(STEPS_MAX), RC_OK);
    assert_counts(ROWS, 0);
    assert_string_equal(model.last_topic, "all.ki");
}

/* Failures of all kinds; the process is killed now and then, and goes on at its last place. */
static void with_failures_and_kills_each_row_is_published_at_least_once(void **state)
{
    struct replay_options options = {.rate = 0};

    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        int64_t kills = 0;

        memset(&model, 0, sizeof(model));
        model.rng = seed;
        model.faults = 30;
        model.now_ms = 1000;
        do {
            begin(&options);
            assert_int_equal(run(kills++ < 10 ? rng_next(&model.rng) % 60 : STEPS_MAX), RC_OK);
            model.after = model.table.place;
            if (model.replay.complete)
                break;
            end();
            reset(NULL);
        } while (true);
        for (int64_t seq = 1; seq <= ROWS; seq++)
            assert_true(model.published[seq] > 0);
        assert_int_equal(model.disorders, 0);
        end();
    }
}

static void a_stop_waits_for_what_is_in_flight(void **state)
{
    struct replay_options options = {.rate = 0};
    struct replay_place place;

    (void)state;
    begin(&options);
    while (model.flight == 0)
        assert_int_equal(run(1), RC_OK);
    replay_stop(&model.replay);
    assert_int_equal(run(STEPS_MAX), RC_OK);
    assert_true(model.replay.ended);
    assert_false(model.replay.complete);
    assert_int_equal(model.replay.counts.published, model.sent);
    place = model.table.place;
    assert_int_equal(place.entry, 1);
    assert_int_equal(place.seq, 1 + (int64_t)(model.sent - 1) * ENTRIES);
}

static void it_gives_up_when_nothing_is_acknowledged_for_long(void **state)
{
    struct replay_options options = {.rate = 0};
    int64_t from_ms = model.now_ms;

    (void)state;
    model.silent = true;
    begin(&options);
    assert_int_equal(run(STEPS_MAX), RC_RETRY);
    assert_non_null(strstr(model.err.text, "has not acknowledged"));
    assert_in_range(model.now_ms - from_ms, REPLAY_GIVE_UP_MS, 2 * REPLAY_GIVE_UP_MS);
    assert_true(model.replay.ended);
    assert_int_equal(model.table.place.seq, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_row_of_the_entries_is_published_in_order, clear,
                                        finish),
        cmocka_unit_test_setup_teardown(a_dry_run_sends_nothing, clear, finish),
        cmocka_unit_test_setup_teardown(the_rate_holds, clear, finish),
        cmocka_unit_test_setup_teardown(a_refused_row_is_named_once_and_the_others_are_published,
                                        clear, finish),
        cmocka_unit_test_setup_teardown(a_topic_that_cannot_be_made_refuses_its_rows, clear,
                                        finish),
        cmocka_unit_test_setup_teardown(rows_of_keys_with_tasks_are_left_out, clear, finish),
        cmocka_unit_test_setup_teardown(the_rule_of_the_lane_makes_the_topic, clear, finish),
        cmocka_unit_test(with_failures_and_kills_each_row_is_published_at_least_once),
        cmocka_unit_test_setup_teardown(a_stop_waits_for_what_is_in_flight, clear, finish),
        cmocka_unit_test_setup_teardown(it_gives_up_when_nothing_is_acknowledged_for_long, clear,
                                        finish),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
