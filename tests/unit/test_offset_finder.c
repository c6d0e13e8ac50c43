/* SPDX-License-Identifier: MIT */
/* Offsets of Debezium and positions of lanes on a log that is made by hand: transactions with
 * events, of which some have rows of the table. tests/e2e/test_adopt.py does it with real ones. */
#include "outbox/adopt/offset_finder.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define EVENTS_MAX 8
#define HEADER 50 /* of GTID to BEGIN */

/* Rows of the table in each event; -1: no further event. undo: to so many rows, at the end. */
struct transaction {
    const char *file;
    uint64_t begin;
    int rows[EVENTS_MAX];
    int undo; /* 0: none */
};

static const struct transaction log_of_three[] = {
    {"b.1", 200, {0, 0, 2, 0, 3, 0, -1}, 0},
    {"b.1", 1000, {0, 0, 0, -1}, 0},
    {"b.2", 157, {0, 0, 1, 0, -1}, 0},
};

static const struct transaction *transactions;
static size_t count;
static size_t at;      /* the transaction */
static int event;      /* in it */
static int event_rows; /* of the event so far */
static uint64_t rows;  /* of the transaction so far */
static bool undone;
static bool ended;
static struct stream_place place;
static struct connect_offset offset;
static struct stream_position position;
static struct err err;

static uint64_t end_of(size_t number)
{
    return transactions[number].begin + 500;
}

/* GTIDs are the number of transactions. */
static enum rc open_log(void *ctx, const struct stream_position *from, struct err *open_err)
{
    char text[16];

    (void)ctx;
    (void)open_err;
    snprintf(text, sizeof(text), "%.*s", (int)from->before.len,
             from->before.data ? from->before.data : "");
    at = 0;
    if (from->by_gtid)
        sscanf(text, "%zu", &at);
    while (
        !from->by_gtid && at < count &&
        (strcmp(transactions[at].file, from->file) < 0 ||
         (strcmp(transactions[at].file, from->file) == 0 && transactions[at].begin < from->offset)))
        at++;
    position.by_gtid = from->by_gtid;
    event = event_rows = 0;
    rows = 0;
    undone = ended = false;
    memset(&place, 0, sizeof(place));
    place.file = "";
    return RC_OK;
}

static void end_transaction(struct stream_change *change)
{
    change->kind = STREAM_COMMIT;
    change->number = rows;
    at++;
    event = event_rows = 0;
    rows = 0;
    undone = false;
}

static enum rc next_change(void *ctx, struct stream_change *change, struct err *next_err)
{
    const struct transaction *now = &transactions[at];

    (void)ctx;
    (void)next_err;
    memset(change, 0, sizeof(*change));
    ended = at == count;
    if (ended)
        return RC_OK;
    while (now->rows[event] >= 0 && event_rows == now->rows[event]) {
        event++;
        event_rows = 0;
    }
    place = (struct stream_place){.file = now->file,
                                  .begin = now->begin,
                                  .body_begin = now->begin + HEADER,
                                  .events = (uint64_t)event + (now->rows[event] >= 0),
                                  .event_rows = (uint64_t)event_rows + 1,
                                  .read_end = end_of(at)};
    if (now->rows[event] >= 0) {
        event_rows++;
        change->kind = STREAM_ROW;
        change->number = ++rows;
        return RC_OK;
    }
    if (now->undo > 0 && !undone) {
        undone = true;
        change->kind = STREAM_UNDO;
        change->number = rows = (uint64_t)now->undo;
        return RC_OK;
    }
    end_transaction(change);
    return RC_OK;
}

static enum rc write_position(void *ctx, struct stream_position *to, struct err *position_err)
{
    bool inside = rows > 0;

    (void)ctx;
    (void)position_err;
    buf_reset(&to->before);
    buf_print(&to->before, "%zu", at);
    snprintf(to->file, sizeof(to->file), "%s",
             at < count && (inside || at == 0) ? transactions[at].file : transactions[at - 1].file);
    to->offset = inside ? transactions[at].begin : at > 0 ? end_of(at - 1) : 4;
    snprintf(to->gtid, sizeof(to->gtid), "%s", inside ? "g" : "");
    return RC_OK;
}

static struct stream_place get_place(void *ctx)
{
    (void)ctx;
    return place;
}

static bool has_ended(void *ctx)
{
    (void)ctx;
    return ended;
}

static const struct stream_log made_log = {
    .stream = {.open = open_log, .next = next_change, .position = write_position},
    .place = get_place,
    .has_ended = has_ended,
};

static void use(const struct transaction *list, size_t number)
{
    transactions = list;
    count = number;
}

static int set_up(void **state)
{
    (void)state;
    use(log_of_three, 3);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    connect_offset_done(&offset);
    buf_done(&position.before);
    memset(&offset, 0, sizeof(offset));
    memset(&position, 0, sizeof(position));
    return 0;
}

static enum rc find(const char *gtids, const char *file, uint64_t pos, uint64_t events,
                    uint64_t row)
{
    tear_down(NULL);
    if (gtids)
        buf_text_put(&offset.gtids, gtids);
    offset.by_gtid = gtids != NULL;
    snprintf(offset.file, sizeof(offset.file), "%s", file);
    offset.pos = pos;
    offset.event = events;
    offset.row = row;
    return offset_find_position(&made_log, &offset, &position, &err);
}

static void expect(enum rc rc, const char *before, uint64_t rows_done)
{
    if (rc != RC_OK)
        fail_msg("%s", err.text);
    assert_string_equal(buf_text(&position.before), before);
    assert_int_equal(position.rows_done, rows_done);
    assert_int_equal(position.gtid[0] != '\0', rows_done > 0);
}

static void expect_refused(enum rc rc, const char *words)
{
    assert_int_equal(rc, RC_REJECT);
    if (!strstr(err.text, words))
        fail_msg("'%s' does not say '%s'", err.text, words);
}

static void rows_of_events_that_are_done_are_counted(void **state)
{
    (void)state;
    expect(find("0", "b.1", 250, 0, 0), "0", 0);
    expect(find("0", "b.1", 250, 1, 0), "0", 0);
    expect(find("0", "b.1", 250, 2, 1), "0", 1);
    expect(find("0", "b.1", 250, 2, 2), "0", 2);
    expect(find("0", "b.1", 250, 3, 0), "0", 2);
    expect(find("0", "b.1", 250, 4, 2), "0", 4);
    /* As on MariaDB. */
    expect(find("0", "b.1", 200, 4, 1), "0", 3);
}

static void behind_its_last_row_the_transaction_is_done(void **state)
{
    (void)state;
    expect(find("0", "b.1", 250, 4, 3), "1", 0);
    expect(find("0", "b.1", 250, 6, 0), "1", 0);
    expect(find("1", "b.1", 1050, 2, 0), "2", 0);
    expect(find("2", "b.2", 207, 2, 1), "3", 0);
}

static void events_are_those_of_one_server(void **state)
{
    (void)state;
    expect_refused(find("0", "b.7", 250, 2, 1), "another server");
    expect_refused(find("0", "b.1", 251, 2, 1), "another server");
    expect(find("0", "b.7", 9, 1, 0), "0", 0);
    expect_refused(find("3", "b.2", 700, 2, 1), "the log ends before");
    expect(find("3", "b.2", 700, 0, 0), "3", 0);
}

static void a_place_in_a_file_is_between_transactions(void **state)
{
    (void)state;
    expect(find(NULL, "b.1", 200, 0, 0), "0", 0);
    expect(find(NULL, "b.1", 250, 2, 1), "0", 1);
    expect(find(NULL, "b.1", 250, 4, 3), "1", 0);
    expect(find(NULL, "b.1", 700, 0, 0), "2", 0);
    expect(find(NULL, "b.1", 1500, 0, 0), "2", 0);
    expect(find(NULL, "b.2", 4, 0, 0), "2", 0);
    expect(find(NULL, "b.2", 657, 0, 0), "3", 0);
    expect_refused(find(NULL, "b.1", 300, 0, 0), "not at the begin");
    expect_refused(find(NULL, "b.1", 1499, 0, 0), "not at the begin");
    expect_refused(find(NULL, "b.2", 658, 0, 0), "not at the begin");
}

static void rows_that_are_rolled_back_are_not_done(void **state)
{
    static const struct transaction with_undo[] = {{"b.1", 200, {0, 0, 3, 0, -1}, 1}};

    (void)state;
    use(with_undo, 1);
    expect(find("0", "b.1", 250, 2, 2), "1", 0);
}

static enum rc go_back(const char *before, uint64_t rows_done)
{
    enum rc rc;

    tear_down(NULL);
    position.by_gtid = true;
    buf_text_put(&position.before, before);
    position.rows_done = rows_done;
    position.time_s = 17;
    rc = offset_find_offset(&made_log, &position, &offset, &err);
    if (rc == RC_OK)
        assert_string_equal(buf_text(&offset.gtids), before);
    return rc;
}

static void a_position_becomes_the_offset_that_leads_to_it(void **state)
{
    (void)state;
    for (uint64_t done = 1; done < 5; done++) {
        assert_int_equal(go_back("0", done), RC_OK);
        assert_string_equal(offset.file, "b.1");
        assert_int_equal(offset.pos, 250);
        assert_int_equal(offset.time_s, 17);
        buf_reset(&position.before);
        assert_int_equal(offset_find_position(&made_log, &offset, &position, &err), RC_OK);
        assert_int_equal(position.rows_done, done);
    }
    assert_int_equal(go_back("1", 0), RC_OK);
    assert_int_equal(offset.event, 0);
    assert_int_equal(offset.row, 0);
    assert_int_equal(offset.pos, 1000);
    assert_int_equal(go_back("3", 0), RC_OK);
    assert_string_equal(offset.file, "b.2");
    assert_int_equal(offset.pos, 657);
}

static void a_position_that_the_log_does_not_have_is_refused(void **state)
{
    (void)state;
    expect_refused(go_back("0", 6), "does not have the 6 rows");
    expect_refused(go_back("3", 1), "does not have the 1 rows");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(rows_of_events_that_are_done_are_counted, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(behind_its_last_row_the_transaction_is_done, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(events_are_those_of_one_server, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_place_in_a_file_is_between_transactions, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(rows_that_are_rolled_back_are_not_done, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_position_becomes_the_offset_that_leads_to_it, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_position_that_the_log_does_not_have_is_refused, set_up,
                                        tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
