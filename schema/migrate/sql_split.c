/* SPDX-License-Identifier: MIT */
#include "schema/migrate/sql_split.h"

#include <string.h>
#include <strings.h>

#define EXCERPT 30 /* characters of the SQL in an error */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_blank(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* Bytes of UTF-8 belong to words, as on the servers. */
static bool is_word(char c)
{
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
           c == '$' || (unsigned char)c >= 0x80;
}

static enum rc fail_at(const struct sql_scan *scan, const char *what, struct err *err)
{
    size_t rest = (size_t)(scan->end - scan->at);
    size_t len = 0;

    while (len < rest && len < EXCERPT && scan->at[len] != '\n')
        len++;
    return err_fail(err, RC_FATAL, 0, "%s: %.*s", what, (int)len, scan->at);
}

static void skip_line(struct sql_scan *scan)
{
    while (scan->at < scan->end && *scan->at != '\n')
        scan->at++;
}

static enum rc skip_block(struct sql_scan *scan, struct err *err)
{
    const char *at = scan->at + 2;

    /* Some servers execute its content and others do not. */
    if (scan->end - at >= 2 && (*at == '!' || *at == '+' || (*at == 'M' && at[1] == '!')))
        return fail_at(scan, "a comment that servers execute is not supported", err);
    for (; scan->end - at >= 2; at++) {
        if (at[0] == '*' && at[1] == '/') {
            scan->at = at + 2;
            return RC_OK;
        }
    }
    return fail_at(scan, "a comment does not end", err);
}

static bool is_pair(const struct sql_scan *scan, char first, char second)
{
    return scan->end - scan->at >= 2 && scan->at[0] == first && scan->at[1] == second;
}

/* Two dashes start a comment only with a blank or the end behind them: 5--3 is 8. */
static bool is_dash_comment(const struct sql_scan *scan)
{
    return is_pair(scan, '-', '-') && (scan->end - scan->at == 2 || is_blank(scan->at[2]));
}

static enum rc skip_blanks(struct sql_scan *scan, struct err *err)
{
    enum rc rc = RC_OK;

    while (rc == RC_OK && scan->at < scan->end) {
        if (is_blank(*scan->at))
            scan->at++;
        else if (*scan->at == '#' || is_dash_comment(scan))
            skip_line(scan);
        else if (is_pair(scan, '/', '*'))
            rc = skip_block(scan, err);
        else
            break;
    }
    return rc;
}

/* From one quote to its end; a doubled quote is part of the text, and so is, outside of names,
 * whatever stands behind a backslash. */
static enum rc read_quoted(struct sql_scan *scan, struct sql_token *token, struct err *err)
{
    char quote = *scan->at;
    const char *at = scan->at + 1;

    for (; at < scan->end; at++) {
        if (*at == '\\' && quote != '`' && at + 1 < scan->end) {
            at++;
        } else if (*at == quote) {
            if (at + 1 == scan->end || at[1] != quote)
                break;
            at++;
        }
    }
    if (at >= scan->end)
        return fail_at(scan, "a quote does not end", err);
    token->kind = quote == '`' ? SQL_NAME : SQL_TEXT;
    scan->at = at + 1;
    return RC_OK;
}

static void read_word(struct sql_scan *scan, struct sql_token *token)
{
    token->kind = is_digit(*scan->at) ? SQL_NUMBER : SQL_WORD;
    while (scan->at < scan->end &&
           (is_word(*scan->at) || (token->kind == SQL_NUMBER && *scan->at == '.')))
        scan->at++;
}

enum rc sql_token_next(struct sql_scan *scan, struct sql_token *token, struct err *err)
{
    enum rc rc = skip_blanks(scan, err);

    if (rc != RC_OK)
        return rc;
    token->kind = SQL_END;
    token->at = scan->at;
    token->len = 0;
    if (scan->at == scan->end)
        return RC_OK;
    if (*scan->at == '\'' || *scan->at == '"' || *scan->at == '`') {
        rc = read_quoted(scan, token, err);
    } else if (is_word(*scan->at)) {
        read_word(scan, token);
    } else {
        token->kind = SQL_MARK;
        scan->at++;
    }
    token->len = (size_t)(scan->at - token->at);
    return rc;
}

bool sql_token_is(const struct sql_token *token, const char *word)
{
    return (token->kind == SQL_WORD || token->kind == SQL_MARK) && token->len == strlen(word) &&
           strncasecmp(token->at, word, token->len) == 0;
}

bool sql_token_plain(const struct sql_token *token, char *out, size_t size)
{
    bool quoted = token->kind == SQL_NAME || token->kind == SQL_TEXT;
    const char *at = token->at + (quoted ? 1 : 0);
    const char *end = token->at + token->len - (quoted ? 1 : 0);
    size_t len = 0;

    for (; at < end; at++) {
        if (len + 1 >= size || *at == '\\')
            return false;
        out[len++] = *at;
        if (quoted && *at == *token->at)
            at++;
    }
    out[len] = '\0';
    return true;
}

enum rc sql_statement_next(const char **at, const char *end, struct sql_statement *statement,
                           struct err *err)
{
    struct sql_scan scan = {*at, end};
    struct sql_token token;
    const char *last = NULL;
    enum rc rc;

    statement->sql = *at;
    statement->len = 0;
    while ((rc = sql_token_next(&scan, &token, err)) == RC_OK) {
        bool ends = token.kind == SQL_END || sql_token_is(&token, ";");

        if (ends && (last || token.kind == SQL_END))
            break;
        if (ends)
            continue;
        if (!last) {
            statement->sql = token.at;
            if (sql_token_is(&token, "DELIMITER"))
                return err_fail(err, RC_FATAL, 0,
                                "DELIMITER is a word of the mysql client and not supported: only "
                                "semicolons end a statement");
        }
        last = token.at + token.len;
    }
    if (last)
        statement->len = (size_t)(last - statement->sql);
    *at = scan.at;
    return rc;
}
