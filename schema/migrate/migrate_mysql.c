/* SPDX-License-Identifier: MIT */
#include "schema/migrate/migrate_mysql.h"

#include "common/db/db.h"
#include "tallybox_version.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A statement that waits for a table blocks all later ones, so it gives up soon. The lock of a
 * runner whose machine vanished must end soon; a running one is never idle. */
#define TABLE_WAIT_S 30
#define IDLE_S 60

#define NO_RIGHT_TO_DATABASE 1044
#define NO_PRIVILEGE 1227

#define HISTORY_ROWS_MAX 10000
#define SHAPE_ROWS_MAX \
    20000 /* far more than a server allows columns and index parts in our tables */

struct migrate_mysql {
    struct migrate_store store;
    struct mysql_settings settings;
    struct db *db;
    uint64_t lock_session; /* db's session that holds the lock; 0: none does */
    struct buf sql;
};

static const char *const state_names[] = {
    [HISTORY_RUNNING] = "running",
    [HISTORY_TRYING] = "trying",
    [HISTORY_APPLIED] = "applied",
    [HISTORY_LEFT_OUT] = "left_out",
};

#define STATE_COUNT (sizeof(state_names) / sizeof(state_names[0]))

/* The name of the lock: as short as servers want it, and the same however the database's name is
 * written. */
#define LOCK_NAME "CONCAT('tallybox migrate ', LEFT(SHA2(LOWER(DATABASE()), 256), 32))"

static enum rc run_sql(struct migrate_mysql *mysql, struct db *db, struct err *err)
{
    return db_exec_buf(db, &mysql->sql, NULL, err);
}

/* Names may hold anything here: it is the user's own. */
static void put_database(struct buf *sql, const char *database)
{
    buf_char(sql, '`');
    for (; *database; database++) {
        if (*database == '`')
            buf_char(sql, '`');
        buf_char(sql, *database);
    }
    buf_char(sql, '`');
}

void migrate_mysql_put_create(struct buf *sql, const char *database)
{
    buf_text_put(sql, "CREATE DATABASE IF NOT EXISTS ");
    put_database(sql, database);
    buf_text_put(sql, " CHARACTER SET utf8mb4");
}

/* Some servers return only this to an account without privileges, whether the database exists or
 * not. */
static enum rc explain_rights(const struct migrate_mysql *mysql, enum rc rc, struct err *err)
{
    const struct mysql_settings *settings = &mysql->settings;
    char port[16] = "";

    if (!err || (err->code != NO_RIGHT_TO_DATABASE && err->code != NO_PRIVILEGE))
        return rc;
    if (!settings->socket[0])
        snprintf(port, sizeof(port), ":%lld", (long long)settings->port);
    return err_fail(
        err, RC_FATAL, err->code,
        "database %s at %s%s is missing, or account %s has no right to it (%d): check %s "
        "first; if the name is right, as an administrator run CREATE DATABASE "
        "`%s` CHARACTER SET utf8mb4, and GRANT the account its rights",
        settings->database, settings->socket[0] ? settings->socket : settings->host, port,
        settings->user, err->code,
        settings->database_place[0] ? settings->database_place : "the setting database",
        settings->database);
}

static enum rc find_database(void *ctx, bool *found, struct err *err)
{
    struct migrate_mysql *mysql = ctx;
    struct err mine = {0};
    enum rc rc = db_connect(mysql->db, &mine);

    *found = rc == RC_OK;
    if (rc != RC_OK && mine.code == DB_NO_SUCH_DATABASE)
        return RC_OK;
    rc = explain_rights(mysql, rc, &mine);
    if (rc != RC_OK && err)
        *err = mine;
    return rc;
}

/* On a connection that has not chosen the database. */
static enum rc create_database(void *ctx, struct err *err)
{
    struct migrate_mysql *mysql = ctx;
    struct mysql_settings settings = mysql->settings;
    struct db *db = NULL;
    enum rc rc;

    settings.database[0] = '\0';
    rc = db_open(&db, &settings, err);
    if (rc == RC_OK) {
        buf_reset(&mysql->sql);
        migrate_mysql_put_create(&mysql->sql, mysql->settings.database);
        rc = explain_rights(mysql, run_sql(mysql, db, err), err);
    }
    db_close(db);
    return rc;
}

static enum rc set_up_lock_session(struct migrate_mysql *mysql, struct err *err)
{
    buf_reset(&mysql->sql);
    buf_print(&mysql->sql,
              "SET SESSION wait_timeout = %d, lock_wait_timeout = "
              "CAST(LEAST(@@lock_wait_timeout, %d) AS SIGNED)",
              IDLE_S, TABLE_WAIT_S);
    return run_sql(mysql, mysql->db, err);
}

static enum rc take_lock(void *ctx, int64_t wait_ms, struct err *err)
{
    struct migrate_mysql *mysql = ctx;
    int64_t got = -1;
    uint64_t session;
    char sql[128];
    enum rc rc = db_connect(mysql->db, err);

    if (rc == RC_OK)
        rc = set_up_lock_session(mysql, err);
    if (rc != RC_OK)
        return rc;
    session = db_session(mysql->db);
    snprintf(sql, sizeof(sql), "SELECT GET_LOCK(" LOCK_NAME ", %lld)",
             (long long)((wait_ms + 999) / 1000));
    rc = db_number(mysql->db, sql, &got, NULL, err);
    if (rc != RC_OK)
        return rc;
    if (got == 0)
        return err_fail(
            err, RC_RETRY, 0,
            "another process has been migrating database %s for %lld s: wait until that "
            "is done and try again",
            mysql->settings.database, (long long)(wait_ms / 1000));
    if (got != 1 || db_session(mysql->db) != session)
        return err_fail(err, RC_RETRY, 0,
                        "the server gave no lock for migrating database %s: try again",
                        mysql->settings.database);
    mysql->lock_session = session;
    return RC_OK;
}

static void release_lock(void *ctx)
{
    struct migrate_mysql *mysql = ctx;

    if (mysql->lock_session == db_session(mysql->db))
        db_run(mysql->db, "DO RELEASE_LOCK(" LOCK_NAME ")", NULL);
    mysql->lock_session = 0;
}

/* Inside a transaction a db does not connect again, so what follows happens under the lock. A
 * statement that commits by itself ends the transaction but not this promise. */
static enum rc begin_locked(struct migrate_mysql *mysql, struct err *err)
{
    enum rc rc = db_begin(mysql->db, err);

    if (rc != RC_OK || db_session(mysql->db) == mysql->lock_session)
        return rc;
    db_rollback(mysql->db);
    return err_fail(err, RC_RETRY, 0,
                    "the connection to database %s was lost, and the lock for migrating with it: "
                    "run it again",
                    mysql->settings.database);
}

static enum rc end_locked(struct migrate_mysql *mysql, enum rc rc, struct err *err)
{
    if (rc == RC_OK)
        return db_commit(mysql->db, err);
    db_rollback(mysql->db);
    return rc;
}

static void put_state(struct migrate_mysql *mysql, const struct history_row *row)
{
    buf_print(&mysql->sql, "'%s', %d", state_names[row->state], row->statement);
}

static void put_times(struct migrate_mysql *mysql, const struct history_row *row)
{
    buf_text_put(&mysql->sql, row->state == HISTORY_APPLIED ? "UTC_TIMESTAMP(3)" : "NULL");
}

static enum rc save_in_transaction(struct migrate_mysql *mysql, const struct history_row *row,
                                   struct err *err)
{
    struct buf *sql = &mysql->sql;

    buf_reset(sql);
    buf_print(sql,
              "INSERT INTO schema_history (version, name, side, sha256, statements, baseline, "
              "program, started_at, updated_at, state, statement, finished_at) VALUES (%d, ",
              row->version);
    db_put_text(mysql->db, sql, row->name, strlen(row->name));
    buf_print(sql, ", '%s', '%s', %d, %d, '%s', UTC_TIMESTAMP(3), UTC_TIMESTAMP(3), ", row->side,
              row->sha256, row->statements, row->baseline, TALLYBOX_VERSION);
    put_state(mysql, row);
    buf_text_put(sql, ", ");
    put_times(mysql, row);
    buf_print(sql,
              ") ON DUPLICATE KEY UPDATE started_at = IF(state = 'left_out', UTC_TIMESTAMP(3), "
              "started_at), sha256 = '%s', statements = %d, state = '%s', statement = %d, "
              "baseline = %d, program = '%s', updated_at = UTC_TIMESTAMP(3), finished_at = ",
              row->sha256, row->statements, state_names[row->state], row->statement, row->baseline,
              TALLYBOX_VERSION);
    put_times(mysql, row);
    return run_sql(mysql, mysql->db, err);
}

static enum rc run_statement(void *ctx, const char *sql, size_t len, struct err *err)
{
    struct migrate_mysql *mysql = ctx;
    enum rc rc = begin_locked(mysql, err);

    if (rc != RC_OK)
        return rc;
    return end_locked(mysql, db_exec(mysql->db, sql, len, NULL, err), err);
}

/* InnoDB has a table of its own for each partition, and MariaDB drops one by its name in the folder
 * when the whole that it belongs to is not there. MySQL cleans up by itself. */
static enum rc delete_rows(void *ctx, const char *table, const char *partition, struct err *err)
{
    struct migrate_mysql *mysql = ctx;
    enum rc rc;

    if (db_server_kind(mysql->db) != DB_MARIADB)
        return RC_OK;
    rc = begin_locked(mysql, err);
    if (rc != RC_OK)
        return rc;
    buf_reset(&mysql->sql);
    buf_print(&mysql->sql, "DROP TABLE IF EXISTS `#mysql50#%s#P#%s`", table, partition);
    return end_locked(mysql, run_sql(mysql, mysql->db, err), err);
}

static enum rc save_row(void *ctx, const struct history_row *row, struct err *err)
{
    struct migrate_mysql *mysql = ctx;
    enum rc rc = begin_locked(mysql, err);

    if (rc != RC_OK)
        return rc;
    return end_locked(mysql, save_in_transaction(mysql, row, err), err);
}

static enum rc run_and_save(void *ctx, const char *sql, size_t len, const struct history_row *row,
                            struct err *err)
{
    struct migrate_mysql *mysql = ctx;
    enum rc rc = begin_locked(mysql, err);

    if (rc != RC_OK)
        return rc;
    rc = db_exec(mysql->db, sql, len, NULL, err);
    if (rc == RC_OK)
        rc = save_in_transaction(mysql, row, err);
    return end_locked(mysql, rc, err);
}

struct history_reading {
    history_on_row on_row;
    void *ctx;
};

static void copy_column(char *out, size_t size, const struct db_row *row, size_t column)
{
    snprintf(out, size, "%s", row->columns[column] ? row->columns[column] : "");
}

static enum rc read_history_row(void *ctx, const struct db_row *columns, struct err *err)
{
    struct history_reading *reading = ctx;
    struct history_row row = {0};
    char word[16];
    size_t state = 0;

    row.version = (int)db_column_i64(columns, 0);
    copy_column(row.name, sizeof(row.name), columns, 1);
    copy_column(row.side, sizeof(row.side), columns, 2);
    copy_column(row.sha256, sizeof(row.sha256), columns, 3);
    copy_column(word, sizeof(word), columns, 4);
    while (state < STATE_COUNT && strcmp(state_names[state], word) != 0)
        state++;
    if (state == STATE_COUNT)
        return err_fail(err, RC_FATAL, 0,
                        "schema_history holds the state '%s' for version %d, which this "
                        "program does not know: use a newer tallybox",
                        word, row.version);
    row.state = (enum history_state)state;
    row.statement = (int)db_column_i64(columns, 5);
    row.statements = (int)db_column_i64(columns, 6);
    row.baseline = db_column_i64(columns, 7) != 0;
    copy_column(row.finished_at, sizeof(row.finished_at), columns, 8);
    return reading->on_row(reading->ctx, &row, err);
}

static enum rc read_history(void *ctx, bool *found, history_on_row on_row, void *row_ctx,
                            struct err *err)
{
    struct migrate_mysql *mysql = ctx;
    struct history_reading reading = {on_row, row_ctx};
    struct err mine = {0};
    enum rc rc;

    buf_reset(&mysql->sql);
    buf_print(&mysql->sql,
              "SELECT version, name, side, sha256, state, statement, statements, baseline, "
              "DATE_FORMAT(finished_at, '%%Y-%%m-%%d %%H:%%i:%%s') FROM schema_history "
              "ORDER BY version LIMIT %d",
              HISTORY_ROWS_MAX);
    rc = db_query_buf(mysql->db, &mysql->sql, read_history_row, &reading, &mine);
    *found = rc == RC_OK;
    if (rc != RC_OK && mine.code == DB_NO_SUCH_TABLE)
        return RC_OK;
    if (rc != RC_OK && mine.code == DB_NO_SUCH_COLUMN)
        return err_fail(err, RC_FATAL, 0,
                        "the table schema_history in database %s is not tallybox's (%s): use "
                        "another database for tallybox, or rename that table",
                        mysql->settings.database, mine.text);
    if (rc != RC_OK && err)
        *err = mine;
    return rc;
}

struct shape_reading {
    struct db *db;
    struct shape *actual;
    struct shape_item index; /* the index under way */
};

static const char *get_text(const struct db_row *row, size_t column)
{
    return row->columns[column] ? row->columns[column] : "";
}

static enum rc add_table_row(void *ctx, const struct db_row *row, struct err *err)
{
    struct shape_reading *reading = ctx;
    char text[SHAPE_TEXT_SIZE];

    /* A view has no engine. It must not pass for a table. */
    shape_table_text(row->columns[1] ? row->columns[1] : "none", get_text(row, 2), text);
    return shape_put(reading->actual, SHAPE_TABLE, get_text(row, 0), NULL, text, err);
}

/* MySQL reports whether a default is an expression; MariaDB writes SQL: 'text', 5, NULL, f(x). */
static void copy_default(struct db *db, const char *text, bool is_expression,
                         struct shape_column *column)
{
    size_t len = text ? strlen(text) : 0;
    bool quoted = len >= 2 && text[0] == '\'' && text[len - 1] == '\'';
    bool number = len > 0 && strspn(text, "-.0123456789") == len;

    if (!text || (db_server_kind(db) == DB_MARIADB && strcmp(text, "NULL") == 0))
        return;
    column->standard_kind = SHAPE_DEFAULT_LITERAL;
    if (is_expression || (db_server_kind(db) == DB_MARIADB && !quoted && !number))
        column->standard_kind = SHAPE_DEFAULT_EXPRESSION;
    if (db_server_kind(db) == DB_MARIADB && quoted)
        snprintf(column->standard, sizeof(column->standard), "%.*s", (int)(len - 2), text + 1);
    else
        snprintf(column->standard, sizeof(column->standard), "%s", text);
}

/* The words of information_schema.columns.extra, in lower case. */
static void copy_extra(const char *extra, struct shape_column *column)
{
    column->auto_increment = strstr(extra, "auto_increment") != NULL;
    column->on_update = strstr(extra, "on update") != NULL;
    if (strstr(extra, "stored generated") || strstr(extra, "virtual generated"))
        snprintf(column->generated, sizeof(column->generated), "%s",
                 strstr(extra, "stored") ? "stored" : "virtual");
}

static enum rc add_column_row(void *ctx, const struct db_row *row, struct err *err)
{
    struct shape_reading *reading = ctx;
    struct shape_column column = {0};
    const char *extra = get_text(row, 6);
    char text[SHAPE_TEXT_SIZE];

    snprintf(column.type, sizeof(column.type), "%s", get_text(row, 2));
    snprintf(column.collation, sizeof(column.collation), "%s", get_text(row, 5));
    column.nullable = strcmp(get_text(row, 3), "YES") == 0;
    copy_default(reading->db, row->columns[4], strstr(extra, "default_generated") != NULL, &column);
    copy_extra(extra, &column);
    shape_column_text(&column, text);
    return shape_put(reading->actual, SHAPE_COLUMN, get_text(row, 0), get_text(row, 1), text, err);
}

/* One row per part of an index; the index is written again with each, a little longer. */
static enum rc add_index_row(void *ctx, const struct db_row *row, struct err *err)
{
    struct shape_reading *reading = ctx;
    struct shape_item *index = &reading->index;
    const char *table = get_text(row, 0);
    const char *name = get_text(row, 1);

    if (strcmp(index->table, table) != 0 || strcmp(index->name, name) != 0) {
        snprintf(index->table, sizeof(index->table), "%s", table);
        snprintf(index->name, sizeof(index->name), "%s", name);
        index->text[0] = '\0';
    }
    /* A part without a column is an expression, which MySQL has. */
    shape_index_part(index->text, strcmp(name, "PRIMARY") == 0, db_column_i64(row, 2) == 0,
                     row->columns[3] ? row->columns[3] : "expression", row->columns[4],
                     strcmp(get_text(row, 5), "D") == 0);
    return shape_put(reading->actual, SHAPE_INDEX, table, name, index->text, err);
}

/* WHERE <prefix>table_name is one of the tables of expected. */
static void put_where(struct db *db, struct buf *sql, const struct shape *expected)
{
    bool first = true;

    buf_text_put(sql, " WHERE t.table_schema = DATABASE() AND t.table_name IN (");
    for (size_t i = 0; i < expected->count; i++) {
        const struct shape_item *item = &expected->items[i];

        if (item->kind != SHAPE_TABLE)
            continue;
        if (!first)
            buf_char(sql, ',');
        db_put_text(db, sql, item->table, strlen(item->table));
        first = false;
    }
    buf_text_put(sql, first ? "NULL)" : ")");
}

struct shape_query {
    const char *select;
    const char *order;
    db_on_row on_row;
};

static const struct shape_query shape_queries[] = {
    {"SELECT t.table_name, t.engine, (SELECT CONCAT(MIN(p.partition_method), '(', "
     "MIN(p.partition_expression), ')') FROM information_schema.partitions p WHERE "
     "p.table_schema = t.table_schema AND p.table_name = t.table_name AND "
     "p.partition_name IS NOT NULL) FROM information_schema.tables t",
     "1", add_table_row},
    {"SELECT t.table_name, t.column_name, t.column_type, t.is_nullable, t.column_default, "
     "t.collation_name, LOWER(t.extra) FROM information_schema.columns t",
     "1, t.ordinal_position", add_column_row},
    {"SELECT t.table_name, t.index_name, t.non_unique, t.column_name, t.sub_part, t.collation "
     "FROM information_schema.statistics t",
     "1, 2, t.seq_in_index", add_index_row},
};

static enum rc read_shape(void *ctx, const struct shape *expected, struct shape *actual,
                          struct err *err)
{
    struct migrate_mysql *mysql = ctx;
    struct shape_reading reading = {.db = mysql->db, .actual = actual};
    enum rc rc = db_connect(mysql->db, err);

    for (size_t i = 0; rc == RC_OK && i < sizeof(shape_queries) / sizeof(shape_queries[0]); i++) {
        buf_reset(&mysql->sql);
        buf_text_put(&mysql->sql, shape_queries[i].select);
        put_where(mysql->db, &mysql->sql, expected);
        buf_print(&mysql->sql, " ORDER BY %s LIMIT %d", shape_queries[i].order, SHAPE_ROWS_MAX);
        rc = db_query_buf(mysql->db, &mysql->sql, shape_queries[i].on_row, &reading, err);
    }
    return rc;
}

static enum rc find_item(void *ctx, enum shape_kind kind, const char *table, const char *name,
                         bool *exists, struct err *err)
{
    static const char *const views[] = {
        [SHAPE_TABLE] = "tables", [SHAPE_COLUMN] = "columns", [SHAPE_INDEX] = "statistics"};
    static const char *const columns[] = {
        [SHAPE_TABLE] = NULL, [SHAPE_COLUMN] = "column_name", [SHAPE_INDEX] = "index_name"};
    struct migrate_mysql *mysql = ctx;
    struct buf *sql = &mysql->sql;
    int64_t count = 0;
    enum rc rc;

    buf_reset(sql);
    buf_print(sql,
              "SELECT COUNT(*) FROM information_schema.%s WHERE table_schema = DATABASE() AND "
              "table_name = ",
              views[kind]);
    db_put_text(mysql->db, sql, table, strlen(table));
    if (columns[kind]) {
        buf_print(sql, " AND %s = ", columns[kind]);
        db_put_text(mysql->db, sql, name, strlen(name));
    }
    rc = sql->failed ? err_fail(err, RC_FATAL, 0, "out of memory")
                     : db_number(mysql->db, buf_text(sql), &count, NULL, err);
    *exists = count > 0;
    return rc;
}

enum rc migrate_mysql_open(struct migrate_mysql **out, const struct mysql_settings *settings,
                           int64_t statement_wait_ms, struct err *err)
{
    struct migrate_mysql *mysql = calloc(1, sizeof(*mysql));
    enum rc rc;

    *out = NULL;
    if (!mysql)
        return err_fail(err, RC_FATAL, 0, "out of memory");
    mysql->settings = *settings;
    mysql->settings.query_timeout_ms = statement_wait_ms;
    mysql->store = (struct migrate_store){
        .ctx = mysql,
        .find_database = find_database,
        .create_database = create_database,
        .lock = take_lock,
        .unlock = release_lock,
        .read_history = read_history,
        .exists = find_item,
        .run = run_statement,
        .delete_rows = delete_rows,
        .save = save_row,
        .run_and_save = run_and_save,
        .read_shape = read_shape,
    };
    rc = db_open(&mysql->db, &mysql->settings, err);
    if (rc != RC_OK) {
        migrate_mysql_close(mysql);
        return rc;
    }
    *out = mysql;
    return RC_OK;
}

void migrate_mysql_close(struct migrate_mysql *mysql)
{
    if (!mysql)
        return;
    db_close(mysql->db);
    buf_done(&mysql->sql);
    free(mysql);
}

const struct migrate_store *migrate_mysql_store(const struct migrate_mysql *mysql)
{
    return &mysql->store;
}
