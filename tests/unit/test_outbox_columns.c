/* SPDX-License-Identifier: MIT */
/* Columns that become headers of the record. The fields of the outbox are compared with what a
 * SELECT returns by the end-to-end test of the same name. */
#include "outbox/relay/binlog/outbox_columns.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdint.h>
#include <string.h>

#define LIMIT 1000000

enum { COLUMN_ID, COLUMN_KIND, COLUMN_KEY, COLUMN_EVENT, COLUMN_PAYLOAD, COLUMN_MORE, COLUMNS };

static const char *const names[OUTBOX_FIELDS] = {
    [OUTBOX_ID] = "id",      [OUTBOX_AGGREGATE_TYPE] = "kind", [OUTBOX_AGGREGATE_ID] = "key",
    [OUTBOX_TYPE] = "event", [OUTBOX_PAYLOAD] = "payload",     [OUTBOX_SEQ] = NULL,
    [OUTBOX_HEADERS] = NULL, [OUTBOX_CREATED_AT] = NULL,
};

struct fixture {
    struct outbox_definition definition;
    struct outbox_columns columns;
    struct binlog_table table;
    struct binlog_column log_columns[COLUMNS];
    struct binlog_value values[COLUMNS];
    struct relay_row row;
    struct err err;
};

static struct binlog_value bytes_value(const char *text)
{
    return (struct binlog_value){.kind = VALUE_BYTES, .bytes = text, .len = strlen(text)};
}

/* A table whose last column has this type. */
static void set_up(struct fixture *fixture, const char *data_type, const char *column_type,
                   const char *charset, uint8_t log_type, unsigned meta)
{
    memset(fixture, 0, sizeof(*fixture));
    for (size_t i = 0; i < COLUMN_MORE; i++) {
        static const char *const columns[] = {"id", "kind", "key", "event", "payload"};

        assert_int_equal(outbox_definition_add(&fixture->definition, columns[i], "varchar",
                                               "varchar(99)", "utf8mb4", 396, NULL),
                         RC_OK);
        fixture->log_columns[i].type = COLUMN_VARCHAR;
        fixture->values[i] = bytes_value("x");
    }
    assert_int_equal(outbox_definition_add(&fixture->definition, "more", data_type, column_type,
                                           charset, 4, NULL),
                     RC_OK);
    fixture->log_columns[COLUMN_MORE].type = log_type;
    fixture->log_columns[COLUMN_MORE].meta = (uint16_t)meta;
    fixture->table = (struct binlog_table){.name = "t", .name_len = 1, .column_count = COLUMNS};
    outbox_columns_add_header(&fixture->columns, "more", "header");
}

static void tear_down(struct fixture *fixture)
{
    outbox_columns_done(&fixture->columns);
    outbox_definition_done(&fixture->definition);
}

static void make_row(struct fixture *fixture)
{
    const struct outbox_bounds bounds = {LIMIT, LIMIT};

    assert_int_equal(outbox_columns_resolve(&fixture->columns, &fixture->definition,
                                            &fixture->table, fixture->log_columns, names,
                                            &fixture->err),
                     RC_OK);
    assert_int_equal(outbox_columns_make_row(&fixture->columns, fixture->values, &bounds,
                                             &fixture->row, &fixture->err),
                     RC_OK);
}

/* len: of the expected value; SIZE_MAX for NULL. */
static void assert_header(struct fixture *fixture, const char *expected, size_t len)
{
    struct bytes extras = fixture->row.extras;
    struct bytes value;
    const char *name;

    assert_true(relay_extra_next(&extras, &name, &value));
    assert_string_equal(name, "header");
    if (len == SIZE_MAX) {
        assert_null(value.data);
    } else {
        assert_int_equal(value.len, len);
        assert_memory_equal(value.data, expected, len);
    }
    assert_false(relay_extra_next(&extras, &name, &value));
}

static const struct {
    const char *data_type;
    const char *column_type;
    const char *charset;
    uint8_t log_type;
    unsigned meta;
    struct binlog_value value;
    const char *expected; /* NULL: no value */
} kinds[] = {
    {"varchar",
     "varchar(9)",
     "utf8mb4",
     COLUMN_VARCHAR,
     36,
     {.kind = VALUE_BYTES, .bytes = "text", .len = 4},
     "text"},
    {"varchar",
     "varchar(9)",
     "latin1",
     COLUMN_VARCHAR,
     9,
     {.kind = VALUE_BYTES, .bytes = "\xfc", .len = 1},
     "\xc3\xbc"},
    {"varchar",
     "varchar(9)",
     "utf8mb4",
     COLUMN_VARCHAR,
     36,
     {.kind = VALUE_BYTES, .bytes = "", .len = 0},
     ""},
    {"varchar", "varchar(9)", "utf8mb4", COLUMN_VARCHAR, 36, {.kind = VALUE_NULL}, NULL},
    {"int", "int(11)", NULL, COLUMN_LONG, 0, {.kind = VALUE_SIGNED, .number = -7}, "-7"},
    {"int",
     "int(10) unsigned",
     NULL,
     COLUMN_LONG,
     0,
     {.kind = VALUE_SIGNED, .number = -1},
     "4294967295"},
    {"decimal",
     "decimal(5,2)",
     NULL,
     COLUMN_DECIMAL,
     5 << 8 | 2,
     {.kind = VALUE_DECIMAL, .text = "1.50", .len = 4},
     "1.50"},
    {"enum", "enum('a','b')", "utf8mb4", COLUMN_ENUM, 1, {.kind = VALUE_INDEX, .number = 2}, "b"},
    {"date",
     "date",
     NULL,
     COLUMN_DATE,
     0,
     {.kind = VALUE_DATE, .text = "2026-03-04", .len = 10},
     "2026-03-04"},
    {"time",
     "time(1)",
     NULL,
     COLUMN_TIME2,
     1,
     {.kind = VALUE_TIME, .text = "-01:02:03.4", .len = 11},
     "-01:02:03.4"},
    {"datetime",
     "datetime",
     NULL,
     COLUMN_DATETIME2,
     0,
     {.kind = VALUE_DATETIME, .text = "2026-03-04 05:06:07", .len = 19},
     "2026-03-04 05:06:07"},
    {"year", "year(4)", NULL, COLUMN_YEAR, 0, {.kind = VALUE_UNSIGNED, .number = 2026}, "2026"},
    {"year", "year(4)", NULL, COLUMN_YEAR, 0, {.kind = VALUE_UNSIGNED, .number = 0}, "0000"},
    {"timestamp",
     "timestamp",
     NULL,
     COLUMN_TIMESTAMP2,
     0,
     {.kind = VALUE_TIMESTAMP, .number = INT64_C(1772600767000000)},
     "2026-03-04 05:06:07"},
    {"timestamp",
     "timestamp(3)",
     NULL,
     COLUMN_TIMESTAMP2,
     3,
     {.kind = VALUE_TIMESTAMP, .number = INT64_C(1772600767089000)},
     "2026-03-04 05:06:07.089"},
    {"timestamp",
     "timestamp(6)",
     NULL,
     COLUMN_TIMESTAMP2,
     6,
     {.kind = VALUE_TIMESTAMP, .number = INT64_C(1772600767000001)},
     "2026-03-04 05:06:07.000001"},
    {"timestamp",
     "timestamp(2)",
     NULL,
     COLUMN_TIMESTAMP2,
     2,
     {.kind = VALUE_TIMESTAMP},
     "0000-00-00 00:00:00.00"},
};

static void values_are_the_texts_of_a_select(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        struct fixture fixture;

        set_up(&fixture, kinds[i].data_type, kinds[i].column_type, kinds[i].charset,
               kinds[i].log_type, kinds[i].meta);
        fixture.values[COLUMN_MORE] = kinds[i].value;
        make_row(&fixture);
        assert_header(&fixture, kinds[i].expected,
                      kinds[i].expected ? strlen(kinds[i].expected) : SIZE_MAX);
        assert_false(fixture.row.oversize);
        tear_down(&fixture);
    }
}

static void bytes_are_as_they_are_with_all_their_zeros(void **state)
{
    struct fixture fixture;

    (void)state;
    set_up(&fixture, "binary", "binary(4)", NULL, COLUMN_STRING, 4);
    fixture.values[COLUMN_MORE] = bytes_value("\xff");
    make_row(&fixture);
    assert_header(&fixture, "\xff\0\0\0", 4);
    tear_down(&fixture);
}

static void a_header_above_the_bound_is_left_out_and_the_row_is_refused(void **state)
{
    static char large[ROW_HEADERS_BYTES_MAX + 1];
    struct fixture fixture;

    (void)state;
    set_up(&fixture, "longtext", "longtext", "utf8mb4", COLUMN_BLOB, 4);
    memset(large, 'x', sizeof(large));
    fixture.values[COLUMN_MORE] =
        (struct binlog_value){.kind = VALUE_BYTES, .bytes = large, .len = sizeof(large)};
    make_row(&fixture);
    assert_true(fixture.row.oversize);
    assert_null(fixture.row.extras.data);
    assert_true(fixture.row.headers_size > sizeof(large));
    assert_int_equal(relay_row_check(&fixture.row, LIMIT, &fixture.err), RC_REJECT);
    assert_non_null(strstr(fixture.err.text, "headers have 655"));
    tear_down(&fixture);
}

static void a_column_of_which_no_header_can_be_made_is_named(void **state)
{
    struct fixture fixture;

    (void)state;
    set_up(&fixture, "double", "double", NULL, COLUMN_DOUBLE, 8);
    assert_int_equal(
        outbox_columns_check(&fixture.columns, &fixture.definition, names, &fixture.err),
        RC_REJECT);
    assert_string_equal(fixture.err.text, "column more has the type double, of which no header can "
                                          "be made from the binary log");
    outbox_columns_add_header(&fixture.columns, "none", "other");
    fixture.columns.headers[0] = fixture.columns.headers[1];
    assert_int_equal(
        outbox_columns_check(&fixture.columns, &fixture.definition, names, &fixture.err),
        RC_REJECT);
    assert_string_equal(fixture.err.text, "there is no column none for the header other "
                                          "(lane.NAME.header_columns)");
    tear_down(&fixture);
}

/* A lane has to stop when it starts, not at its first row. */
static void a_column_of_which_no_field_can_be_made_is_named_before_the_first_row(void **state)
{
    static const struct {
        const char *data_type;
        const char *column_type;
        const char *charset;
        enum outbox_field field;
        const char *text; /* NULL: a record can be made */
    } columns[] = {
        {"char", "char(36)", "ascii", OUTBOX_ID, NULL},
        {"uuid", "uuid", NULL, OUTBOX_ID, "column more has the type uuid, of which no id can be"},
        {"json", "json", NULL, OUTBOX_AGGREGATE_ID, "of which no aggregateid can be made"},
        {"int", "int(10) unsigned zerofill", NULL, OUTBOX_AGGREGATE_ID, "more is ZEROFILL"},
        {"varchar", "varchar(9)", "sjis", OUTBOX_TYPE, "column more has the character set sjis"},
        {"blob", "blob /*M!100301 COMPRESSED*/", NULL, OUTBOX_PAYLOAD, "more is COMPRESSED"},
        {"enum", "enum('COMPRESSED')", "utf8mb4", OUTBOX_TYPE, NULL},
        {"bigint", "bigint(20)", NULL, OUTBOX_CREATED_AT,
         "is for something else, name one that does not exist in lane.NAME.columns, as "
         "created_at=none"},
        {"datetime", "datetime(3)", NULL, OUTBOX_CREATED_AT, NULL},
        {"varchar", "varchar(9)", "utf8mb4", OUTBOX_SEQ, "more has the type varchar, of which no"},
    };
    struct fixture fixture;

    (void)state;
    for (size_t i = 0; i < sizeof(columns) / sizeof(columns[0]); i++) {
        const char *used[OUTBOX_FIELDS];

        memcpy(used, names, sizeof(used));
        used[columns[i].field] = "more";
        set_up(&fixture, columns[i].data_type, columns[i].column_type, columns[i].charset, 0, 0);
        fixture.columns.header_count = 0;
        assert_int_equal(
            outbox_columns_check(&fixture.columns, &fixture.definition, used, &fixture.err),
            columns[i].text ? RC_REJECT : RC_OK);
        if (columns[i].text)
            assert_non_null(strstr(fixture.err.text, columns[i].text));
        used[columns[i].field] = "none";
        assert_int_equal(
            outbox_columns_check(&fixture.columns, &fixture.definition, used, &fixture.err),
            columns[i].field == OUTBOX_CREATED_AT || columns[i].field == OUTBOX_SEQ ? RC_OK
                                                                                    : RC_REJECT);
        assert_int_equal(
            outbox_columns_check(&fixture.columns, &fixture.definition, NULL, &fixture.err), RC_OK);
        tear_down(&fixture);
    }
}

/* MariaDB. */
static void a_compressed_column_is_named(void **state)
{
    static const uint8_t types[] = {COLUMN_VARCHAR_COMPRESSED, COLUMN_BLOB_COMPRESSED};
    struct fixture fixture;

    (void)state;
    for (size_t i = 0; i < sizeof(types); i++) {
        set_up(&fixture, "longblob", "longblob /*M!100301 COMPRESSED*/", NULL, types[i], 4);
        assert_int_equal(outbox_columns_resolve(&fixture.columns, &fixture.definition,
                                                &fixture.table, fixture.log_columns, names,
                                                &fixture.err),
                         RC_REJECT);
        assert_non_null(strstr(fixture.err.text, "column more is COMPRESSED, and such values "
                                                 "cannot be read from the binary log"));
        tear_down(&fixture);
    }
}

/* The log has names, and its rows are older than the column. */
static void a_row_from_before_the_column_has_no_header(void **state)
{
    static const char *const columns[] = {"id", "kind", "key", "event", "payload"};
    struct fixture fixture;

    (void)state;
    set_up(&fixture, "int", "int", NULL, COLUMN_LONG, 0);
    fixture.table.names = true;
    fixture.table.column_count = COLUMN_MORE;
    for (size_t i = 0; i < COLUMN_MORE; i++) {
        fixture.log_columns[i].name = columns[i];
        fixture.log_columns[i].name_len = strlen(columns[i]);
    }
    make_row(&fixture);
    assert_null(fixture.row.extras.data);
    assert_int_equal(fixture.row.headers_size, 0);
    tear_down(&fixture);
}

static void a_payload_of_blanks_is_a_tombstone_if_that_is_wanted(void **state)
{
    static const char *const payloads[] = {"", " ", " \t\r\n"};
    struct fixture fixture;

    (void)state;
    set_up(&fixture, "int", "int", NULL, COLUMN_LONG, 0);
    for (size_t i = 0; i < sizeof(payloads) / sizeof(payloads[0]); i++) {
        fixture.values[COLUMN_PAYLOAD] = bytes_value(payloads[i]);
        fixture.columns.blank_is_null = false;
        make_row(&fixture);
        assert_non_null(fixture.row.payload.data);
        fixture.columns.blank_is_null = true;
        make_row(&fixture);
        assert_null(fixture.row.payload.data);
    }
    fixture.values[COLUMN_PAYLOAD] = bytes_value(" x ");
    make_row(&fixture);
    assert_int_equal(fixture.row.payload.len, 3);
    fixture.values[COLUMN_PAYLOAD] = bytes_value(" ");
    fixture.definition.columns[COLUMN_PAYLOAD].charset[0] = '\0';
    make_row(&fixture);
    assert_int_equal(fixture.row.payload.len, 1);
    tear_down(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_the_texts_of_a_select),
        cmocka_unit_test(bytes_are_as_they_are_with_all_their_zeros),
        cmocka_unit_test(a_header_above_the_bound_is_left_out_and_the_row_is_refused),
        cmocka_unit_test(a_column_of_which_no_header_can_be_made_is_named),
        cmocka_unit_test(a_column_of_which_no_field_can_be_made_is_named_before_the_first_row),
        cmocka_unit_test(a_compressed_column_is_named),
        cmocka_unit_test(a_row_from_before_the_column_has_no_header),
        cmocka_unit_test(a_payload_of_blanks_is_a_tombstone_if_that_is_wanted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
