/* SPDX-License-Identifier: MIT */
#include "schema/migrate/ddl.h"

#include <stdio.h>
#include <string.h>

#define EXCERPT 30 /* characters of the SQL in an error */

/* The reader looks one token ahead. */
struct ddl_reader {
    struct sql_scan scan;
    struct sql_token token; /* the next one */
    struct err *err;
    char collation[SHAPE_NAME_SIZE]; /* of the table; empty: not known here */
};

static enum rc next_token(struct ddl_reader *reader)
{
    return sql_token_next(&reader->scan, &reader->token, reader->err);
}

/* Takes the word if it is the next token. What cannot be scanned behind a word is found when the
 * next one is asked for: the token then stays at its end. */
static bool take_word(struct ddl_reader *reader, const char *word)
{
    if (!sql_token_is(&reader->token, word))
        return false;
    if (next_token(reader) != RC_OK) {
        reader->token.kind = SQL_END;
        reader->token.len = 0;
    }
    return true;
}

/* RC_FATAL: "expected <what> at: <the SQL there>". */
static enum rc fail_expected(const struct ddl_reader *reader, const char *what)
{
    const char *at = reader->token.at;
    size_t rest = (size_t)(reader->scan.end - at);
    size_t len = 0;

    while (len < rest && len < EXCERPT && at[len] != '\n')
        len++;
    if (len == 0)
        return err_fail(reader->err, RC_FATAL, 0, "expected %s at the end", what);
    return err_fail(reader->err, RC_FATAL, 0, "expected %s at: %.*s", what, (int)len, at);
}

static enum rc want_word(struct ddl_reader *reader, const char *word)
{
    return take_word(reader, word) ? RC_OK : fail_expected(reader, word);
}

/* Takes the name of a table, column or index. */
static enum rc take_name(struct ddl_reader *reader, char name[SHAPE_NAME_SIZE])
{
    static const char *const reserved[] = {"IF",    "CONSTRAINT", "FOREIGN",
                                           "CHECK", "FULLTEXT",   "SPATIAL"};

    for (size_t i = 0; i < sizeof(reserved) / sizeof(reserved[0]); i++) {
        if (sql_token_is(&reader->token, reserved[i]))
            return fail_expected(reader, "a name (this word is not supported)");
    }
    if ((reader->token.kind != SQL_WORD && reader->token.kind != SQL_NAME) ||
        !sql_token_plain(&reader->token, name, SHAPE_NAME_SIZE))
        return fail_expected(reader, "a name");
    return next_token(reader);
}

/* Takes "( ... )" with its content, and keeps it as text with its brackets; out may be NULL. */
static enum rc take_brackets(struct ddl_reader *reader, char *out, size_t size)
{
    const char *from = reader->token.at;
    const char *end;
    int depth = 0;
    enum rc rc = RC_OK;

    if (!sql_token_is(&reader->token, "("))
        return fail_expected(reader, "(");
    do {
        if (reader->token.kind == SQL_END)
            return fail_expected(reader, ")");
        depth += sql_token_is(&reader->token, "(") - sql_token_is(&reader->token, ")");
        end = reader->token.at + reader->token.len;
        rc = next_token(reader);
    } while (rc == RC_OK && depth > 0);
    if (rc == RC_OK && out) {
        if ((size_t)(end - from) >= size)
            return fail_expected(reader, "something shorter before");
        snprintf(out, size, "%.*s", (int)(end - from), from);
    }
    return rc;
}

struct type {
    const char *name;
    bool is_text; /* has a collation */
};

/* Without synonyms and without types whose meaning depends on the server (JSON, TIMESTAMP). */
static const struct type types[] = {
    {"TINYINT", false},   {"SMALLINT", false},  {"MEDIUMINT", false}, {"INT", false},
    {"BIGINT", false},    {"DECIMAL", false},   {"FLOAT", false},     {"DOUBLE", false},
    {"DATE", false},      {"TIME", false},      {"DATETIME", false},  {"BINARY", false},
    {"VARBINARY", false}, {"TINYBLOB", false},  {"BLOB", false},      {"MEDIUMBLOB", false},
    {"LONGBLOB", false},  {"CHAR", true},       {"VARCHAR", true},    {"TINYTEXT", true},
    {"TEXT", true},       {"MEDIUMTEXT", true}, {"LONGTEXT", true},
};

static enum rc read_column_type(struct ddl_reader *reader, struct shape_column *column,
                                bool *is_text)
{
    const struct type *type = NULL;
    char brackets[32] = "";
    bool is_unsigned;
    enum rc rc = RC_OK;

    for (size_t i = 0; !type && i < sizeof(types) / sizeof(types[0]); i++) {
        if (take_word(reader, types[i].name))
            type = &types[i];
    }
    if (!type)
        return fail_expected(reader, "a known type");
    if (sql_token_is(&reader->token, "("))
        rc = take_brackets(reader, brackets, sizeof(brackets));
    if (rc != RC_OK)
        return rc;
    is_unsigned = take_word(reader, "UNSIGNED");
    snprintf(column->type, sizeof(column->type), "%s%s%s", type->name, brackets,
             is_unsigned ? " unsigned" : "");
    *is_text = type->is_text;
    return RC_OK;
}

/* CURRENT_TIMESTAMP, CURRENT_TIMESTAMP(3). */
static enum rc take_now(struct ddl_reader *reader, char *out, size_t size)
{
    char brackets[16] = "";
    enum rc rc = want_word(reader, "CURRENT_TIMESTAMP");

    if (rc == RC_OK && sql_token_is(&reader->token, "("))
        rc = take_brackets(reader, brackets, sizeof(brackets));
    if (rc == RC_OK)
        snprintf(out, size, "CURRENT_TIMESTAMP%s", brackets);
    return rc;
}

static enum rc read_column_default(struct ddl_reader *reader, struct shape_column *column)
{
    size_t sign = 0;

    if (take_word(reader, "NULL")) {
        column->standard_kind = SHAPE_DEFAULT_NONE;
        return RC_OK;
    }
    column->standard_kind = SHAPE_DEFAULT_EXPRESSION;
    if (sql_token_is(&reader->token, "("))
        return take_brackets(reader, column->standard, sizeof(column->standard));
    if (reader->token.kind == SQL_WORD)
        return take_now(reader, column->standard, sizeof(column->standard));
    column->standard_kind = SHAPE_DEFAULT_LITERAL;
    if (take_word(reader, "-"))
        column->standard[sign++] = '-';
    if ((reader->token.kind != SQL_NUMBER && (sign || reader->token.kind != SQL_TEXT)) ||
        !sql_token_plain(&reader->token, column->standard + sign, sizeof(column->standard) - sign))
        return fail_expected(reader, "a plain default");
    return next_token(reader);
}

static enum rc read_column_generated(struct ddl_reader *reader, struct shape_column *column)
{
    enum rc rc = want_word(reader, "ALWAYS");

    if (rc == RC_OK)
        rc = want_word(reader, "AS");
    if (rc == RC_OK)
        rc = take_brackets(reader, NULL, 0);
    if (rc != RC_OK)
        return rc;
    if (take_word(reader, "STORED")) {
        snprintf(column->generated, sizeof(column->generated), "stored");
        return RC_OK;
    }
    snprintf(column->generated, sizeof(column->generated), "virtual");
    return want_word(reader, "VIRTUAL");
}

static enum rc skip_text(struct ddl_reader *reader)
{
    if (reader->token.kind != SQL_TEXT)
        return fail_expected(reader, "a text");
    return next_token(reader);
}

/* One attribute behind the type. */
static enum rc read_column_attribute(struct ddl_reader *reader, struct shape_column *column)
{
    char ignored[SHAPE_TYPE_SIZE];
    enum rc rc = RC_OK;

    if (take_word(reader, "NOT")) {
        column->nullable = false;
        return want_word(reader, "NULL");
    }
    if (take_word(reader, "NULL"))
        return RC_OK;
    if (take_word(reader, "DEFAULT"))
        return read_column_default(reader, column);
    if (take_word(reader, "COMMENT"))
        return skip_text(reader);
    if (take_word(reader, "CHECK"))
        return take_brackets(reader, NULL, 0);
    if (take_word(reader, "COLLATE"))
        return take_name(reader, column->collation);
    if (take_word(reader, "GENERATED"))
        return read_column_generated(reader, column);
    if (take_word(reader, "AFTER"))
        return take_name(reader, ignored);
    if (take_word(reader, "FIRST"))
        return RC_OK;
    if (take_word(reader, "AUTO_INCREMENT")) {
        column->auto_increment = true;
        return RC_OK;
    }
    if (take_word(reader, "ON")) {
        column->on_update = true;
        rc = want_word(reader, "UPDATE");
        return rc == RC_OK ? take_now(reader, ignored, sizeof(ignored)) : rc;
    }
    return fail_expected(reader, "a known attribute of a column");
}

static bool is_column_end(const struct ddl_reader *reader)
{
    return reader->token.kind == SQL_END || sql_token_is(&reader->token, ",") ||
           sql_token_is(&reader->token, ")");
}

/* Reads the part after a column's name: type and attributes, up to a comma, a closing bracket or
 * the end. */
static enum rc read_column(struct ddl_reader *reader, struct shape_column *column)
{
    bool is_text = false;
    bool has_charset = false;
    char ignored[SHAPE_NAME_SIZE];
    enum rc rc;

    memset(column, 0, sizeof(*column));
    column->nullable = true;
    rc = read_column_type(reader, column, &is_text);
    while (rc == RC_OK && !is_column_end(reader)) {
        if (take_word(reader, "CHARACTER")) {
            has_charset = true;
            rc = want_word(reader, "SET");
            if (rc == RC_OK)
                rc = take_name(reader, ignored);
        } else {
            rc = read_column_attribute(reader, column);
        }
    }
    if (rc != RC_OK || !is_text || column->collation[0])
        return rc;
    if (has_charset || !reader->collation[0])
        return fail_expected(reader, "COLLATE before the end of a text column,");
    snprintf(column->collation, sizeof(column->collation), "%s", reader->collation);
    return RC_OK;
}

enum change_kind {
    CHANGE_TABLE_ADD,
    CHANGE_TABLE_DROP,
    CHANGE_COLUMN_ADD,
    CHANGE_COLUMN_MODIFY,
    CHANGE_COLUMN_DROP,
    CHANGE_INDEX_ADD,
    CHANGE_INDEX_DROP,
    CHANGE_ROWS, /* rows change; table and name are not set */
};

struct change {
    enum change_kind kind;
    char table[SHAPE_NAME_SIZE];
    char name[SHAPE_NAME_SIZE]; /* of the column or index */
    char text[SHAPE_TEXT_SIZE]; /* for what is added or modified: as in struct shape_item */
};

/* Anything but RC_OK ends the reading and is returned by read_statement(). */
typedef enum rc (*on_change_fn)(void *ctx, const struct change *change, struct err *err);

/* One statement under way. */
struct ddl {
    struct ddl_reader reader;
    struct change change; /* its table stays, the rest is filled for each change */
    on_change_fn on_change;
    void *ctx;
};

static enum rc tell_change(struct ddl *ddl, enum change_kind kind)
{
    ddl->change.kind = kind;
    return ddl->on_change(ddl->ctx, &ddl->change, ddl->reader.err);
}

/* (a, b(10), c DESC), into change.text. */
static enum rc read_index_parts(struct ddl *ddl, bool primary, bool unique)
{
    struct ddl_reader *reader = &ddl->reader;
    enum rc rc = want_word(reader, "(");

    ddl->change.text[0] = '\0';
    while (rc == RC_OK) {
        char column[SHAPE_NAME_SIZE];
        char length[16] = "";
        bool has_length;
        bool descending;

        rc = take_name(reader, column);
        has_length = rc == RC_OK && take_word(reader, "(");
        if (has_length) {
            if (reader->token.kind != SQL_NUMBER ||
                !sql_token_plain(&reader->token, length, sizeof(length)))
                return fail_expected(reader, "a length");
            rc = next_token(reader);
            if (rc == RC_OK)
                rc = want_word(reader, ")");
        }
        if (rc != RC_OK)
            return rc;
        descending = take_word(reader, "DESC");
        if (!descending)
            take_word(reader, "ASC");
        shape_index_part(ddl->change.text, primary, unique, column, has_length ? length : NULL,
                         descending);
        if (!take_word(reader, ","))
            return want_word(reader, ")");
    }
    return rc;
}

/* Reads the part after PRIMARY. */
static enum rc read_primary_key(struct ddl *ddl)
{
    enum rc rc = want_word(&ddl->reader, "KEY");

    if (rc == RC_OK)
        rc = read_index_parts(ddl, true, true);
    snprintf(ddl->change.name, sizeof(ddl->change.name), "PRIMARY");
    return rc == RC_OK ? tell_change(ddl, CHANGE_INDEX_ADD) : rc;
}

static bool take_key_word(struct ddl *ddl)
{
    return take_word(&ddl->reader, "KEY") || take_word(&ddl->reader, "INDEX");
}

/* Reads the part after KEY or INDEX. */
static enum rc read_named_key(struct ddl *ddl, bool unique)
{
    enum rc rc = take_name(&ddl->reader, ddl->change.name);

    if (rc == RC_OK)
        rc = read_index_parts(ddl, false, unique);
    return rc == RC_OK ? tell_change(ddl, CHANGE_INDEX_ADD) : rc;
}

static enum rc read_table_column(struct ddl *ddl, enum change_kind kind)
{
    struct shape_column column;
    enum rc rc = take_name(&ddl->reader, ddl->change.name);

    if (rc == RC_OK)
        rc = read_column(&ddl->reader, &column);
    if (rc != RC_OK)
        return rc;
    shape_column_text(&column, ddl->change.text);
    return tell_change(ddl, kind);
}

/* Reads an index, or a column if no index keyword comes first. */
static enum rc read_table_part(struct ddl *ddl)
{
    bool unique;

    if (take_word(&ddl->reader, "PRIMARY"))
        return read_primary_key(ddl);
    unique = take_word(&ddl->reader, "UNIQUE");
    if (take_key_word(ddl))
        return read_named_key(ddl, unique);
    return unique ? fail_expected(&ddl->reader, "KEY") : read_table_column(ddl, CHANGE_COLUMN_ADD);
}

static enum rc read_table_body(struct ddl *ddl)
{
    enum rc rc = want_word(&ddl->reader, "(");

    while (rc == RC_OK) {
        rc = read_table_part(ddl);
        if (rc == RC_OK && !take_word(&ddl->reader, ","))
            return want_word(&ddl->reader, ")");
    }
    return rc;
}

/* Reads the part after PARTITION. The number of partitions is not compared, because operations adds
 * and drops months; only the partitioning rule counts. */
static enum rc read_partition(struct ddl_reader *reader, char *partition, size_t size)
{
    char brackets[SHAPE_TYPE_SIZE];
    char method[SHAPE_NAME_SIZE] = "";
    size_t len = 0;
    enum rc rc = want_word(reader, "BY");

    while (rc == RC_OK && reader->token.kind == SQL_WORD && len < sizeof(method)) {
        len += (size_t)snprintf(method + len, sizeof(method) - len, "%s%.*s", len ? " " : "",
                                (int)reader->token.len, reader->token.at);
        rc = next_token(reader);
    }
    if (rc == RC_OK)
        rc = take_brackets(reader, brackets, sizeof(brackets));
    if (rc == RC_OK)
        snprintf(partition, size, "%s%s", method, brackets);
    if (rc == RC_OK && sql_token_is(&reader->token, "("))
        rc = take_brackets(reader, NULL, 0);
    return rc;
}

struct table_options {
    char engine[SHAPE_NAME_SIZE];
    char collation[SHAPE_NAME_SIZE];
    char partition[SHAPE_TYPE_SIZE];
};

/* name = value */
static enum rc read_table_option(struct ddl_reader *reader, struct table_options *options)
{
    char ignored[SHAPE_NAME_SIZE];
    char *target = ignored;
    bool is_text = false;

    take_word(reader, "DEFAULT");
    if (take_word(reader, "ENGINE"))
        target = options->engine;
    else if (take_word(reader, "COLLATE"))
        target = options->collation;
    else if (take_word(reader, "COMMENT"))
        is_text = true;
    else if (!take_word(reader, "CHARSET"))
        return fail_expected(reader, "ENGINE, DEFAULT CHARSET, COLLATE, COMMENT or PARTITION");
    take_word(reader, "=");
    if (!is_text)
        return take_name(reader, target);
    return reader->token.kind == SQL_TEXT ? next_token(reader) : fail_expected(reader, "a text");
}

static enum rc read_table_options(struct ddl_reader *reader, struct table_options *options)
{
    enum rc rc = RC_OK;

    memset(options, 0, sizeof(*options));
    while (rc == RC_OK && reader->token.kind != SQL_END) {
        if (take_word(reader, "PARTITION"))
            rc = read_partition(reader, options->partition, sizeof(options->partition));
        else
            rc = read_table_option(reader, options);
    }
    if (rc == RC_OK && !options->engine[0])
        return fail_expected(reader, "ENGINE = before");
    return rc;
}

/* Reads the part after CREATE TABLE. The options at the end are read first, because the collation
 * of the columns may come from there. */
static enum rc read_create_table(struct ddl *ddl)
{
    struct ddl_reader ahead;
    struct table_options options;
    enum rc rc = take_name(&ddl->reader, ddl->change.table);

    if (rc != RC_OK)
        return rc;
    ahead = ddl->reader;
    rc = take_brackets(&ahead, NULL, 0);
    if (rc == RC_OK)
        rc = read_table_options(&ahead, &options);
    if (rc != RC_OK)
        return rc;
    memcpy(ddl->reader.collation, options.collation, sizeof(options.collation));
    shape_table_text(options.engine, options.partition, ddl->change.text);
    ddl->change.name[0] = '\0';
    rc = tell_change(ddl, CHANGE_TABLE_ADD);
    if (rc == RC_OK)
        rc = read_table_body(ddl);
    ddl->reader = ahead;
    return rc;
}

static enum rc drop_table(struct ddl *ddl)
{
    enum rc rc = take_name(&ddl->reader, ddl->change.table);

    return rc == RC_OK ? tell_change(ddl, CHANGE_TABLE_DROP) : rc;
}

/* CREATE [UNIQUE] INDEX name ON table (parts) */
static enum rc read_create_index(struct ddl *ddl, bool unique)
{
    enum rc rc = take_name(&ddl->reader, ddl->change.name);

    if (rc == RC_OK)
        rc = want_word(&ddl->reader, "ON");
    if (rc == RC_OK)
        rc = take_name(&ddl->reader, ddl->change.table);
    if (rc == RC_OK)
        rc = read_index_parts(ddl, false, unique);
    return rc == RC_OK ? tell_change(ddl, CHANGE_INDEX_ADD) : rc;
}

/* DROP INDEX name ON table */
static enum rc drop_index(struct ddl *ddl)
{
    enum rc rc = take_name(&ddl->reader, ddl->change.name);

    if (rc == RC_OK)
        rc = want_word(&ddl->reader, "ON");
    if (rc == RC_OK)
        rc = take_name(&ddl->reader, ddl->change.table);
    return rc == RC_OK ? tell_change(ddl, CHANGE_INDEX_DROP) : rc;
}

/* Reads the part after DROP in an ALTER TABLE. */
static enum rc read_alter_drop(struct ddl *ddl)
{
    enum change_kind kind = take_key_word(ddl) ? CHANGE_INDEX_DROP : CHANGE_COLUMN_DROP;
    enum rc rc;

    if (kind == CHANGE_COLUMN_DROP && !take_word(&ddl->reader, "COLUMN"))
        return fail_expected(&ddl->reader, "COLUMN, KEY or INDEX");
    rc = take_name(&ddl->reader, ddl->change.name);
    return rc == RC_OK ? tell_change(ddl, kind) : rc;
}

static enum rc read_alter_part(struct ddl *ddl)
{
    if (take_word(&ddl->reader, "ADD")) {
        if (take_word(&ddl->reader, "COLUMN"))
            return read_table_column(ddl, CHANGE_COLUMN_ADD);
        return read_table_part(ddl);
    }
    if (take_word(&ddl->reader, "DROP"))
        return read_alter_drop(ddl);
    if (!take_word(&ddl->reader, "MODIFY"))
        return fail_expected(&ddl->reader, "ADD, MODIFY or DROP");
    take_word(&ddl->reader, "COLUMN");
    return read_table_column(ddl, CHANGE_COLUMN_MODIFY);
}

static enum rc read_alter_table(struct ddl *ddl)
{
    enum rc rc = take_name(&ddl->reader, ddl->change.table);

    do {
        if (rc == RC_OK)
            rc = read_alter_part(ddl);
    } while (rc == RC_OK && take_word(&ddl->reader, ","));
    return rc;
}

static enum rc read_create(struct ddl *ddl)
{
    bool unique;

    if (take_word(&ddl->reader, "TABLE"))
        return read_create_table(ddl);
    unique = take_word(&ddl->reader, "UNIQUE");
    if (take_word(&ddl->reader, "INDEX"))
        return read_create_index(ddl, unique);
    return fail_expected(&ddl->reader, "TABLE or INDEX");
}

static enum rc read_drop(struct ddl *ddl)
{
    if (take_word(&ddl->reader, "TABLE"))
        return drop_table(ddl);
    if (take_word(&ddl->reader, "INDEX"))
        return drop_index(ddl);
    return fail_expected(&ddl->reader, "TABLE or INDEX");
}

static bool is_data(const struct ddl *ddl)
{
    static const char *const words[] = {"INSERT", "UPDATE", "DELETE", "REPLACE"};

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (sql_token_is(&ddl->reader.token, words[i]))
            return true;
    }
    return false;
}

/* Calls on_change for each change in order; a table comes before its columns. */
static enum rc read_statement(const struct sql_statement *statement, on_change_fn on_change,
                              void *ctx, struct err *err)
{
    struct ddl ddl = {.on_change = on_change, .ctx = ctx};
    enum rc rc;

    ddl.reader.scan.at = statement->sql;
    ddl.reader.scan.end = statement->sql + statement->len;
    ddl.reader.err = err;
    rc = next_token(&ddl.reader);
    if (rc != RC_OK)
        return rc;
    if (is_data(&ddl))
        return tell_change(&ddl, CHANGE_ROWS);
    if (take_word(&ddl.reader, "CREATE")) {
        rc = read_create(&ddl);
    } else if (take_word(&ddl.reader, "DROP")) {
        rc = read_drop(&ddl);
    } else if (take_word(&ddl.reader, "ALTER")) {
        rc = want_word(&ddl.reader, "TABLE");
        if (rc == RC_OK)
            rc = read_alter_table(&ddl);
    } else {
        return fail_expected(&ddl.reader, "CREATE, DROP, ALTER, INSERT, UPDATE, DELETE or REPLACE");
    }
    if (rc == RC_OK && ddl.reader.token.kind != SQL_END)
        return fail_expected(&ddl.reader, "the end of the statement");
    return rc;
}

static enum rc add_item(struct shape *shape, enum shape_kind kind, const struct change *change,
                        struct err *err)
{
    if (shape_find(shape, kind, change->table, change->name))
        return err_fail(err, RC_FATAL, 0, "%s%s%s is there already", change->table,
                        change->name[0] ? "." : "", change->name);
    if (kind != SHAPE_TABLE && !shape_find(shape, SHAPE_TABLE, change->table, NULL))
        return err_fail(err, RC_FATAL, 0, "there is no table %s", change->table);
    return shape_put(shape, kind, change->table, change->name, change->text, err);
}

static enum rc require_item(const struct shape *shape, enum shape_kind kind,
                            const struct change *change, struct err *err)
{
    if (shape_find(shape, kind, change->table, change->name))
        return RC_OK;
    return err_fail(err, RC_FATAL, 0, "there is no %s%s%s", change->table,
                    change->name[0] ? "." : "", change->name);
}

static enum rc drop_item(struct shape *shape, enum shape_kind kind, const struct change *change,
                         struct err *err)
{
    enum rc rc = require_item(shape, kind, change, err);

    if (rc == RC_OK)
        shape_remove(shape, kind, change->table, change->name);
    return rc;
}

/* Does the text of an index, "key (a, b(10) desc)", name the column? */
static bool has_index_column(const char *text, const char *column)
{
    size_t len = strlen(column);

    for (const char *at = strchr(text, '('); at && *at; at++) {
        if ((at[-1] == '(' || at[-1] == ' ') && strncmp(at, column, len) == 0 &&
            strchr(",() ", at[len]))
            return true;
    }
    return false;
}

/* The servers take a dropped column out of its indexes, each in its own way. */
static enum rc drop_column(struct shape *shape, const struct change *change, struct err *err)
{
    for (size_t i = 0; i < shape->count; i++) {
        const struct shape_item *item = &shape->items[i];

        if (item->kind == SHAPE_INDEX && strcmp(item->table, change->table) == 0 &&
            has_index_column(item->text, change->name))
            return err_fail(err, RC_FATAL, 0, "column %s.%s is in index %s: drop that first",
                            change->table, change->name, item->name);
    }
    return drop_item(shape, SHAPE_COLUMN, change, err);
}

static enum rc modify_item(struct shape *shape, const struct change *change, struct err *err)
{
    enum rc rc = require_item(shape, SHAPE_COLUMN, change, err);

    return rc == RC_OK
               ? shape_put(shape, SHAPE_COLUMN, change->table, change->name, change->text, err)
               : rc;
}

static enum rc apply_change(void *ctx, const struct change *change, struct err *err)
{
    struct shape *shape = ctx;

    switch (change->kind) {
    case CHANGE_TABLE_ADD:
        return add_item(shape, SHAPE_TABLE, change, err);
    case CHANGE_TABLE_DROP:
        return drop_item(shape, SHAPE_TABLE, change, err);
    case CHANGE_COLUMN_ADD:
        return add_item(shape, SHAPE_COLUMN, change, err);
    case CHANGE_COLUMN_MODIFY:
        return modify_item(shape, change, err);
    case CHANGE_COLUMN_DROP:
        return drop_column(shape, change, err);
    case CHANGE_INDEX_ADD:
        return add_item(shape, SHAPE_INDEX, change, err);
    case CHANGE_INDEX_DROP:
        return drop_item(shape, SHAPE_INDEX, change, err);
    case CHANGE_ROWS:
        return RC_OK;
    }
    return RC_OK;
}

enum rc ddl_apply(struct shape *shape, const struct sql_statement *statement, struct err *err)
{
    return read_statement(statement, apply_change, shape, err);
}

static void set_effect(struct ddl_effect *effect, enum ddl_effect_kind kind, enum shape_kind what,
                       const struct change *change)
{
    effect->kind = kind;
    effect->what = what;
    memcpy(effect->table, change->table, sizeof(effect->table));
    memcpy(effect->name, change->name, sizeof(effect->name));
}

/* The servers execute one statement completely or not at all, so its first visible change
 * represents all. */
static enum rc find_change_effect(void *ctx, const struct change *change, struct err *err)
{
    struct ddl_effect *effect = ctx;

    (void)err;
    if (effect->kind != DDL_REPEATABLE)
        return RC_OK;
    switch (change->kind) {
    case CHANGE_TABLE_ADD:
        set_effect(effect, DDL_APPEARS, SHAPE_TABLE, change);
        break;
    case CHANGE_TABLE_DROP:
        set_effect(effect, DDL_DISAPPEARS, SHAPE_TABLE, change);
        break;
    case CHANGE_COLUMN_ADD:
        set_effect(effect, DDL_APPEARS, SHAPE_COLUMN, change);
        break;
    case CHANGE_COLUMN_DROP:
        set_effect(effect, DDL_DISAPPEARS, SHAPE_COLUMN, change);
        break;
    case CHANGE_INDEX_ADD:
        set_effect(effect, DDL_APPEARS, SHAPE_INDEX, change);
        break;
    case CHANGE_INDEX_DROP:
        set_effect(effect, DDL_DISAPPEARS, SHAPE_INDEX, change);
        break;
    case CHANGE_ROWS:
        effect->kind = DDL_ROWS;
        break;
    case CHANGE_COLUMN_MODIFY:
        break;
    }
    return RC_OK;
}

enum rc ddl_effect(const struct sql_statement *statement, struct ddl_effect *effect,
                   struct err *err)
{
    memset(effect, 0, sizeof(*effect));
    effect->kind = DDL_REPEATABLE;
    return read_statement(statement, find_change_effect, effect, err);
}

/* PARTITION is a reserved word: outside of quotes it precedes BY or a name. */
enum rc ddl_partitions(const struct sql_statement *statement, ddl_on_name on_name, void *ctx,
                       struct err *err)
{
    struct ddl_reader reader = {.err = err};
    char name[SHAPE_NAME_SIZE];
    enum rc rc;

    reader.scan.at = statement->sql;
    reader.scan.end = statement->sql + statement->len;
    rc = next_token(&reader);
    while (rc == RC_OK && reader.token.kind != SQL_END) {
        if (!take_word(&reader, "PARTITION")) {
            rc = next_token(&reader);
        } else if (!sql_token_is(&reader.token, "BY")) {
            rc = take_name(&reader, name);
            if (rc == RC_OK)
                rc = on_name(ctx, name, err);
        }
    }
    return rc;
}
