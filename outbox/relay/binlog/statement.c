/* SPDX-License-Identifier: MIT */
#include "outbox/relay/binlog/statement.h"

#include "common/hash.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

/* The rest of a text. */
struct text {
    const char *at;
    const char *end;
};

static bool begins_with(const struct text *text, const char *prefix)
{
    size_t len = strlen(prefix);

    return (size_t)(text->end - text->at) >= len && strncasecmp(text->at, prefix, len) == 0;
}

/* Behind the next `mark`, or at the end. */
static void skip_behind(struct text *text, const char *mark)
{
    while (text->at < text->end && !begins_with(text, mark))
        text->at++;
    if (text->at < text->end)
        text->at += strlen(mark);
}

/* MySQL: "!" and a version; MariaDB: "M!" and a version. The text inside is executed. */
static bool skip_version(struct text *text)
{
    if (begins_with(text, "/*!"))
        text->at += 3;
    else if (begins_with(text, "/*M!"))
        text->at += 4;
    else
        return false;
    while (text->at < text->end && isdigit((unsigned char)*text->at))
        text->at++;
    return true;
}

/* Blanks, comments and opening parentheses. */
static void skip_blanks(struct text *text)
{
    while (text->at < text->end) {
        if (isspace((unsigned char)*text->at) || *text->at == '(')
            text->at++;
        else if (skip_version(text))
            continue;
        else if (begins_with(text, "*/")) /* behind text that is executed */
            text->at += 2;
        else if (begins_with(text, "/*"))
            skip_behind(text, "*/");
        else if (begins_with(text, "--") || *text->at == '#')
            skip_behind(text, "\n");
        else
            return;
    }
}

static bool is_of_word(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '$' || (c & 0x80) != 0;
}

/* Takes the word if it is the next one. */
static bool take_word(struct text *text, const char *word)
{
    struct text rest = *text;

    skip_blanks(&rest);
    if (!begins_with(&rest, word))
        return false;
    rest.at += strlen(word);
    if (rest.at < rest.end && is_of_word(*rest.at))
        return false;
    *text = rest;
    return true;
}

/* A name in backticks or without; names of savepoints do not depend on their case. */
static uint64_t hash_name(struct text *text)
{
    uint64_t hash = HASH_START;
    char quote = '\0';

    skip_blanks(text);
    if (text->at < text->end && (*text->at == '`' || *text->at == '"'))
        quote = *text->at++;
    while (text->at < text->end && (quote ? *text->at != quote : is_of_word(*text->at))) {
        char lower = (char)tolower((unsigned char)*text->at++);

        hash = hash_bytes(hash, &lower, 1);
    }
    return hash;
}

static enum statement_kind kind_of_rollback(struct text *text)
{
    if (!take_word(text, "TO"))
        return STATEMENT_ROLLBACK;
    take_word(text, "SAVEPOINT");
    return STATEMENT_ROLLBACK_TO;
}

static enum statement_kind kind_of_xa(struct text *text)
{
    if (take_word(text, "START") || take_word(text, "BEGIN"))
        return STATEMENT_BEGIN;
    if (take_word(text, "END"))
        return STATEMENT_XA_END;
    return take_word(text, "ROLLBACK") ? STATEMENT_XA_ROLLBACK : STATEMENT_XA_COMMIT;
}

/* Stored functions are logged as a SELECT. */
static bool changes_rows(struct text *text)
{
    static const char *const words[] = {"INSERT", "REPLACE", "UPDATE", "DELETE", "LOAD",
                                        "SELECT", "DO",      "CALL",   "WITH",   "EXECUTE"};

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (take_word(text, words[i]))
            return true;
    return false;
}

/* MariaDB: SET STATEMENT variable = value FOR statement. The values are not looked into. */
static void skip_settings(struct text *text)
{
    struct text rest = *text;

    if (!take_word(&rest, "SET") || !take_word(&rest, "STATEMENT"))
        return;
    while (rest.at < rest.end) {
        if (isspace((unsigned char)*rest.at) && take_word(&rest, "FOR")) {
            *text = rest;
            return;
        }
        rest.at++;
    }
}

void statement_parse(struct statement *statement, const struct binlog_query *query)
{
    struct text text = {query->text, query->text + query->text_len};

    statement->savepoint = 0;
    skip_settings(&text);
    if (take_word(&text, "BEGIN"))
        statement->kind = STATEMENT_BEGIN;
    else if (take_word(&text, "COMMIT"))
        statement->kind = STATEMENT_COMMIT;
    else if (take_word(&text, "ROLLBACK"))
        statement->kind = kind_of_rollback(&text);
    else if (take_word(&text, "SAVEPOINT"))
        statement->kind = STATEMENT_SAVEPOINT;
    else if (take_word(&text, "RELEASE"))
        statement->kind = STATEMENT_RELEASE;
    else if (take_word(&text, "XA"))
        statement->kind = kind_of_xa(&text);
    else
        statement->kind = changes_rows(&text) ? STATEMENT_DATA : STATEMENT_OTHER;
    if (statement->kind == STATEMENT_SAVEPOINT || statement->kind == STATEMENT_ROLLBACK_TO)
        statement->savepoint = hash_name(&text);
}

/* Takes a name and returns whether it is this one, whatever its case. A name in quotes ends at the
 * first quote: one that has a quote in it is no name of a lane. */
static bool take_name(struct text *text, const char *name, size_t name_len)
{
    struct text rest = *text;
    char quote = '\0';
    const char *from;
    size_t len;

    skip_blanks(&rest);
    if (rest.at < rest.end && (*rest.at == '`' || *rest.at == '"'))
        quote = *rest.at++;
    from = rest.at;
    while (rest.at < rest.end && (quote ? *rest.at != quote : is_of_word(*rest.at)))
        rest.at++;
    len = (size_t)(rest.at - from);
    if (quote && rest.at < rest.end)
        rest.at++;
    *text = rest;
    return len == name_len && strncasecmp(from, name, len) == 0;
}

static bool take_char(struct text *text, char c)
{
    struct text rest = *text;

    skip_blanks(&rest);
    if (rest.at == rest.end || *rest.at != c)
        return false;
    rest.at++;
    *text = rest;
    return true;
}

/* Takes `table` or `schema.table`. */
static bool take_table(struct text *text, const struct binlog_query *query, const char *schema,
                       const char *name)
{
    struct text rest = *text;
    bool is_schema = take_name(&rest, schema, strlen(schema));

    if (take_char(&rest, '.')) {
        *text = rest;
        return take_name(text, name, strlen(name)) && is_schema;
    }
    return take_name(text, name, strlen(name)) && query->schema_len == strlen(schema) &&
           strncasecmp(query->schema, schema, query->schema_len) == 0;
}

/* TRUNCATE [TABLE], DROP TABLE [IF EXISTS] or CREATE OR REPLACE TABLE. *many: a list of tables
 * follows. */
static bool take_emptying_words(struct text *text, bool *many)
{
    *many = false;
    if (take_word(text, "TRUNCATE")) {
        take_word(text, "TABLE");
        return true;
    }
    if (take_word(text, "CREATE"))
        return take_word(text, "OR") && take_word(text, "REPLACE") && take_word(text, "TABLE");
    *many = true;
    if (!take_word(text, "DROP") || (!take_word(text, "TABLE") && !take_word(text, "TABLES")))
        return false;
    if (take_word(text, "IF"))
        take_word(text, "EXISTS");
    return true;
}

bool statement_empties(const struct binlog_query *query, const char *schema, const char *name)
{
    struct text text = {query->text, query->text + query->text_len};
    bool many;

    skip_settings(&text);
    if (!take_emptying_words(&text, &many))
        return false;
    do {
        if (take_table(&text, query, schema, name))
            return true;
    } while (many && take_char(&text, ','));
    return false;
}

bool statement_changes_system_table(const struct binlog_query *query)
{
    static const char *const words[] = {"INSERT",       "REPLACE", "UPDATE", "DELETE",
                                        "LOW_PRIORITY", "DELAYED", "QUICK",  "HIGH_PRIORITY",
                                        "IGNORE",       "INTO",    "FROM"};
    static const char schema[] = "mysql";
    struct text text = {query->text, query->text + query->text_len};
    bool is_system;

    skip_settings(&text);
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        take_word(&text, words[i]);
    is_system = take_name(&text, schema, sizeof(schema) - 1);
    if (take_char(&text, '.'))
        return is_system;
    return query->schema_len == sizeof(schema) - 1 &&
           strncasecmp(query->schema, schema, query->schema_len) == 0;
}

bool statement_names(const struct binlog_query *query, const char *name)
{
    struct text text = {query->text, query->text + query->text_len};
    size_t len = strlen(name);

    for (; len > 0 && (size_t)(text.end - text.at) >= len; text.at++) {
        if (strncasecmp(text.at, name, len) != 0)
            continue;
        if (text.at > query->text && is_of_word(text.at[-1]))
            continue;
        if (text.at + len == text.end || !is_of_word(text.at[len]))
            return true;
    }
    return false;
}

bool statement_may_change(const struct binlog_query *query, const char *schema, const char *name)
{
    bool is_default =
        query->schema_len == 0 || (query->schema_len == strlen(schema) &&
                                   strncasecmp(query->schema, schema, query->schema_len) == 0);

    return statement_names(query, name) && (is_default || statement_names(query, schema));
}
