/* SPDX-License-Identifier: MIT */
#include "schema/migrate/ddl_column.h"

#include <stdio.h>
#include <string.h>

#define EXCERPT 30 /* characters of the SQL in an error */

enum rc ddl_next(struct ddl_reader *reader)
{
    return sql_token_next(&reader->scan, &reader->token, reader->err);
}

/* What cannot be scanned behind a word is found when the next one is asked for: the token then
 * stays at its end. */
bool ddl_take(struct ddl_reader *reader, const char *word)
{
    if (!sql_token_is(&reader->token, word))
        return false;
    if (ddl_next(reader) != RC_OK) {
        reader->token.kind = SQL_END;
        reader->token.len = 0;
    }
    return true;
}

enum rc ddl_fail(const struct ddl_reader *reader, const char *what)
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

enum rc ddl_want(struct ddl_reader *reader, const char *word)
{
    return ddl_take(reader, word) ? RC_OK : ddl_fail(reader, word);
}

enum rc ddl_name(struct ddl_reader *reader, char name[SHAPE_NAME_SIZE])
{
    static const char *const reserved[] = {"IF",    "CONSTRAINT", "FOREIGN",
                                           "CHECK", "FULLTEXT",   "SPATIAL"};

    for (size_t i = 0; i < sizeof(reserved) / sizeof(reserved[0]); i++) {
        if (sql_token_is(&reader->token, reserved[i]))
            return ddl_fail(reader, "a name (this word is not supported)");
    }
    if ((reader->token.kind != SQL_WORD && reader->token.kind != SQL_NAME) ||
        !sql_token_plain(&reader->token, name, SHAPE_NAME_SIZE))
        return ddl_fail(reader, "a name");
    return ddl_next(reader);
}

enum rc ddl_brackets(struct ddl_reader *reader, char *out, size_t size)
{
    const char *from = reader->token.at;
    const char *end;
    int depth = 0;
    enum rc rc = RC_OK;

    if (!sql_token_is(&reader->token, "("))
        return ddl_fail(reader, "(");
    do {
        if (reader->token.kind == SQL_END)
            return ddl_fail(reader, ")");
        depth += sql_token_is(&reader->token, "(") - sql_token_is(&reader->token, ")");
        end = reader->token.at + reader->token.len;
        rc = ddl_next(reader);
    } while (rc == RC_OK && depth > 0);
    if (rc == RC_OK && out) {
        if ((size_t)(end - from) >= size)
            return ddl_fail(reader, "something shorter before");
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
        if (ddl_take(reader, types[i].name))
            type = &types[i];
    }
    if (!type)
        return ddl_fail(reader, "a known type");
    if (sql_token_is(&reader->token, "("))
        rc = ddl_brackets(reader, brackets, sizeof(brackets));
    if (rc != RC_OK)
        return rc;
    is_unsigned = ddl_take(reader, "UNSIGNED");
    snprintf(column->type, sizeof(column->type), "%s%s%s", type->name, brackets,
             is_unsigned ? " unsigned" : "");
    *is_text = type->is_text;
    return RC_OK;
}

/* CURRENT_TIMESTAMP, CURRENT_TIMESTAMP(3). */
static enum rc take_now(struct ddl_reader *reader, char *out, size_t size)
{
    char brackets[16] = "";
    enum rc rc = ddl_want(reader, "CURRENT_TIMESTAMP");

    if (rc == RC_OK && sql_token_is(&reader->token, "("))
        rc = ddl_brackets(reader, brackets, sizeof(brackets));
    if (rc == RC_OK)
        snprintf(out, size, "CURRENT_TIMESTAMP%s", brackets);
    return rc;
}

static enum rc read_column_default(struct ddl_reader *reader, struct shape_column *column)
{
    size_t sign = 0;

    if (ddl_take(reader, "NULL")) {
        column->standard_kind = SHAPE_DEFAULT_NONE;
        return RC_OK;
    }
    column->standard_kind = SHAPE_DEFAULT_EXPRESSION;
    if (sql_token_is(&reader->token, "("))
        return ddl_brackets(reader, column->standard, sizeof(column->standard));
    if (reader->token.kind == SQL_WORD)
        return take_now(reader, column->standard, sizeof(column->standard));
    column->standard_kind = SHAPE_DEFAULT_LITERAL;
    if (ddl_take(reader, "-"))
        column->standard[sign++] = '-';
    if ((reader->token.kind != SQL_NUMBER && (sign || reader->token.kind != SQL_TEXT)) ||
        !sql_token_plain(&reader->token, column->standard + sign, sizeof(column->standard) - sign))
        return ddl_fail(reader, "a plain default");
    return ddl_next(reader);
}

static enum rc read_column_generated(struct ddl_reader *reader, struct shape_column *column)
{
    enum rc rc = ddl_want(reader, "ALWAYS");

    if (rc == RC_OK)
        rc = ddl_want(reader, "AS");
    if (rc == RC_OK)
        rc = ddl_brackets(reader, NULL, 0);
    if (rc != RC_OK)
        return rc;
    if (ddl_take(reader, "STORED")) {
        snprintf(column->generated, sizeof(column->generated), "stored");
        return RC_OK;
    }
    snprintf(column->generated, sizeof(column->generated), "virtual");
    return ddl_want(reader, "VIRTUAL");
}

static enum rc skip_text(struct ddl_reader *reader)
{
    if (reader->token.kind != SQL_TEXT)
        return ddl_fail(reader, "a text");
    return ddl_next(reader);
}

/* One attribute behind the type. */
static enum rc read_column_attribute(struct ddl_reader *reader, struct shape_column *column)
{
    char ignored[SHAPE_TYPE_SIZE];
    enum rc rc = RC_OK;

    if (ddl_take(reader, "NOT")) {
        column->nullable = false;
        return ddl_want(reader, "NULL");
    }
    if (ddl_take(reader, "NULL"))
        return RC_OK;
    if (ddl_take(reader, "DEFAULT"))
        return read_column_default(reader, column);
    if (ddl_take(reader, "COMMENT"))
        return skip_text(reader);
    if (ddl_take(reader, "COLLATE"))
        return ddl_name(reader, column->collation);
    if (ddl_take(reader, "GENERATED"))
        return read_column_generated(reader, column);
    if (ddl_take(reader, "AFTER"))
        return ddl_name(reader, ignored);
    if (ddl_take(reader, "FIRST"))
        return RC_OK;
    if (ddl_take(reader, "AUTO_INCREMENT")) {
        column->auto_increment = true;
        return RC_OK;
    }
    if (ddl_take(reader, "ON")) {
        column->on_update = true;
        rc = ddl_want(reader, "UPDATE");
        return rc == RC_OK ? take_now(reader, ignored, sizeof(ignored)) : rc;
    }
    return ddl_fail(reader, "a known attribute of a column");
}

static bool is_column_end(const struct ddl_reader *reader)
{
    return reader->token.kind == SQL_END || sql_token_is(&reader->token, ",") ||
           sql_token_is(&reader->token, ")");
}

enum rc ddl_column(struct ddl_reader *reader, struct shape_column *column)
{
    bool is_text = false;
    bool has_charset = false;
    char ignored[SHAPE_NAME_SIZE];
    enum rc rc;

    memset(column, 0, sizeof(*column));
    column->nullable = true;
    rc = read_column_type(reader, column, &is_text);
    while (rc == RC_OK && !is_column_end(reader)) {
        if (ddl_take(reader, "CHARACTER")) {
            has_charset = true;
            rc = ddl_want(reader, "SET");
            if (rc == RC_OK)
                rc = ddl_name(reader, ignored);
        } else {
            rc = read_column_attribute(reader, column);
        }
    }
    if (rc != RC_OK || !is_text || column->collation[0])
        return rc;
    if (has_charset || !reader->collation[0])
        return ddl_fail(reader, "COLLATE before the end of a text column,");
    snprintf(column->collation, sizeof(column->collation), "%s", reader->collation);
    return RC_OK;
}
