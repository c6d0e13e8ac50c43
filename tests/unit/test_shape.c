/* SPDX-License-Identifier: MIT */
#include "schema/migrate/ddl.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static enum rc apply(struct shape *shape, const char *sql, struct err *err)
{
    const struct sql_statement statement = {sql, strlen(sql)};

    return ddl_apply(shape, &statement, err);
}

static void applied(struct shape *shape, const char *sql)
{
    struct err err = {0};

    if (apply(shape, sql, &err) != RC_OK)
        fail_msg("%s: %s", sql, err.text);
}

static void refused(struct shape *shape, const char *sql, const char *sentence)
{
    struct err err = {0};

    assert_int_equal(apply(shape, sql, &err), RC_FATAL);
    if (!strstr(err.text, sentence))
        fail_msg("%s\n  said     %s\n  expected %s", sql, err.text, sentence);
}

static void has(const struct shape *shape, enum shape_kind kind, const char *table,
                const char *name, const char *text)
{
    const struct shape_item *item = shape_find(shape, kind, table, name);

    if (!item)
        fail_msg("no %s.%s", table, name ? name : "");
    assert_string_equal(item->text, text);
}

#define OPTIONS " ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin"

static void a_table_brings_its_columns_and_indexes(void **state)
{
    struct shape shape = {0};

    (void)state;
    applied(&shape,
            "CREATE TABLE t (\n"
            "  id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT COMMENT 'it''s, (mine)',\n"
            "  `day` DATE NULL, -- words\n"
            "  word VARCHAR(20) NOT NULL DEFAULT 'a b',\n"
            "  own CHAR(3) CHARACTER SET ascii COLLATE ascii_bin NOT NULL CHECK (own <> ''),\n"
            "  price DECIMAL(10, 2) NOT NULL DEFAULT -1,\n"
            "  at DATETIME(3) NOT NULL DEFAULT (UTC_TIMESTAMP(3)),\n"
            "  seen DATETIME(3) DEFAULT CURRENT_TIMESTAMP(3) ON UPDATE "
            "CURRENT_TIMESTAMP(3),\n"
            "  half BIGINT GENERATED ALWAYS AS (id / 2) STORED,\n"
            "  PRIMARY KEY (id),\n"
            "  UNIQUE KEY uk (word(5), `day` DESC),\n"
            "  KEY ix (own)\n)" OPTIONS " COMMENT = 'x'");
    has(&shape, SHAPE_TABLE, "t", NULL, "engine innodb");
    has(&shape, SHAPE_COLUMN, "t", "id", "bigint unsigned not null auto_increment");
    has(&shape, SHAPE_COLUMN, "t", "day", "date null");
    has(&shape, SHAPE_COLUMN, "t", "word", "varchar(20) utf8mb4_bin not null default 'a b'");
    has(&shape, SHAPE_COLUMN, "t", "own", "char(3) ascii_bin not null");
    has(&shape, SHAPE_COLUMN, "t", "price", "decimal(10,2) not null default '-1'");
    has(&shape, SHAPE_COLUMN, "t", "at", "datetime(3) not null default (utc_timestamp(3))");
    has(&shape, SHAPE_COLUMN, "t", "seen",
        "datetime(3) null default (current_timestamp(3)) on update now");
    has(&shape, SHAPE_COLUMN, "t", "half", "bigint null generated stored");
    has(&shape, SHAPE_INDEX, "t", "PRIMARY", "primary key (id)");
    has(&shape, SHAPE_INDEX, "t", "uk", "unique key (word(5), day desc)");
    has(&shape, SHAPE_INDEX, "t", "ix", "key (own)");
    assert_int_equal(shape.count, 12);
    shape_done(&shape);
}

static void of_partitions_only_the_way_of_cutting_counts(void **state)
{
    struct shape shape = {0};

    (void)state;
    applied(&shape,
            "CREATE TABLE t (d DATE NOT NULL)" OPTIONS " PARTITION BY RANGE COLUMNS (`d`) (\n"
            "PARTITION a VALUES LESS THAN ('2026-01-01'),\n"
            "PARTITION b VALUES LESS THAN (MAXVALUE))");
    has(&shape, SHAPE_TABLE, "t", NULL, "engine innodb, partitioned by range columns(d)");
    shape_done(&shape);
}

static void later_statements_change_the_shape(void **state)
{
    struct shape shape = {0};

    (void)state;
    applied(&shape, "CREATE TABLE t (a INT NOT NULL, b INT NOT NULL, KEY ix (b))" OPTIONS);
    applied(&shape, "ALTER TABLE t ADD COLUMN c INT NULL AFTER a, ADD UNIQUE KEY uk (c), "
                    "MODIFY COLUMN a BIGINT NOT NULL, DROP KEY ix, DROP COLUMN b");
    applied(&shape, "CREATE UNIQUE INDEX ia ON t (a)");
    has(&shape, SHAPE_COLUMN, "t", "a", "bigint not null");
    has(&shape, SHAPE_COLUMN, "t", "c", "int null");
    has(&shape, SHAPE_INDEX, "t", "uk", "unique key (c)");
    has(&shape, SHAPE_INDEX, "t", "ia", "unique key (a)");
    assert_null(shape_find(&shape, SHAPE_COLUMN, "t", "b"));
    assert_null(shape_find(&shape, SHAPE_INDEX, "t", "ix"));
    applied(&shape, "DROP INDEX ia ON t");
    assert_null(shape_find(&shape, SHAPE_INDEX, "t", "ia"));
    applied(&shape, "INSERT INTO t (a) VALUES (1), (2)");
    applied(&shape, "DROP TABLE t");
    assert_int_equal(shape.count, 0);
    shape_done(&shape);
}

static void a_statement_that_cannot_work_is_refused(void **state)
{
    struct shape shape = {0};

    (void)state;
    applied(&shape, "CREATE TABLE t (a INT, ab INT, KEY ix (ab, a DESC))" OPTIONS);
    refused(&shape, "CREATE TABLE t (a INT)" OPTIONS, "t is there already");
    refused(&shape, "ALTER TABLE t ADD COLUMN a INT", "t.a is there already");
    refused(&shape, "ALTER TABLE t DROP COLUMN b", "there is no t.b");
    refused(&shape, "ALTER TABLE t DROP COLUMN a", "column t.a is in index ix");
    refused(&shape, "ALTER TABLE t MODIFY b INT", "there is no t.b");
    refused(&shape, "ALTER TABLE u ADD COLUMN a INT", "there is no table u");
    refused(&shape, "DROP INDEX iy ON t", "there is no t.iy");
    refused(&shape, "DROP TABLE t, u", "expected the end of the statement at: , u");
    shape_done(&shape);
}

/* On a shape of its own, because a failure may leave half a statement in it. */
static void unreadable(const char *sql, const char *sentence)
{
    struct shape shape = {0};

    refused(&shape, sql, sentence);
    shape_done(&shape);
}

static void a_statement_that_the_shape_cannot_follow_is_refused(void **state)
{
    (void)state;
    unreadable("TRUNCATE TABLE t", "expected CREATE, DROP, ALTER");
    unreadable("CREATE VIEW v AS SELECT 1", "expected TABLE or INDEX at: VIEW");
    unreadable("CREATE TABLE IF NOT EXISTS t (a INT)" OPTIONS, "not supported) at: IF");
    unreadable("CREATE TABLE t (a ENUM('x'))" OPTIONS, "expected a known type at: ENUM");
    unreadable("CREATE TABLE t (a INT REFERENCES u (a))" OPTIONS,
               "known attribute of a column at: REFERENCES");
    unreadable("CREATE TABLE t (a INT, CONSTRAINT c CHECK (a > 1))" OPTIONS, "CONSTRAINT");
    unreadable("CREATE TABLE t (a INT, CHECK (a > 1))" OPTIONS, "not supported) at: CHECK");
    unreadable("CREATE TABLE t (a INT CHECK a > 1)" OPTIONS, "expected ( at: a > 1");
    unreadable("CREATE TABLE t (a INT, KEY (a))" OPTIONS, "expected a name at: (a)");
    unreadable("CREATE TABLE t (a INT" OPTIONS, "expected ) at the end");
    unreadable("CREATE TABLE t (a INT)", "expected ENGINE = before");
    unreadable("CREATE TABLE t (a INT)" OPTIONS " ROW_FORMAT = DYNAMIC", "ROW_FORMAT");
    unreadable("ALTER TABLE t RENAME TO u", "expected ADD, MODIFY or DROP at: RENAME");
}

static void a_text_without_a_collation_is_refused(void **state)
{
    (void)state;
    unreadable("CREATE TABLE t (a TEXT) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4",
               "expected COLLATE");
    unreadable("CREATE TABLE t (a TEXT CHARACTER SET ascii)" OPTIONS, "expected COLLATE");
    unreadable("ALTER TABLE t ADD COLUMN a TEXT", "expected COLLATE");
}

static void effect_is(const char *sql, enum ddl_effect_kind kind, enum shape_kind what,
                      const char *table, const char *name)
{
    const struct sql_statement statement = {sql, strlen(sql)};
    struct ddl_effect effect;

    assert_int_equal(ddl_effect(&statement, &effect, NULL), RC_OK);
    assert_int_equal(effect.kind, kind);
    assert_int_equal(effect.what, what);
    assert_string_equal(effect.table, table);
    assert_string_equal(effect.name, name);
}

static void every_statement_has_an_effect_to_look_for(void **state)
{
    (void)state;
    effect_is("CREATE TABLE t (a INT, KEY ix (a))" OPTIONS, DDL_APPEARS, SHAPE_TABLE, "t", "");
    effect_is("DROP TABLE t", DDL_DISAPPEARS, SHAPE_TABLE, "t", "");
    effect_is("ALTER TABLE t ADD COLUMN a INT, DROP COLUMN b", DDL_APPEARS, SHAPE_COLUMN, "t", "a");
    effect_is("ALTER TABLE t DROP COLUMN b", DDL_DISAPPEARS, SHAPE_COLUMN, "t", "b");
    effect_is("ALTER TABLE t MODIFY a INT, ADD INDEX ix (a)", DDL_APPEARS, SHAPE_INDEX, "t", "ix");
    effect_is("CREATE INDEX ix ON t (a)", DDL_APPEARS, SHAPE_INDEX, "t", "ix");
    effect_is("DROP INDEX ix ON t", DDL_DISAPPEARS, SHAPE_INDEX, "t", "ix");
    effect_is("ALTER TABLE t MODIFY a INT", DDL_REPEATABLE, SHAPE_TABLE, "", "");
    effect_is("UPDATE t SET a = 1", DDL_ROWS, SHAPE_TABLE, "", "");
    effect_is("delete from t", DDL_ROWS, SHAPE_TABLE, "", "");
}

static void texts_that_servers_write_differently_are_equal(void **state)
{
    struct shape_column written = {.type = "BIGINT UNSIGNED"};
    struct shape_column mariadb = {.type = "bigint(20) unsigned"};
    char a[SHAPE_TEXT_SIZE];
    char b[SHAPE_TEXT_SIZE];

    (void)state;
    shape_column_text(&written, a);
    shape_column_text(&mariadb, b);
    assert_string_equal(a, b);
    written = (struct shape_column){.type = "DATETIME(3)",
                                    .standard_kind = SHAPE_DEFAULT_EXPRESSION,
                                    .standard = "( UTC_TIMESTAMP (3) )"};
    mariadb = (struct shape_column){.type = "datetime(3)",
                                    .standard_kind = SHAPE_DEFAULT_EXPRESSION,
                                    .standard = "utc_timestamp(3)"};
    shape_column_text(&written, a);
    shape_column_text(&mariadb, b);
    assert_string_equal(a, b);
    written.standard_kind = SHAPE_DEFAULT_LITERAL;
    shape_column_text(&written, a);
    assert_string_not_equal(a, b);
    snprintf(mariadb.standard, sizeof(mariadb.standard), "(a)+(b)");
    shape_column_text(&mariadb, b);
    assert_string_equal(b, "datetime(3) not null default ((a)+(b))");
}

static void long_texts_are_cut_and_nothing_else(void **state)
{
    char text[SHAPE_TEXT_SIZE] = "";

    (void)state;
    for (int i = 0; i < 40; i++)
        shape_index_part(text, false, true, "a_column_with_quite_a_long_name", NULL, false);
    assert_int_equal(strlen(text), SHAPE_TEXT_SIZE - 1);
}

struct drifts {
    char text[2048];
};

static void on_drift(void *ctx, const struct shape_drift *drift)
{
    struct drifts *drifts = ctx;
    size_t len = strlen(drifts->text);

    snprintf(drifts->text + len, sizeof(drifts->text) - len, "%d %s.%s: %s, %s\n", (int)drift->kind,
             drift->table, drift->name, drift->expected ? drift->expected : "-",
             drift->actual ? drift->actual : "-");
}

static void equal_shapes_do_not_drift(void **state)
{
    struct shape a = {0};
    struct shape b = {0};
    struct drifts drifts = {{0}};

    (void)state;
    applied(&a, "CREATE TABLE t (a INT, KEY ix (a))" OPTIONS);
    applied(&b, "CREATE TABLE somebody_elses (z INT)" OPTIONS);
    applied(&b, "CREATE TABLE t (a INT)" OPTIONS);
    applied(&b, "CREATE INDEX ix ON t (a)");
    assert_int_equal(shape_compare(&a, &b, on_drift, &drifts), 0);
    assert_string_equal(drifts.text, "");
    shape_done(&a);
    shape_done(&b);
}

static void a_unique_key_on_the_event_id_is_the_writers_choice(void **state)
{
    struct shape a = {0};
    struct shape b = {0};
    struct drifts drifts = {{0}};

    (void)state;
    applied(&a, "CREATE TABLE outbox (id INT)" OPTIONS);
    applied(&a, "CREATE TABLE t (id INT)" OPTIONS);
    applied(&b, "CREATE TABLE outbox (id INT, UNIQUE KEY uk (id), KEY ix (id))" OPTIONS);
    applied(&b, "CREATE TABLE t (id INT, UNIQUE KEY uk (id))" OPTIONS);
    assert_int_equal(shape_compare(&a, &b, on_drift, &drifts), 2);
    assert_string_equal(drifts.text, "2 outbox.ix: -, key (id)\n"
                                     "2 t.uk: -, unique key (id)\n");
    shape_done(&a);
    shape_done(&b);
}

static void each_difference_is_reported_once(void **state)
{
    struct shape a = {0};
    struct shape b = {0};
    struct drifts drifts = {{0}};

    (void)state;
    applied(&a, "CREATE TABLE gone (x INT, KEY ix (x))" OPTIONS);
    applied(&a, "CREATE TABLE t (a INT, b INT, c INT, KEY ia (a), KEY ib (b))" OPTIONS);
    applied(&b, "CREATE TABLE t (a BIGINT, c INT, d INT, UNIQUE KEY ia (a), KEY id (d))" OPTIONS);
    assert_int_equal(shape_compare(&a, &b, on_drift, &drifts), 7);
    assert_string_equal(drifts.text, "0 gone.: engine innodb, -\n"
                                     "1 t.a: int null, bigint null\n"
                                     "1 t.b: int null, -\n"
                                     "2 t.ia: key (a), unique key (a)\n"
                                     "2 t.ib: key (b), -\n"
                                     "1 t.d: -, int null\n"
                                     "2 t.id: -, key (d)\n");
    shape_done(&a);
    shape_done(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_table_brings_its_columns_and_indexes),
        cmocka_unit_test(of_partitions_only_the_way_of_cutting_counts),
        cmocka_unit_test(later_statements_change_the_shape),
        cmocka_unit_test(a_statement_that_cannot_work_is_refused),
        cmocka_unit_test(a_statement_that_the_shape_cannot_follow_is_refused),
        cmocka_unit_test(a_text_without_a_collation_is_refused),
        cmocka_unit_test(every_statement_has_an_effect_to_look_for),
        cmocka_unit_test(texts_that_servers_write_differently_are_equal),
        cmocka_unit_test(long_texts_are_cut_and_nothing_else),
        cmocka_unit_test(equal_shapes_do_not_drift),
        cmocka_unit_test(a_unique_key_on_the_event_id_is_the_writers_choice),
        cmocka_unit_test(each_difference_is_reported_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
