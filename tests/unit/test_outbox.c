/* SPDX-License-Identifier: MIT */
/* outbox_append() on a fake server that only records statements: the db_ functions of this file
 * replace common/db/db.c. */
#include "outbox/outbox.h"

#include "common/db/db.h"
#include "outbox/lanes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define STATEMENTS_MAX 16

struct db {
    char *statements[STATEMENTS_MAX];
    size_t count;
    uint64_t packet;
    size_t fail_at; /* this statement, from 1; 0: none */
};

enum rc db_exec(struct db *db, const char *sql, size_t len, uint64_t *affected, struct err *err)
{
    assert_null(affected);
    assert_true(db->count < STATEMENTS_MAX);
    db->statements[db->count] = malloc(len + 1);
    assert_non_null(db->statements[db->count]);
    memcpy(db->statements[db->count], sql, len);
    db->statements[db->count++][len] = '\0';
    return db->count == db->fail_at ? err_fail(err, RC_RETRY, 2006, "gone") : RC_OK;
}

uint64_t db_packet_bytes_max(const struct db *db)
{
    return db->packet;
}

void db_put_text(struct db *db, struct buf *sql, const char *text, size_t len)
{
    (void)db;
    buf_char(sql, '\'');
    buf_put(sql, text, len);
    buf_char(sql, '\'');
}

void db_put_bytes(struct db *db, struct buf *sql, const void *bytes, size_t len)
{
    if (bytes)
        db_put_text(db, sql, bytes, len);
    else
        buf_text_put(sql, "NULL");
}

void db_put_name(struct buf *sql, const char *name)
{
    sql->failed |= strchr(name, ';') != NULL;
    buf_text_put(sql, name);
}

static int set_up(void **state)
{
    *state = calloc(1, sizeof(struct db));
    return *state ? 0 : -1;
}

static int tear_down(void **state)
{
    struct db *db = *state;

    for (size_t i = 0; i < db->count; i++)
        free(db->statements[i]);
    free(db);
    return 0;
}

static struct outbox_event event_sample(void)
{
    return (struct outbox_event){.id = {{0xab}},
                                 .aggregate_type = "order",
                                 .aggregate_id = "4711",
                                 .type = "OrderPlaced",
                                 .payload = "{}",
                                 .payload_len = 2};
}

static void events_are_one_insert_in_their_order(void **state)
{
    struct db *db = *state;
    struct outbox_event events[2] = {event_sample(), event_sample()};
    struct err err;

    events[1].payload = NULL;
    events[1].payload_len = 0;
    events[1].headers = "{\"a\":\"b\"}";
    assert_int_equal(outbox_append(db, "outbox_3", events, 2, &err), RC_OK);
    assert_int_equal(db->count, 1);
    assert_string_equal(db->statements[0],
                        "INSERT INTO outbox_3 (id, aggregatetype, aggregateid, type, payload, "
                        "headers) VALUES "
                        "('ab000000-0000-0000-0000-000000000000','order','4711','OrderPlaced','{}',"
                        "NULL),"
                        "('ab000000-0000-0000-0000-000000000000','order','4711','OrderPlaced',NULL,"
                        "'{\"a\":\"b\"}')");
}

static void no_events_are_no_statement(void **state)
{
    struct db *db = *state;
    struct err err;

    assert_int_equal(outbox_append(db, "outbox", NULL, 0, &err), RC_OK);
    assert_int_equal(db->count, 0);
}

static void an_empty_payload_is_no_tombstone(void **state)
{
    struct db *db = *state;
    struct outbox_event event = event_sample();
    struct err err;

    event.payload_len = 0;
    assert_int_equal(outbox_append(db, "outbox", &event, 1, &err), RC_OK);
    assert_non_null(strstr(db->statements[0], "'OrderPlaced','',NULL)"));
}

struct refusal {
    struct outbox_event event;
    const char *sentence;
};

static void a_bad_event_is_named_and_nothing_is_written(void **state)
{
    static char text65[66];
    static char headers[70000];
    struct outbox_event good = event_sample();
    struct refusal refusals[11];
    size_t count = 0;
    struct db *db = *state;
    struct err err;

    memset(text65, 'x', 65);
    memset(headers, ' ', sizeof(headers) - 1);
    headers[0] = '{';
    headers[sizeof(headers) - 2] = '}';
    for (size_t i = 0; i < 11; i++)
        refusals[i].event = good;
#define REFUSED(member, value, text)            \
    do {                                        \
        refusals[count].event.member = (value); \
        refusals[count++].sentence = (text);    \
    } while (0)
    REFUSED(aggregate_type, "", "event 1: aggregate_type is empty");
    REFUSED(aggregate_type, NULL, "event 1: aggregate_type is empty");
    REFUSED(aggregate_id, text65, "event 1: aggregate_id is longer than 64 bytes");
    REFUSED(type, "", "event 1: type is empty");
    REFUSED(headers, "", "event 1: headers are not a JSON object");
    REFUSED(headers, "[]", "event 1: headers are not a JSON object");
    REFUSED(headers, "{\"a\":1}", "event 1: header \"a\" is not a string");
    REFUSED(headers, "{\"a\":\"b\",\"a\":\"c\"}", "event 1: headers are not a JSON object");
    /* The relay refuses these, and the key would wait for ever. */
    REFUSED(headers, "{\"a\":\"b\",\"id\":\"x\"}",
            "event 1: headers: \"id\" is reserved for the relay");
    REFUSED(headers, "{\"\":\"x\"}", "event 1: headers: a name is empty");
    REFUSED(headers, headers, "event 1: headers are longer than 65535 bytes");
    for (size_t i = 0; i < count; i++) {
        struct outbox_event events[2] = {good, refusals[i].event};

        assert_int_equal(outbox_append(db, "outbox", events, 2, &err), RC_REJECT);
        if (!strstr(err.text, refusals[i].sentence))
            fail_msg("\"%s\" is not \"%s\"", err.text, refusals[i].sentence);
    }
    assert_int_equal(db->count, 0);
}

static void sixty_four_bytes_are_not_too_long(void **state)
{
    struct outbox_event event = event_sample();
    char text64[65];
    struct err err;

    memset(text64, 'x', 64);
    text64[64] = '\0';
    event.aggregate_id = text64;
    assert_int_equal(outbox_append(*state, "outbox", &event, 1, &err), RC_OK);
}

static void another_programs_table_is_explained(void **state)
{
    struct err err = {DB_NO_SUCH_COLUMN, "Unknown column 'seq' in 'SELECT'"};

    (void)state;
    assert_int_equal(outbox_explain_table("outbox", RC_FATAL, &err), RC_FATAL);
    assert_non_null(strstr(err.text, "not a tallybox outbox table: outbox (Unknown column 'seq'"));
    assert_non_null(strstr(err.text, "rename it, run `tallybox migrate up`"));
    err = (struct err){DB_NO_SUCH_COLUMN, "Unknown column 'seq' in 'SELECT'"};
    outbox_explain_table("shop", RC_FATAL, &err);
    assert_non_null(strstr(err.text, "rename it, run `CREATE TABLE shop LIKE outbox`"));
    err = (struct err){DB_NO_SUCH_TABLE, "no such table"};
    assert_int_equal(outbox_explain_table("shop", RC_FATAL, &err), RC_FATAL);
    assert_string_equal(err.text, "no such table");
    assert_int_equal(outbox_explain_table("shop", RC_OK, NULL), RC_OK);
}

static void a_bad_lane_is_refused(void **state)
{
    struct outbox_event event = event_sample();
    struct err err;

    assert_int_equal(outbox_append(*state, "a;b", &event, 1, &err), RC_REJECT);
    assert_non_null(strstr(err.text, "\"a;b\" is not the name of an outbox table"));
}

static void many_bytes_are_several_statements(void **state)
{
    static char payload[400000];
    struct db *db = *state;
    struct outbox_event events[5];
    struct err err;

    memset(payload, 'p', sizeof(payload));
    for (size_t i = 0; i < 5; i++) {
        events[i] = event_sample();
        events[i].payload = payload;
        events[i].payload_len = sizeof(payload);
    }
    assert_int_equal(outbox_append(db, "outbox", events, 5, &err), RC_OK);
    assert_int_equal(db->count, 3); /* 2 + 2 + 1 */
    for (size_t i = 0; i < 3; i++) {
        assert_memory_equal(db->statements[i], "INSERT INTO outbox (", 20);
        assert_true(strlen(db->statements[i]) < 1 << 20);
        assert_string_equal(db->statements[i] + strlen(db->statements[i]) - 7, "',NULL)");
    }
}

static void statements_keep_below_the_servers_packet(void **state)
{
    static char payload[1000];
    struct db *db = *state;
    struct outbox_event events[5];
    struct err err;

    memset(payload, 'p', sizeof(payload));
    db->packet = 2500;
    for (size_t i = 0; i < 5; i++) {
        events[i] = event_sample();
        events[i].payload = payload;
        events[i].payload_len = sizeof(payload);
    }
    assert_int_equal(outbox_append(db, "outbox", events, 5, &err), RC_OK);
    assert_int_equal(db->count, 3);
    for (size_t i = 0; i < db->count; i++)
        assert_true(strlen(db->statements[i]) <= 2500);
}

static void an_event_larger_than_the_packet_is_refused_by_name(void **state)
{
    static char payload[3000];
    struct db *db = *state;
    struct outbox_event events[2] = {event_sample(), event_sample()};
    struct err err;

    memset(payload, 'p', sizeof(payload));
    db->packet = 2500;
    events[1].payload = payload;
    events[1].payload_len = sizeof(payload);
    assert_int_equal(outbox_append(db, "outbox", events, 2, &err), RC_REJECT);
    assert_non_null(strstr(err.text, "event 1 needs"));
    assert_non_null(strstr(err.text, "max_allowed_packet"));
}

static void a_failed_statement_ends_it(void **state)
{
    static char payload[900000];
    struct db *db = *state;
    struct outbox_event events[3];
    struct err err;

    memset(payload, 'p', sizeof(payload));
    for (size_t i = 0; i < 3; i++) {
        events[i] = event_sample();
        events[i].payload = payload;
        events[i].payload_len = sizeof(payload);
    }
    db->fail_at = 2;
    assert_int_equal(outbox_append(db, "outbox", events, 3, &err), RC_RETRY);
    assert_int_equal(db->count, 2);
}

static void lanes_are_named_and_chosen_as_documented(void **state)
{
    char name[OUTBOX_LANE_NAME_SIZE];

    (void)state;
    outbox_lane_name(name, 0);
    assert_string_equal(name, "outbox");
    outbox_lane_name(name, 12);
    assert_string_equal(name, "outbox_12");
    /* FNV-1a, 64 bits: "a" is af63dc4c8601ec8c, "foobar" is 85944171f73967e8. */
    assert_int_equal(outbox_lane_of("a", 1), 0);
    assert_int_equal(outbox_lane_of("a", 7), UINT64_C(0xaf63dc4c8601ec8c) % 7);
    assert_int_equal(outbox_lane_of("foobar", 64), UINT64_C(0x85944171f73967e8) % 64);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(events_are_one_insert_in_their_order),
        TEST(no_events_are_no_statement),
        TEST(an_empty_payload_is_no_tombstone),
        TEST(a_bad_event_is_named_and_nothing_is_written),
        TEST(sixty_four_bytes_are_not_too_long),
        TEST(a_bad_lane_is_refused),
        TEST(another_programs_table_is_explained),
        TEST(many_bytes_are_several_statements),
        TEST(statements_keep_below_the_servers_packet),
        TEST(an_event_larger_than_the_packet_is_refused_by_name),
        TEST(a_failed_statement_ends_it),
        TEST(lanes_are_named_and_chosen_as_documented),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
