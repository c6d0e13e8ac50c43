/* SPDX-License-Identifier: MIT */
/* Streams that are made by hand, of what a server sends only when something goes wrong: what is
 * undone, what is refused, and where reading can begin again. tests/e2e/test_binlog_changes.py
 * reads those of real servers. */
#include "outbox/relay/binlog/change_stream.h"
#include "outbox/relay/binlog/statement.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define TABLE_ID 77
#define TYPES_IN_FORMAT 42
#define FLAGS_NONE 0

static struct change_stream stream;
static struct change change;
static struct err err;
static struct buf seen;    /* the changes so far, as "row 1 5, commit 1, " */
static uint8_t bytes[512]; /* of one event */
static size_t len;
static uint64_t file_end; /* of the events so far */
static bool hides_ends;   /* as MariaDB 11.4 does inside a transaction */
static uint32_t time_s;   /* of the next events */

static void put(uint64_t value, size_t count)
{
    for (size_t i = 0; i < count; i++)
        bytes[len++] = (uint8_t)(value >> 8 * i);
}

static void put_text(const char *text)
{
    memcpy(bytes + len, text, strlen(text));
    len += strlen(text);
}

static void begin(uint8_t type)
{
    memset(bytes, 0, sizeof(bytes));
    len = BINLOG_HEADER_SIZE;
    bytes[4] = type;
    bytes[5] = 1;
}

static void note(void)
{
    switch (change.kind) {
    case CHANGE_WANTS_EVENT:
        break;
    case CHANGE_IDLE:
        buf_text_put(&seen, "idle, ");
        break;
    case CHANGE_ROW:
        buf_print(&seen, "row %" PRIu64 " %" PRId64 ", ", change.row, change.values[0].number);
        break;
    case CHANGE_COMMIT:
        buf_print(&seen, "commit %" PRIu64 "%s, ", change.row, change.emptied ? " emptied" : "");
        break;
    case CHANGE_UNDO:
        buf_print(&seen, "undo %" PRIu64 ", ", change.row);
        break;
    case CHANGE_CUT:
        buf_text_put(&seen, "cut, ");
        break;
    case CHANGE_DEFINITION:
        buf_text_put(&seen, "definition, ");
        break;
    }
}

/* Ends the event, gives it to the stream and notes the changes. */
static enum rc end(uint16_t flags)
{
    bool in_file = !(flags & BINLOG_FLAG_ARTIFICIAL);
    enum rc rc;

    for (size_t i = 0; i < 4; i++)
        bytes[9 + i] = (uint8_t)(len >> 8 * i);
    if (in_file)
        file_end += len;
    for (size_t i = 0; in_file && !hides_ends && i < 4; i++)
        bytes[13 + i] = (uint8_t)(file_end >> 8 * i);
    bytes[17] = (uint8_t)flags;
    for (size_t i = 0; i < 4; i++)
        bytes[i] = (uint8_t)(time_s >> 8 * i);
    rc = change_stream_give(&stream, bytes, len, &err);
    while (rc == RC_OK && (rc = change_stream_next(&stream, &change, &err)) == RC_OK &&
           change.kind != CHANGE_WANTS_EVENT)
        note();
    return rc;
}

static void rotate(const char *file, uint64_t pos)
{
    begin(BINLOG_ROTATE);
    put(pos, 8);
    put_text(file);
    file_end = pos;
    assert_int_equal(end(BINLOG_FLAG_ARTIFICIAL), RC_OK);
}

static enum rc format(bool server_start)
{
    begin(BINLOG_FORMAT);
    put(4, 2);
    put_text("10.11.19-MariaDB-log");
    len += 30; /* the room of the version is 50 bytes */
    put(server_start ? 1790000000 : 0, 4);
    put(BINLOG_HEADER_SIZE, 1);
    for (unsigned type = 1; type <= TYPES_IN_FORMAT; type++)
        put(8, 1);
    put(0, 1);
    put(0, 4);
    return end(FLAGS_NONE);
}

static enum rc gtid(uint64_t sequence, uint8_t flags)
{
    begin(BINLOG_MARIADB_GTID);
    put(sequence, 8);
    put(0, 4);
    put(flags, 1);
    put(0, 6);
    return end(FLAGS_NONE);
}

static enum rc query(const char *text)
{
    begin(BINLOG_QUERY);
    put(1, 4);
    put(0, 4);
    put(4, 1);
    put(0, 2);
    put(0, 2);
    put_text("shop");
    put(0, 1);
    put_text(text);
    return end(FLAGS_NONE);
}

static void map(uint64_t id, const char *table)
{
    begin(BINLOG_TABLE_MAP);
    put(id, 6);
    put(1, 2);
    put(4, 1);
    put_text("shop");
    put(0, 1);
    put(strlen(table), 1);
    put_text(table);
    put(0, 1);
    put(1, 1);           /* columns */
    put(COLUMN_LONG, 1); /* types */
    put(0, 1);           /* bytes of metadata */
    put(0, 1);           /* none may be NULL */
    assert_int_equal(end(FLAGS_NONE), RC_OK);
}

static enum rc row_event(uint8_t type, uint64_t id, uint64_t first, uint64_t count)
{
    begin(type);
    put(id, 6);
    put(1, 2);
    put(1, 1);    /* columns */
    put(0xff, 1); /* all are present */
    for (uint64_t i = 0; i < count; i++) {
        put(0, 1); /* none is NULL */
        put(first + i, 4);
    }
    return end(FLAGS_NONE);
}

static void insert(uint64_t first, uint64_t count)
{
    map(TABLE_ID, "outbox");
    assert_int_equal(row_event(BINLOG_WRITE_ROWS_1, TABLE_ID, first, count), RC_OK);
}

static enum rc commit(void)
{
    begin(BINLOG_XID);
    put(99, 8);
    return end(FLAGS_NONE);
}

static void expect(const char *changes)
{
    assert_string_equal(buf_text(&seen), changes);
    buf_reset(&seen);
}

static void expect_refused(enum rc rc, const char *words)
{
    assert_int_equal(rc, RC_FATAL);
    if (!strstr(err.text, words))
        fail_msg("'%s' does not say '%s'", err.text, words);
}

static void start(const char *before, uint64_t skip)
{
    assert_int_equal(change_stream_begin(&stream, true, before, "", 4, skip, "0-1-5", &err), RC_OK);
    rotate("b.000001", 4);
    assert_int_equal(format(true), RC_OK);
}

static int set_up(void **state)
{
    (void)state;
    hides_ends = false;
    time_s = 0;
    memset(&err, 0, sizeof(err));
    assert_int_equal(change_stream_init(&stream, "shop", "outbox", 1 << 20, &err), RC_OK);
    start("0-1-4", 0);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    change_stream_done(&stream);
    buf_done(&seen);
    return 0;
}

static void expect_before(const char *text)
{
    struct buf found = {0};

    gtid_set_put_text(&stream.before, &found);
    assert_string_equal(buf_text(&found), text);
    buf_done(&found);
}

static void the_place_is_that_of_the_transaction_until_it_is_committed(void **state)
{
    uint64_t began = file_end;

    (void)state;
    assert_int_equal(gtid(5, 0), RC_OK);
    assert_int_equal(stream.offset, began);
    insert(10, 2);
    expect("row 1 10, row 2 11, ");
    assert_int_equal(stream.offset, began);
    expect_before("0-1-4");
    assert_int_equal(commit(), RC_OK);
    expect("commit 2, ");
    assert_int_equal(stream.offset, file_end);
    assert_string_equal(stream.file, "b.000001");
    expect_before("0-1-5");
    assert_int_equal(stream.counts.transactions, 1);
}

/* Of a position whose time is 0 it is not known when it was committed. */
static void the_time_is_that_of_the_last_transaction(void **state)
{
    (void)state;
    stream.time_s = 500; /* as of the position where reading begins */
    rotate("b.000001", 4);
    time_s = 100;
    assert_int_equal(format(false), RC_OK);
    begin(BINLOG_MARIADB_GTID_LIST);
    put(0, 4);
    assert_int_equal(end(FLAGS_NONE), RC_OK);
    time_s = 0;
    begin(BINLOG_HEARTBEAT);
    put_text("b.000001");
    assert_int_equal(end(BINLOG_FLAG_ARTIFICIAL), RC_OK);
    expect("idle, ");
    assert_int_equal(stream.time_s, 500);
    time_s = 900;
    assert_int_equal(gtid(5, 0), RC_OK);
    insert(10, 1);
    time_s = 901;
    assert_int_equal(commit(), RC_OK);
    expect("row 1 10, commit 1, ");
    time_s = 0;
    rotate("b.000002", 4);
    assert_int_equal(stream.time_s, 901);
    assert_int_equal(stream.group_time_s, 900);
}

static void a_rollback_takes_all_rows_back(void **state)
{
    (void)state;
    gtid(5, 0);
    insert(10, 2);
    assert_int_equal(query("ROLLBACK"), RC_OK);
    expect("row 1 10, row 2 11, undo 0, commit 0, ");
    expect_before("0-1-5");
}

static void a_rollback_to_a_savepoint_takes_later_rows_back(void **state)
{
    (void)state;
    gtid(5, 0);
    insert(10, 1);
    query("SAVEPOINT `a b`");
    insert(11, 1);
    query("SAVEPOINT c");
    insert(12, 1);
    query("rollback to c");
    query("RELEASE SAVEPOINT c");
    insert(13, 1);
    query("/* again */ ROLLBACK TO SAVEPOINT `A B`");
    insert(14, 1);
    commit();
    expect("row 1 10, row 2 11, row 3 12, undo 2, row 3 13, undo 1, row 2 14, commit 2, ");
    gtid(6, 0);
    /* Those of the transaction before are gone. */
    expect_refused(query("ROLLBACK TO c"), "a savepoint that is not known");
}

static void a_savepoint_that_is_set_again_is_the_last_one(void **state)
{
    (void)state;
    gtid(5, 0);
    query("SAVEPOINT a");
    insert(10, 1);
    query("SAVEPOINT b");
    insert(11, 1);
    query("SAVEPOINT a");
    insert(12, 1);
    query("ROLLBACK TO a");
    query("ROLLBACK TO b");
    commit();
    expect("row 1 10, row 2 11, row 3 12, undo 2, undo 1, commit 1, ");
}

static void a_transaction_that_a_crash_cut_off_is_undone(void **state)
{
    (void)state;
    gtid(5, 0);
    insert(10, 2);
    rotate("b.000002", 4);
    assert_int_equal(format(true), RC_OK);
    expect("row 1 10, row 2 11, cut, ");
    expect_before("0-1-4");
    /* The server gives the number again. */
    gtid(5, 0);
    insert(12, 1);
    commit();
    expect("row 1 12, commit 1, ");
    assert_string_equal(stream.file, "b.000002");
}

static void a_file_that_begins_inside_a_transaction_is_refused(void **state)
{
    (void)state;
    gtid(5, 0);
    insert(10, 1);
    rotate("b.000002", 4);
    expect_refused(format(false), "another file begins before the transaction has ended");
    expect_refused(RC_FATAL, "transaction 0-1-5 at b.000002:4: ");
}

static void what_could_hide_rows_is_refused_with_its_name(void **state)
{
    (void)state;
    begin(BINLOG_INCIDENT);
    put(1, 2);
    expect_refused(end(FLAGS_NONE), "the server reports an incident");
    start("0-1-4", 0);
    begin(BINLOG_PARTIAL_ROW_DATA);
    expect_refused(end(FLAGS_NONE), "(172) cannot be read");
    start("0-1-4", 0);
    begin(250);
    expect_refused(end(FLAGS_NONE), "unknown (250) cannot be read");
    begin(250);
    assert_int_equal(end(BINLOG_FLAG_IGNORABLE), RC_OK);
    start("0-1-4", 0);
    gtid(5, 0);
    expect_refused(gtid(6, 0), "another transaction begins before it has ended");
    start("0-1-4", 0);
    expect_refused(gtid(4, 0), "its GTID, or a later one of its domain, was there before");
    start("0-1-4", 0);
    map(TABLE_ID, "outbox");
    expect_refused(row_event(BINLOG_WRITE_ROWS_1, TABLE_ID, 1, 1),
                   "rows come outside of a transaction");
    start("0-1-4", 0);
    gtid(5, 0);
    begin(BINLOG_EXECUTE_LOAD_QUERY);
    len += 26;
    put_text("LOAD DATA INFILE 'x' INTO TABLE `outbox`");
    expect_refused(end(FLAGS_NONE), "a statement may change table outbox");
}

static void rows_of_two_phases_are_refused_and_other_ones_are_not(void **state)
{
    (void)state;
    gtid(5, 0x40);
    insert(10, 1);
    query("XA END X'78',X'',1");
    begin(BINLOG_XA_PREPARE);
    put(1, 1);
    assert_int_equal(end(FLAGS_NONE), RC_OK);
    gtid(6, 0x40);
    begin(BINLOG_XA_PREPARE);
    put(0, 1);
    assert_int_equal(end(FLAGS_NONE), RC_OK);
    gtid(7, 0x80);
    query("XA COMMIT X'78',X'',1");
    expect("row 1 10, commit 1, commit 0, commit 0, ");
    gtid(8, 0x40);
    insert(11, 1);
    begin(BINLOG_XA_PREPARE);
    put(0, 1);
    expect_refused(end(FLAGS_NONE), "it is prepared by XA and has 1 rows of table outbox");
}

/* The server reuses ids of tables after a start, and for another table after a definition. */
static void rows_belong_to_the_table_of_the_last_map_with_their_id(void **state)
{
    (void)state;
    gtid(5, 0);
    insert(10, 1);
    map(TABLE_ID, "other");
    assert_int_equal(row_event(BINLOG_WRITE_ROWS_1, TABLE_ID, 11, 1), RC_OK);
    map(TABLE_ID + 1, "outbox");
    assert_int_equal(row_event(BINLOG_WRITE_ROWS_1, TABLE_ID, 12, 1), RC_OK);
    assert_int_equal(row_event(BINLOG_WRITE_ROWS_1, TABLE_ID + 1, 13, 1), RC_OK);
    assert_int_equal(row_event(BINLOG_UPDATE_ROWS_1, TABLE_ID + 1, 13, 2), RC_OK);
    assert_int_equal(row_event(BINLOG_DELETE_ROWS_1, TABLE_ID + 1, 13, 1), RC_OK);
    commit();
    expect("row 1 10, row 2 13, commit 2, ");
    assert_int_equal(stream.counts.updates, 1);
    /* The same description with another id is the same version of the table. */
    assert_int_equal(stream.table_version, 1);
}

static void rows_of_the_first_transaction_are_skipped(void **state)
{
    (void)state;
    start("0-1-4", 3);
    gtid(5, 0);
    insert(10, 2);
    insert(12, 2);
    commit();
    gtid(6, 0);
    insert(14, 1);
    commit();
    expect("row 4 13, commit 4, row 1 14, commit 1, ");
}

static void rows_are_skipped_in_their_own_transaction_only(void **state)
{
    (void)state;
    start("0-1-4", 3);
    expect_refused(gtid(6, 0), "3 rows of transaction 0-1-5 were done before");
    /* What was done cannot be taken back. */
    start("0-1-4", 3);
    gtid(5, 0);
    query("SAVEPOINT a");
    insert(10, 4);
    query("ROLLBACK TO a");
    expect_refused(commit(), "rows that were done before are rolled back: 3 were done, and 0 stay");
}

/* The first three are those that stay, whatever was undone before them. */
static void rows_that_stay_are_skipped(void **state)
{
    (void)state;
    start("0-1-4", 3);
    gtid(5, 0);
    insert(10, 2);
    query("SAVEPOINT a");
    insert(20, 3);
    query("ROLLBACK TO a");
    insert(30, 2);
    commit();
    expect("row 4 21, row 5 22, undo 2, row 4 31, commit 4, ");
}

static void more_savepoints_than_are_kept_forget_the_oldest(void **state)
{
    char text[64];

    (void)state;
    gtid(5, 0);
    for (int i = 0; i < CHANGE_SAVEPOINTS_MAX + 8; i++) {
        snprintf(text, sizeof(text), "SAVEPOINT s%d", i);
        assert_int_equal(query(text), RC_OK);
        insert(100 + (uint64_t)i, 1);
    }
    buf_reset(&seen);
    snprintf(text, sizeof(text), "ROLLBACK TO s%d", 9);
    query(text);
    commit();
    expect("undo 9, commit 9, ");
    gtid(6, 0);
    for (int i = 0; i < CHANGE_SAVEPOINTS_MAX + 1; i++) {
        snprintf(text, sizeof(text), "SAVEPOINT s%d", i);
        query(text);
    }
    expect_refused(query("ROLLBACK TO s0"), "a savepoint that is not known");
}

static void xa_that_is_rolled_back_before_it_is_prepared_takes_its_rows_back(void **state)
{
    (void)state;
    gtid(5, 0);
    insert(10, 2);
    query("XA END X'78',X'',1");
    assert_int_equal(query("XA ROLLBACK X'78',X'',1"), RC_OK);
    expect("row 1 10, row 2 11, undo 0, commit 0, ");
}

static void what_begins_inside_a_transaction_is_refused(void **state)
{
    (void)state;
    expect_refused(query("COMMIT"), "comes without a GTID");
    start("0-1-4", 0);
    expect_refused(commit(), "a Xid event comes without a GTID");
}

/* A server that goes to a GTID sends nothing of what lies before it. */
static void the_place_behind_skipped_events_is_that_of_the_event(void **state)
{
    (void)state;
    file_end += 5000;
    gtid(5, 0);
    assert_int_equal(stream.offset, file_end - len);
}

static void a_statement_by_itself_is_a_transaction(void **state)
{
    (void)state;
    gtid(5, 1);
    query("ALTER TABLE outbox ADD more INT");
    gtid(6, 1);
    query("CREATE TABLE outboxes (id INT)");
    gtid(7, 1);
    query("INSERT INTO other VALUES ('an outbox')");
    expect("definition, commit 0, commit 0, ");
}

static void a_statement_that_empties_the_table_is_told_with_its_commit(void **state)
{
    (void)state;
    gtid(5, 1);
    query("TRUNCATE TABLE outbox");
    gtid(6, 1);
    query("TRUNCATE TABLE other");
    gtid(7, 1);
    query("ALTER TABLE outbox ADD more INT");
    expect("definition, commit 0 emptied, commit 0, definition, commit 0, ");
}

static void offsets_go_on_above_four_gib(void **state)
{
    (void)state;
    assert_int_equal(change_stream_begin(&stream, true, "", "", 4, 0, "", &err), RC_OK);
    rotate("b.000001", (UINT64_C(1) << 32) - 60);
    gtid(5, 0);
    insert(10, 1);
    commit();
    assert_int_equal(stream.offset, file_end);
    assert_true(stream.offset > UINT64_C(1) << 32);
    gtid(6, 0);
    assert_int_equal(stream.offset, file_end - len);
    hides_ends = true;
    insert(11, 1);
    commit();
    assert_int_equal(stream.offset, file_end);
    begin(BINLOG_HEARTBEAT);
    put_text("b.000001");
    assert_int_equal(end(FLAGS_NONE), RC_OK);
    expect("row 1 10, commit 1, row 1 11, commit 1, idle, ");
}

/* As Debezium counts: the GTID of MariaDB is the first event. */
static void events_and_rows_of_a_transaction_are_counted(void **state)
{
    uint64_t first;

    (void)state;
    gtid(5, 0);
    first = file_end - len;
    assert_int_equal(stream.events, 1);
    insert(10, 2);
    assert_int_equal(stream.events, 3);
    assert_int_equal(stream.event_rows, 2);
    insert(12, 1);
    assert_int_equal(stream.events, 5);
    assert_int_equal(stream.event_rows, 1);
    assert_int_equal(commit(), RC_OK);
    assert_int_equal(stream.events, 6);
    assert_int_equal(stream.group_begin, first);
    assert_int_equal(stream.body_begin, first);
    gtid(6, 0);
    assert_int_equal(stream.events, 1);
    assert_true(stream.group_begin > first);
}

static enum statement_kind kind_of(const char *text)
{
    struct binlog_query one = {.text = text, .text_len = strlen(text)};
    struct statement statement;

    statement_parse(&statement, &one);
    return statement.kind;
}

static void statements_are_told_apart_by_their_first_words(void **state)
{
    (void)state;
    assert_int_equal(kind_of("BEGIN"), STATEMENT_BEGIN);
    assert_int_equal(kind_of("XA START X'78',X'',1"), STATEMENT_BEGIN);
    assert_int_equal(kind_of("commit"), STATEMENT_COMMIT);
    assert_int_equal(kind_of("COMMITTED"), STATEMENT_OTHER);
    assert_int_equal(kind_of("ROLLBACK"), STATEMENT_ROLLBACK);
    assert_int_equal(kind_of("ROLLBACK  TO x"), STATEMENT_ROLLBACK_TO);
    assert_int_equal(kind_of("XA ROLLBACK X'78'"), STATEMENT_XA_ROLLBACK);
    assert_int_equal(kind_of("XA COMMIT X'78'"), STATEMENT_XA_COMMIT);
    assert_int_equal(kind_of("XA END X'78'"), STATEMENT_XA_END);
    assert_int_equal(kind_of(" \n/* a */-- b\n# c\n( INSERT INTO t VALUES (1)"), STATEMENT_DATA);
    assert_int_equal(kind_of("/*!80000 INSERT INTO t VALUES (1) */"), STATEMENT_DATA);
    assert_int_equal(kind_of("/*M!100100 DELETE FROM t */"), STATEMENT_DATA);
    assert_int_equal(kind_of("SET STATEMENT a=1 FOR INSERT INTO t VALUES (1)"), STATEMENT_DATA);
    assert_int_equal(kind_of("SET STATEMENT a=1, b='x' FOR ALTER TABLE t ADD x INT"),
                     STATEMENT_OTHER);
    assert_int_equal(kind_of("SET STATEMENT a=1"), STATEMENT_OTHER);
    assert_int_equal(kind_of("SELECT `shop`.`writes`()"), STATEMENT_DATA);
    assert_int_equal(kind_of("SET PASSWORD FOR x = 'y'"), STATEMENT_OTHER);
    assert_int_equal(kind_of("CREATE TABLE t (id INT)"), STATEMENT_OTHER);
    assert_int_equal(kind_of("/* never ends"), STATEMENT_OTHER);
    assert_int_equal(kind_of(""), STATEMENT_OTHER);
}

static bool names(const char *text, const char *name)
{
    struct binlog_query one = {.text = text, .text_len = strlen(text)};

    return statement_names(&one, name);
}

static void a_name_is_found_as_a_word(void **state)
{
    (void)state;
    assert_true(names("INSERT INTO outbox VALUES (1)", "outbox"));
    assert_true(names("INSERT INTO `shop`.`Outbox`(a)", "outbox"));
    assert_true(names("outbox", "outbox"));
    assert_false(names("INSERT INTO outbox2 VALUES (1)", "outbox"));
    assert_false(names("INSERT INTO my_outbox VALUES (1)", "outbox"));
    assert_false(names("outbo", "outbox"));
    assert_false(names("outbox", ""));
}

static bool empties(const char *text, const char *schema)
{
    struct binlog_query one = {
        .schema = schema, .schema_len = strlen(schema), .text = text, .text_len = strlen(text)};

    return statement_empties(&one, "shop", "outbox");
}

static bool may_change(const char *text, const char *schema)
{
    const struct binlog_query one = {
        .text = text, .text_len = strlen(text), .schema = schema, .schema_len = strlen(schema)};

    return statement_may_change(&one, "shop", "outbox");
}

static void a_statement_on_a_table_of_another_schema_is_not_meant(void **state)
{
    (void)state;
    assert_true(may_change("INSERT INTO outbox VALUES (1)", "shop"));
    assert_true(may_change("INSERT INTO outbox VALUES (1)", "Shop"));
    assert_true(may_change("INSERT INTO outbox VALUES (1)", ""));
    assert_true(may_change("INSERT INTO `shop`.`outbox` VALUES (1)", "other"));
    assert_true(may_change("UPDATE other.outbox o JOIN shop.t USING (id) SET o.a = 1", "other"));
    assert_false(may_change("INSERT INTO outbox VALUES (1)", "other"));
    assert_false(may_change("INSERT INTO outbox VALUES (1)", "shops"));
    assert_false(may_change("INSERT INTO t VALUES (1)", "shop"));
}

static bool is_of_system(const char *text, const char *schema)
{
    const struct binlog_query one = {
        .text = text, .text_len = strlen(text), .schema = schema, .schema_len = strlen(schema)};

    return statement_changes_system_table(&one);
}

/* Servers of Amazon RDS write the first three, whatever the format of the log. */
static void a_statement_that_changes_a_table_of_the_server_is_known(void **state)
{
    (void)state;
    assert_true(
        is_of_system("INSERT INTO mysql.rds_heartbeat2(id, value) values (1, 2) ON DUPLICATE "
                     "KEY UPDATE value = 2",
                     ""));
    assert_true(is_of_system("insert into rds_heartbeat2(id, value) values (1, 2)", "mysql"));
    assert_true(is_of_system("SET STATEMENT max_statement_time=60 FOR INSERT INTO "
                             "mysql.rds_heartbeat2(id) values (1)",
                             ""));
    assert_true(is_of_system("DELETE FROM `mysql`.`rds_sysinfo` WHERE name = 'x'", "shop"));
    assert_true(is_of_system("UPDATE LOW_PRIORITY IGNORE mysql.t SET a = 1", ""));
    assert_false(is_of_system("REPLACE INTO t SELECT * FROM mysql.user", "shop"));
    assert_false(is_of_system("INSERT INTO shop.t VALUES (1)", "mysql"));
    assert_false(is_of_system("INSERT INTO mysql VALUES (1)", "shop"));
    assert_false(is_of_system("CALL mysql.rds_kill(7)", "shop"));
    assert_false(is_of_system("", ""));
}

static void a_statement_that_empties_a_table_is_known(void **state)
{
    (void)state;
    assert_true(empties("TRUNCATE TABLE outbox", "shop"));
    assert_true(empties("truncate `Outbox`", "shop"));
    assert_true(empties("TRUNCATE TABLE outbox WAIT 5", "shop"));
    assert_true(empties("TRUNCATE shop.outbox", "other"));
    assert_true(empties("TRUNCATE TABLE `shop` . `outbox`", ""));
    assert_true(empties("/* why */ TRUNCATE /*!99999 TABLE */ outbox", "shop"));
    assert_true(empties("SET STATEMENT max_statement_time=9 FOR TRUNCATE outbox", "shop"));
    assert_true(empties("DROP TABLE `outbox` /* generated by server */", "shop"));
    assert_true(empties("DROP TABLE IF EXISTS `a`.`outbox`,b , shop.outbox", "other"));
    assert_true(empties("CREATE OR REPLACE TABLE outbox (id INT)", "shop"));
    assert_false(empties("TRUNCATE TABLE outbox", "other"));
    assert_false(empties("TRUNCATE TABLE other.outbox", "shop"));
    assert_false(empties("TRUNCATE TABLE outbox2", "shop"));
    assert_false(empties("TRUNCATE TABLE a, outbox", "shop"));
    assert_false(empties("DROP TABLE a, b", "shop"));
    assert_false(empties("DROP TEMPORARY TABLE outbox", "shop"));
    assert_false(empties("DROP INDEX outbox ON a", "shop"));
    assert_false(empties("CREATE TABLE IF NOT EXISTS outbox (id INT)", "shop"));
    assert_false(empties("CREATE OR REPLACE VIEW v AS SELECT * FROM outbox", "shop"));
    assert_false(empties("ALTER TABLE outbox DROP PARTITION p1", "shop"));
    assert_false(empties("RENAME TABLE outbox TO old", "shop"));
    assert_false(empties("TRUNCATE", "shop"));
    assert_false(empties("TRUNCATE `outbox", "other"));
    assert_false(empties("", "shop"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_place_is_that_of_the_transaction_until_it_is_committed,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_rollback_takes_all_rows_back, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_rollback_to_a_savepoint_takes_later_rows_back, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_savepoint_that_is_set_again_is_the_last_one, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(the_time_is_that_of_the_last_transaction, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_transaction_that_a_crash_cut_off_is_undone, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_file_that_begins_inside_a_transaction_is_refused, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(what_could_hide_rows_is_refused_with_its_name, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(rows_of_two_phases_are_refused_and_other_ones_are_not,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(rows_belong_to_the_table_of_the_last_map_with_their_id,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(rows_of_the_first_transaction_are_skipped, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(rows_that_stay_are_skipped, set_up, tear_down),
        cmocka_unit_test_setup_teardown(rows_are_skipped_in_their_own_transaction_only, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(more_savepoints_than_are_kept_forget_the_oldest, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(
            xa_that_is_rolled_back_before_it_is_prepared_takes_its_rows_back, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_begins_inside_a_transaction_is_refused, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(the_place_behind_skipped_events_is_that_of_the_event,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_statement_by_itself_is_a_transaction, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_statement_that_empties_the_table_is_told_with_its_commit,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(offsets_go_on_above_four_gib, set_up, tear_down),
        cmocka_unit_test_setup_teardown(events_and_rows_of_a_transaction_are_counted, set_up,
                                        tear_down),
        cmocka_unit_test(statements_are_told_apart_by_their_first_words),
        cmocka_unit_test(a_statement_on_a_table_of_another_schema_is_not_meant),
        cmocka_unit_test(a_statement_that_changes_a_table_of_the_server_is_known),
        cmocka_unit_test(a_statement_that_empties_a_table_is_known),
        cmocka_unit_test(a_name_is_found_as_a_word),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
