/* SPDX-License-Identifier: MIT */
/* Events that are made by hand: what the parser takes from them, and how it names what it refuses.
 * tests/e2e/test_binlog.py reads those of real servers. */
#include "outbox/relay/binlog/event.h"
#include "outbox/relay/binlog/rows.h"
#include "outbox/relay/binlog/table_map.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <string.h>
#include <zlib.h>

#define COLUMNS_MAX 8

static uint8_t bytes[512];
static size_t len;
static struct binlog_format format;
static struct binlog_event event;
static struct err err;
static struct buf expanded;

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
    len = 0;
    put(1790000000, 4);
    put(type, 1);
    put(7, 4); /* server */
    put(0, 4); /* size */
    put(4711, 4);
    put(0, 2);
}

static enum rc end(void)
{
    size_t size = len + (format.checksum ? BINLOG_CHECKSUM_SIZE : 0);

    for (size_t i = 0; i < 4; i++)
        bytes[9 + i] = (uint8_t)(size >> 8 * i);
    if (format.checksum)
        put(crc32_z(0, bytes, len), 4);
    memset(&err, 0, sizeof(err));
    return binlog_event_parse(&event, bytes, len, &format, &err);
}

static void assert_refused(enum rc rc, const char *what)
{
    assert_int_equal(rc, RC_FATAL);
    if (!strstr(err.text, what))
        fail_msg("'%s' does not say '%s'", err.text, what);
}

static int set_up(void **state)
{
    (void)state;
    memset(&format, 0, sizeof(format));
    return 0;
}

static void put_format(unsigned version, uint8_t header_size, uint8_t algorithm)
{
    begin(BINLOG_FORMAT);
    put(version, 2);
    put_text("9.7.4");
    len += 45; /* the room of the version is 50 bytes */
    put(0, 4);
    put(BINLOG_HEADER_SIZE, 1);
    for (unsigned type = 1; type <= 42; type++)
        put(header_size, 1);
    put(algorithm, 1);
    put(0, 4);
}

static void a_format_says_whether_events_have_checksums(void **state)
{
    (void)state;
    memset(bytes, 0, sizeof(bytes));
    put_format(4, 8, 0);
    assert_int_equal(end(), RC_OK);
    assert_int_equal(binlog_format_parse(&format, &event, &err), RC_OK);
    assert_string_equal(format.server, "9.7.4");
    assert_false(format.checksum);
    put_format(4, 8, 2);
    assert_int_equal(end(), RC_OK);
    assert_refused(binlog_format_parse(&format, &event, &err), "checksum algorithm 2");
    put_format(3, 8, 0);
    assert_int_equal(end(), RC_OK);
    assert_refused(binlog_format_parse(&format, &event, &err), "version 3");
    put_format(4, 6, 0);
    assert_int_equal(end(), RC_OK);
    assert_refused(binlog_format_parse(&format, &event, &err), "too old");
}

static void a_checksum_that_does_not_fit_is_named_with_its_place(void **state)
{
    (void)state;
    format.checksum = true;
    begin(BINLOG_XID);
    put(99, 8);
    assert_int_equal(end(), RC_OK);
    assert_int_equal(event.body_len, 8);
    bytes[BINLOG_HEADER_SIZE] ^= 1;
    assert_refused(binlog_event_parse(&event, bytes, len, &format, &err),
                   "a Xid event (16) ending at 4711 has the checksum");
}

static void an_event_of_another_size_is_refused(void **state)
{
    (void)state;
    begin(BINLOG_XID);
    put(99, 8);
    assert_int_equal(end(), RC_OK);
    assert_refused(binlog_event_parse(&event, bytes, len - 1, &format, &err),
                   "says that it has 27 bytes, and 26 came");
    assert_refused(binlog_event_parse(&event, bytes, 18, &format, &err), "18 bytes are too few");
}

static void gtids_of_both_servers_are_told_apart(void **state)
{
    struct binlog_gtid gtid;

    (void)state;
    begin(BINLOG_MARIADB_GTID);
    put(42, 8);
    put(3, 4);
    put(0x21, 1); /* DDL, standalone */
    assert_int_equal(end(), RC_OK);
    assert_int_equal(binlog_gtid_parse(&gtid, &event, &err), RC_OK);
    assert_true(gtid.mariadb && gtid.standalone && gtid.ddl && !gtid.prepared_xa);
    assert_int_equal(gtid.domain, 3);
    assert_int_equal(gtid.server_id, 7);
    assert_int_equal(gtid.sequence, 42);
    begin(BINLOG_GTID);
    put(0, 1);
    put_text("0123456789abcdef");
    put(17, 8);
    assert_int_equal(end(), RC_OK);
    assert_int_equal(binlog_gtid_parse(&gtid, &event, &err), RC_OK);
    assert_false(gtid.mariadb || gtid.anonymous);
    assert_memory_equal(gtid.uuid, "0123456789abcdef", 16);
    assert_int_equal(gtid.sequence, 17);
    begin(BINLOG_GTID_TAGGED);
    put(0x02, 1);
    put(0x40, 1); /* 32 bytes */
    put(0x00, 1);
    put(0x0000, 2); /* flags */
    put(0x02, 1);
    for (unsigned i = 0; i < 16; i++)
        put(i << 1, 1);
    put(0x04, 1);
    put(0x0201, 2); /* 64 */
    put(0x06, 1);
    put(0x04, 1);
    put_text("vt");
    put(0x0408, 2); /* a field that is not needed */
    assert_int_equal(end(), RC_OK);
    assert_int_equal(binlog_gtid_parse(&gtid, &event, &err), RC_OK);
    assert_memory_equal(gtid.uuid,
                        "\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f", 16);
    assert_int_equal(gtid.sequence, 64);
    assert_string_equal(gtid.tag, "vt");
    event.body_len = 24;
    assert_refused(binlog_gtid_parse(&gtid, &event, &err), "a Gtid_tagged event (42)");
}

static void a_query_is_its_text_without_the_variables_in_front(void **state)
{
    struct binlog_query query;

    (void)state;
    begin(BINLOG_QUERY);
    put(5, 4);
    put(0, 4);
    put(4, 1);
    put(1062, 2);
    put(3, 2);
    put_text("???shop");
    put(0, 1);
    put_text("commit");
    assert_int_equal(end(), RC_OK);
    assert_int_equal(binlog_query_parse(&query, &event, &expanded, &err), RC_OK);
    assert_memory_equal(query.schema, "shop", 4);
    assert_int_equal(query.error, 1062);
    assert_true(binlog_query_is(&query, "COMMIT"));
    assert_false(binlog_query_is(&query, "COMMI"));
    assert_false(binlog_query_is(&query, "COMMIT AND CHAIN"));
    event.body_len = 20;
    assert_refused(binlog_query_parse(&query, &event, &expanded, &err), "is cut off");
}

/* shop.outbox (BIGINT, VARCHAR(300) NULL, DECIMAL(4,2)) with signs and the name of the first. */
static void put_table(uint8_t type)
{
    begin(BINLOG_TABLE_MAP);
    put(11, 6);
    put(1, 2);
    put(4, 1);
    put_text("shop");
    put(0, 1);
    put(6, 1);
    put_text("outbox");
    put(0, 1);
    put(3, 1);
    put(type, 1);
    put(COLUMN_VARCHAR, 1);
    put(COLUMN_DECIMAL, 1);
    put(4, 1); /* bytes of what follows */
    put(300, 2);
    put(4, 1);
    put(2, 1);
    put(2, 1); /* the second may be NULL */
    put(1, 1); /* signs */
    put(1, 1);
    put(0x80, 1);
}

static struct binlog_table table;
static struct binlog_column columns[COLUMNS_MAX];
static uint8_t table_bytes[sizeof(bytes)]; /* of the event that the table borrows from */

static void read_table(void)
{
    put_table(COLUMN_LONGLONG);
    assert_int_equal(end(), RC_OK);
    memcpy(table_bytes, bytes, len);
    assert_int_equal(binlog_event_parse(&event, table_bytes, len, &format, &err), RC_OK);
    assert_int_equal(binlog_table_parse(&table, columns, COLUMNS_MAX, &event, &err), RC_OK);
}

static void a_table_map_has_types_and_signs(void **state)
{
    (void)state;
    read_table();
    assert_int_equal(table.id, 11);
    assert_memory_equal(table.name, "outbox", 6);
    assert_int_equal(table.column_count, 3);
    assert_true(table.signs);
    assert_false(table.names);
    assert_true(columns[0].is_unsigned);
    assert_false(columns[2].is_unsigned);
    assert_true(columns[1].nullable);
    assert_false(columns[0].nullable);
    assert_int_equal(columns[1].meta, 300);
    assert_int_equal(columns[2].meta, 4 << 8 | 2);
}

static void a_table_map_that_cannot_be_is_refused_by_name(void **state)
{
    (void)state;
    put_table(99);
    assert_int_equal(end(), RC_OK);
    assert_refused(binlog_table_parse(&table, columns, COLUMNS_MAX, &event, &err),
                   "column 1 of shop.outbox has the unknown type 99");
    put_table(COLUMN_BLOB);
    assert_int_equal(end(), RC_OK);
    assert_refused(binlog_table_parse(&table, columns, COLUMNS_MAX, &event, &err),
                   "metadata of another length");
    read_table();
    assert_refused(binlog_table_parse(&table, columns, 2, &event, &err),
                   "more columns than a table can have");
    for (size_t cut = 1; cut < event.body_len; cut++) {
        struct binlog_event less = event;

        less.body_len -= cut;
        /* Without its metadata it is whole. */
        if (cut != 3)
            assert_int_equal(binlog_table_parse(&table, columns, COLUMNS_MAX, &less, &err),
                             RC_FATAL);
    }
}

static void put_rows(void)
{
    begin(BINLOG_WRITE_ROWS);
    put(11, 6);
    put(1, 2);
    put(2, 2);
    put(3, 1);
    put(7, 1); /* all columns */
    put(0, 1);
    put(UINT64_MAX, 8);
    put(2, 2);
    put_text("hi");
    put(0x8c, 1); /* 12.34 */
    put(0x22, 1);
    put(2, 1); /* the second is NULL */
    put(5, 8);
    put(0x73, 1); /* -12.34 */
    put(0xdd, 1);
}

static struct binlog_rows rows;
static struct binlog_value values[COLUMNS_MAX];

/* Reads the first row of an event that is cut by so many bytes. */
static void read_first_row(size_t cut)
{
    bool found;

    read_table();
    put_rows();
    assert_int_equal(end(), RC_OK);
    event.body_len -= cut;
    assert_int_equal(binlog_rows_begin(&rows, &table, columns, NULL, &event, &expanded, &err),
                     RC_OK);
    assert_int_equal(binlog_rows_next(&rows, values, &found, &err), RC_OK);
    assert_true(found);
}

static void rows_have_the_values_of_their_columns(void **state)
{
    bool found;

    (void)state;
    read_first_row(0);
    assert_int_equal(values[0].kind, VALUE_UNSIGNED);
    assert_true((uint64_t)values[0].number == UINT64_MAX);
    assert_memory_equal(values[1].bytes, "hi", 2);
    assert_string_equal(values[2].text, "12.34");
    assert_int_equal(binlog_rows_next(&rows, values, &found, &err), RC_OK);
    assert_true(found);
    assert_int_equal(values[1].kind, VALUE_NULL);
    assert_string_equal(values[2].text, "-12.34");
    assert_int_equal(binlog_rows_next(&rows, values, &found, &err), RC_OK);
    assert_false(found);
}

static void rows_that_are_cut_off_or_of_another_table_are_refused(void **state)
{
    bool found;

    (void)state;
    read_first_row(1);
    assert_refused(binlog_rows_next(&rows, values, &found, &err),
                   "the rows of shop.outbox cannot be read: column 3 has type 246, in row 2");
    table.id++;
    assert_refused(binlog_rows_begin(&rows, &table, columns, NULL, &event, &expanded, &err),
                   "the id of another table");
    event.type = BINLOG_DELETE_ROWS;
    assert_refused(binlog_rows_begin(&rows, &table, columns, NULL, &event, &expanded, &err),
                   "inserts nothing");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_format_says_whether_events_have_checksums, set_up),
        cmocka_unit_test_setup(a_checksum_that_does_not_fit_is_named_with_its_place, set_up),
        cmocka_unit_test_setup(an_event_of_another_size_is_refused, set_up),
        cmocka_unit_test_setup(gtids_of_both_servers_are_told_apart, set_up),
        cmocka_unit_test_setup(a_query_is_its_text_without_the_variables_in_front, set_up),
        cmocka_unit_test_setup(a_table_map_has_types_and_signs, set_up),
        cmocka_unit_test_setup(a_table_map_that_cannot_be_is_refused_by_name, set_up),
        cmocka_unit_test_setup(rows_have_the_values_of_their_columns, set_up),
        cmocka_unit_test_setup(rows_that_are_cut_off_or_of_another_table_are_refused, set_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
