/* SPDX-License-Identifier: MIT */
#include "outbox/relay/binlog/written_tables.h"

#include "outbox/relay/binlog/event.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <string.h>

#define CHECKSUM "sum."

static const char *const tables[] = {"outbox", "outbox_1", "outbox_2"};

static bool has_checksum = true;

static uint64_t find(uint8_t type, const char *body, size_t body_len)
{
    uint8_t event[256] = {0};
    size_t len = BINLOG_HEADER_SIZE + body_len + (has_checksum ? strlen(CHECKSUM) : 0);

    event[4] = type;
    event[9] = (uint8_t)len;
    memcpy(event + BINLOG_HEADER_SIZE, body, body_len);
    memcpy(event + BINLOG_HEADER_SIZE + body_len, CHECKSUM, strlen(CHECKSUM));
    return written_tables_find("shop", tables, 3, event, len);
}

/* id, flags, schema and name with their lengths, and one column. */
#define MAP(schema_len, schema, name_len, name) \
    "\1\0\0\0\0\0\1\0" schema_len schema "\0" name_len name "\0\1\3\0\0"

#define FIND_MAP(map) find(BINLOG_TABLE_MAP, map, sizeof(map) - 1)

static void the_map_of_a_table_sets_its_bit(void **state)
{
    (void)state;
    assert_int_equal(FIND_MAP(MAP("\4", "shop", "\6", "outbox")), 1);
    assert_int_equal(FIND_MAP(MAP("\4", "shop", "\10", "outbox_2")), 4);
    assert_int_equal(FIND_MAP(MAP("\4", "SHOP", "\10", "Outbox_1")), 2);
    assert_int_equal(FIND_MAP(MAP("\4", "shop", "\10", "outbox_3")), 0);
    assert_int_equal(FIND_MAP(MAP("\4", "mall", "\6", "outbox")), 0);
}

static void other_events_set_none(void **state)
{
    (void)state;
    assert_int_equal(find(BINLOG_XID, "12345678", 8), 0);
    assert_int_equal(find(BINLOG_HEARTBEAT, "b.000001", 8), 0);
}

static uint64_t find_statement(const char *text)
{
    char body[128] = {0};
    size_t len = 13 + 1; /* of what stands before the text, of a schema without a name */

    memcpy(body + len, text, strlen(text));
    return find(BINLOG_QUERY, body, len + strlen(text));
}

/* binlog_format = MIXED, which is MariaDB's default, logs statements that are not rows. */
static void a_statement_may_write_any_table_unless_it_controls_the_transaction(void **state)
{
    (void)state;
    assert_int_equal(find_statement("INSERT INTO outbox VALUES (1)"), 7);
    assert_int_equal(find_statement("RENAME TABLE new TO outbox"), 7);
    assert_int_equal(find_statement("XA COMMIT X'78',X'',1"), 7);
    assert_int_equal(find(BINLOG_QUERY_COMPRESSED, "zlib", 4), 7);
    assert_int_equal(find(BINLOG_QUERY, "cut off", 7), 7);
    assert_int_equal(find_statement("BEGIN"), 0);
    assert_int_equal(find_statement("COMMIT"), 0);
    assert_int_equal(find_statement("SAVEPOINT a"), 0);
    assert_int_equal(find_statement("XA START X'78',X'',1"), 0);
    has_checksum = false;
    assert_int_equal(find_statement("BEGIN"), 0);
    assert_int_equal(find_statement("INSERT INTO outbox VALUES (1)"), 7);
    has_checksum = true;
}

static void what_cannot_be_read_may_have_rows_of_any_table(void **state)
{
    static const uint8_t cut_off[] = {0, 0, 0};

    (void)state;
    assert_int_equal(find(BINLOG_TRANSACTION_PAYLOAD, "zstd", 4), 7);
    assert_int_equal(find(BINLOG_TABLE_MAP, "\1\0\0\0\0\0\1\0\377", 9), 7);
    assert_int_equal(written_tables_find("shop", tables, 3, cut_off, sizeof(cut_off)), 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_map_of_a_table_sets_its_bit),
        cmocka_unit_test(other_events_set_none),
        cmocka_unit_test(a_statement_may_write_any_table_unless_it_controls_the_transaction),
        cmocka_unit_test(what_cannot_be_read_may_have_rows_of_any_table),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
