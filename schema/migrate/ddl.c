/* SPDX-License-Identifier: MIT */
#include "schema/migrate/ddl.h"

#include "schema/migrate/ddl_column.h"

#include <stdio.h>
#include <string.h>

/* One statement under way. */
struct ddl {
    struct ddl_reader reader;
    struct ddl_change change; /* its table stays, the rest is filled for each change */
    ddl_on_change on_change;
    void *ctx;
};

static enum rc tell_action(struct ddl *ddl, enum ddl_kind kind)
{
    ddl->change.kind = kind;
    return ddl->on_change(ddl->ctx, &ddl->change, ddl->reader.err);
}

/* (a, b(10), c DESC), into change.text. */
static enum rc read_index_parts(struct ddl *ddl, bool primary, bool unique)
{
    struct ddl_reader *reader = &ddl->reader;
    enum rc rc = ddl_want(reader, "(");

    ddl->change.text[0] = '\0';
    while (rc == RC_OK) {
        char column[SHAPE_NAME_SIZE];
        char length[16] = "";
        bool has_length;
        bool descending;

        rc = ddl_name(reader, column);
        has_length = rc == RC_OK && ddl_take(reader, "(");
        if (has_length) {
            if (reader->token.kind != SQL_NUMBER ||
                !sql_token_plain(&reader->token, length, sizeof(length)))
                return ddl_fail(reader, "a length");
            rc = ddl_next(reader);
            if (rc == RC_OK)
                rc = ddl_want(reader, ")");
        }
        if (rc != RC_OK)
            return rc;
        descending = ddl_take(reader, "DESC");
        if (!descending)
            ddl_take(reader, "ASC");
        shape_index_part(ddl->change.text, primary, unique, column, has_length ? length : NULL,
                         descending);
        if (!ddl_take(reader, ","))
            return ddl_want(reader, ")");
    }
    return rc;
}

/* Reads the part after PRIMARY. */
static enum rc read_primary_key(struct ddl *ddl)
{
    enum rc rc = ddl_want(&ddl->reader, "KEY");

    if (rc == RC_OK)
        rc = read_index_parts(ddl, true, true);
    snprintf(ddl->change.name, sizeof(ddl->change.name), "PRIMARY");
    return rc == RC_OK ? tell_action(ddl, DDL_INDEX_ADD) : rc;
}

static bool take_key_word(struct ddl *ddl)
{
    return ddl_take(&ddl->reader, "KEY") || ddl_take(&ddl->reader, "INDEX");
}

/* Reads the part after KEY or INDEX. */
static enum rc read_named_key(struct ddl *ddl, bool unique)
{
    enum rc rc = ddl_name(&ddl->reader, ddl->change.name);

    if (rc == RC_OK)
        rc = read_index_parts(ddl, false, unique);
    return rc == RC_OK ? tell_action(ddl, DDL_INDEX_ADD) : rc;
}

static enum rc read_table_column(struct ddl *ddl, enum ddl_kind kind)
{
    struct shape_column column;
    enum rc rc = ddl_name(&ddl->reader, ddl->change.name);

    if (rc == RC_OK)
        rc = ddl_column(&ddl->reader, &column);
    if (rc != RC_OK)
        return rc;
    shape_column_text(&column, ddl->change.text);
    return tell_action(ddl, kind);
}

/* Reads an index, or a column if no index keyword comes first. */
static enum rc read_table_part(struct ddl *ddl)
{
    bool unique;

    if (ddl_take(&ddl->reader, "PRIMARY"))
        return read_primary_key(ddl);
    unique = ddl_take(&ddl->reader, "UNIQUE");
    if (take_key_word(ddl))
        return read_named_key(ddl, unique);
    return unique ? ddl_fail(&ddl->reader, "KEY") : read_table_column(ddl, DDL_COLUMN_ADD);
}

static enum rc read_table_body(struct ddl *ddl)
{
    enum rc rc = ddl_want(&ddl->reader, "(");

    while (rc == RC_OK) {
        rc = read_table_part(ddl);
        if (rc == RC_OK && !ddl_take(&ddl->reader, ","))
            return ddl_want(&ddl->reader, ")");
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
    enum rc rc = ddl_want(reader, "BY");

    while (rc == RC_OK && reader->token.kind == SQL_WORD && len < sizeof(method)) {
        len += (size_t)snprintf(method + len, sizeof(method) - len, "%s%.*s", len ? " " : "",
                                (int)reader->token.len, reader->token.at);
        rc = ddl_next(reader);
    }
    if (rc == RC_OK)
        rc = ddl_brackets(reader, brackets, sizeof(brackets));
    if (rc == RC_OK)
        snprintf(partition, size, "%s%s", method, brackets);
    if (rc == RC_OK && sql_token_is(&reader->token, "("))
        rc = ddl_brackets(reader, NULL, 0);
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

    ddl_take(reader, "DEFAULT");
    if (ddl_take(reader, "ENGINE"))
        target = options->engine;
    else if (ddl_take(reader, "COLLATE"))
        target = options->collation;
    else if (ddl_take(reader, "COMMENT"))
        is_text = true;
    else if (!ddl_take(reader, "CHARSET"))
        return ddl_fail(reader, "ENGINE, DEFAULT CHARSET, COLLATE, COMMENT or PARTITION");
    ddl_take(reader, "=");
    if (!is_text)
        return ddl_name(reader, target);
    return reader->token.kind == SQL_TEXT ? ddl_next(reader) : ddl_fail(reader, "a text");
}

static enum rc read_table_options(struct ddl_reader *reader, struct table_options *options)
{
    enum rc rc = RC_OK;

    memset(options, 0, sizeof(*options));
    while (rc == RC_OK && reader->token.kind != SQL_END) {
        if (ddl_take(reader, "PARTITION"))
            rc = read_partition(reader, options->partition, sizeof(options->partition));
        else
            rc = read_table_option(reader, options);
    }
    if (rc == RC_OK && !options->engine[0])
        return ddl_fail(reader, "ENGINE = before");
    return rc;
}

/* Reads the part after CREATE TABLE. The options at the end are read first, because the collation
 * of the columns may come from there. */
static enum rc read_create_table(struct ddl *ddl)
{
    struct ddl_reader ahead;
    struct table_options options;
    enum rc rc = ddl_name(&ddl->reader, ddl->change.table);

    if (rc != RC_OK)
        return rc;
    ahead = ddl->reader;
    rc = ddl_brackets(&ahead, NULL, 0);
    if (rc == RC_OK)
        rc = read_table_options(&ahead, &options);
    if (rc != RC_OK)
        return rc;
    memcpy(ddl->reader.collation, options.collation, sizeof(options.collation));
    shape_table_text(options.engine, options.partition, ddl->change.text);
    ddl->change.name[0] = '\0';
    rc = tell_action(ddl, DDL_TABLE_ADD);
    if (rc == RC_OK)
        rc = read_table_body(ddl);
    ddl->reader = ahead;
    return rc;
}

static enum rc drop_table(struct ddl *ddl)
{
    enum rc rc = ddl_name(&ddl->reader, ddl->change.table);

    return rc == RC_OK ? tell_action(ddl, DDL_TABLE_DROP) : rc;
}

/* CREATE [UNIQUE] INDEX name ON table (parts) */
static enum rc read_create_index(struct ddl *ddl, bool unique)
{
    enum rc rc = ddl_name(&ddl->reader, ddl->change.name);

    if (rc == RC_OK)
        rc = ddl_want(&ddl->reader, "ON");
    if (rc == RC_OK)
        rc = ddl_name(&ddl->reader, ddl->change.table);
    if (rc == RC_OK)
        rc = read_index_parts(ddl, false, unique);
    return rc == RC_OK ? tell_action(ddl, DDL_INDEX_ADD) : rc;
}

/* DROP INDEX name ON table */
static enum rc drop_index(struct ddl *ddl)
{
    enum rc rc = ddl_name(&ddl->reader, ddl->change.name);

    if (rc == RC_OK)
        rc = ddl_want(&ddl->reader, "ON");
    if (rc == RC_OK)
        rc = ddl_name(&ddl->reader, ddl->change.table);
    return rc == RC_OK ? tell_action(ddl, DDL_INDEX_DROP) : rc;
}

/* Reads the part after DROP in an ALTER TABLE. */
static enum rc read_alter_drop(struct ddl *ddl)
{
    enum ddl_kind kind = take_key_word(ddl) ? DDL_INDEX_DROP : DDL_COLUMN_DROP;
    enum rc rc;

    if (kind == DDL_COLUMN_DROP && !ddl_take(&ddl->reader, "COLUMN"))
        return ddl_fail(&ddl->reader, "COLUMN, KEY or INDEX");
    rc = ddl_name(&ddl->reader, ddl->change.name);
    return rc == RC_OK ? tell_action(ddl, kind) : rc;
}

static enum rc read_alter_part(struct ddl *ddl)
{
    if (ddl_take(&ddl->reader, "ADD")) {
        if (ddl_take(&ddl->reader, "COLUMN"))
            return read_table_column(ddl, DDL_COLUMN_ADD);
        return read_table_part(ddl);
    }
    if (ddl_take(&ddl->reader, "DROP"))
        return read_alter_drop(ddl);
    if (!ddl_take(&ddl->reader, "MODIFY"))
        return ddl_fail(&ddl->reader, "ADD, MODIFY or DROP");
    ddl_take(&ddl->reader, "COLUMN");
    return read_table_column(ddl, DDL_COLUMN_MODIFY);
}

static enum rc read_alter_table(struct ddl *ddl)
{
    enum rc rc = ddl_name(&ddl->reader, ddl->change.table);

    do {
        if (rc == RC_OK)
            rc = read_alter_part(ddl);
    } while (rc == RC_OK && ddl_take(&ddl->reader, ","));
    return rc;
}

static enum rc read_create(struct ddl *ddl)
{
    bool unique;

    if (ddl_take(&ddl->reader, "TABLE"))
        return read_create_table(ddl);
    unique = ddl_take(&ddl->reader, "UNIQUE");
    if (ddl_take(&ddl->reader, "INDEX"))
        return read_create_index(ddl, unique);
    return ddl_fail(&ddl->reader, "TABLE or INDEX");
}

static enum rc read_drop(struct ddl *ddl)
{
    if (ddl_take(&ddl->reader, "TABLE"))
        return drop_table(ddl);
    if (ddl_take(&ddl->reader, "INDEX"))
        return drop_index(ddl);
    return ddl_fail(&ddl->reader, "TABLE or INDEX");
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

enum rc ddl_read(const struct statement *statement, ddl_on_change on_change, void *ctx,
                 struct err *err)
{
    struct ddl ddl = {.on_change = on_change, .ctx = ctx};
    enum rc rc;

    ddl.reader.scan.at = statement->sql;
    ddl.reader.scan.end = statement->sql + statement->len;
    ddl.reader.err = err;
    rc = ddl_next(&ddl.reader);
    if (rc != RC_OK)
        return rc;
    if (is_data(&ddl))
        return tell_action(&ddl, DDL_DATA);
    if (ddl_take(&ddl.reader, "CREATE")) {
        rc = read_create(&ddl);
    } else if (ddl_take(&ddl.reader, "DROP")) {
        rc = read_drop(&ddl);
    } else if (ddl_take(&ddl.reader, "ALTER")) {
        rc = ddl_want(&ddl.reader, "TABLE");
        if (rc == RC_OK)
            rc = read_alter_table(&ddl);
    } else {
        return ddl_fail(&ddl.reader, "CREATE, DROP, ALTER, INSERT, UPDATE, DELETE or REPLACE");
    }
    if (rc == RC_OK && ddl.reader.token.kind != SQL_END)
        return ddl_fail(&ddl.reader, "the end of the statement");
    return rc;
}

/* PARTITION is a reserved word: outside of quotes it precedes BY or a name. */
enum rc ddl_partitions(const struct statement *statement, ddl_on_name on_name, void *ctx,
                       struct err *err)
{
    struct ddl_reader reader = {.err = err};
    char name[SHAPE_NAME_SIZE];
    enum rc rc;

    reader.scan.at = statement->sql;
    reader.scan.end = statement->sql + statement->len;
    rc = ddl_next(&reader);
    while (rc == RC_OK && reader.token.kind != SQL_END) {
        if (!ddl_take(&reader, "PARTITION")) {
            rc = ddl_next(&reader);
        } else if (!sql_token_is(&reader.token, "BY")) {
            rc = ddl_name(&reader, name);
            if (rc == RC_OK)
                rc = on_name(ctx, name, err);
        }
    }
    return rc;
}
