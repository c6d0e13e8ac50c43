/* SPDX-License-Identifier: MIT */
#include "common/http/tokens.h"

#include "common/config/secret_file.h"

#include <openssl/sha.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* The characters of a token in RFC 6750. */
static const char letters[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~+/=";

static const char group_letters[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.:-";

static bool is_blank(char letter)
{
    return letter == ' ' || letter == '\t';
}

static void compute_digest(const char *token, size_t len,
                           unsigned char digest[HTTP_TOKEN_DIGEST_SIZE])
{
    SHA256((const unsigned char *)token, len, digest);
}

static const struct {
    const char *name;
    enum http_scope scope;
} scope_names[] = {
    {"votes", HTTP_SCOPE_VOTES},
    {"read", HTTP_SCOPE_READ},
    {"operate", HTTP_SCOPE_OPERATE},
    {"remarks", HTTP_SCOPE_REMARKS},
};

static const char *name_scope(enum http_scope scope)
{
    size_t i = 0;

    while (scope_names[i].scope != scope)
        i++;
    return scope_names[i].name;
}

bool http_scopes_have(const struct http_scopes *scopes, enum http_scope scope)
{
    return (scopes->bits & (unsigned)scope) != 0;
}

bool http_scopes_have_group(const struct http_scopes *scopes, const char *group)
{
    for (size_t i = 0; i < scopes->group_count; i++)
        if (strcmp(scopes->groups[i], group) == 0)
            return true;
    return false;
}

static enum rc take_group(struct http_scopes *scopes, const char *group, size_t len,
                          struct err *err)
{
    char name[HTTP_SCOPE_GROUP_SIZE];

    if (len == 0 || len >= sizeof(name) || strspn(group, group_letters) < len)
        return err_fail(err, RC_REJECT, 0,
                        "has a scope tasks:GROUP whose group is not 1 to %d letters, digits and "
                        "_.:-",
                        HTTP_SCOPE_GROUP_SIZE - 1);
    memcpy(name, group, len);
    name[len] = '\0';
    if (http_scopes_have_group(scopes, name))
        return RC_OK;
    if (scopes->group_count == HTTP_SCOPE_GROUPS_MAX)
        return err_fail(err, RC_REJECT, 0, "has too many scopes tasks:GROUP; expected %d at most",
                        HTTP_SCOPE_GROUPS_MAX);
    memcpy(scopes->groups[scopes->group_count++], name, len + 1);
    return RC_OK;
}

/* The error does not quote the word, because it may be a token in the wrong place. */
static enum rc take_scope(struct http_scopes *scopes, const char *word, size_t len, struct err *err)
{
    static const char tasks[] = "tasks:";

    if (len >= sizeof(tasks) - 1 && strncmp(word, tasks, sizeof(tasks) - 1) == 0)
        return take_group(scopes, word + sizeof(tasks) - 1, len - (sizeof(tasks) - 1), err);
    for (size_t i = 0; i < sizeof(scope_names) / sizeof(scope_names[0]); i++)
        if (strlen(scope_names[i].name) == len && strncmp(scope_names[i].name, word, len) == 0) {
            scopes->bits |= (unsigned)scope_names[i].scope;
            return RC_OK;
        }
    return err_fail(err, RC_REJECT, 0,
                    "has an unknown scope after its token; expected votes, read, operate or "
                    "tasks:GROUP, separated by blanks");
}

/* Makes the scopes of a new token: none, with its name. */
static void name_token(struct http_scopes *scopes,
                       const unsigned char digest[HTTP_TOKEN_DIGEST_SIZE])
{
    *scopes = (struct http_scopes){.bits = 0};
    snprintf(scopes->token, sizeof(scopes->token), "%02x%02x%02x%02x", digest[0], digest[1],
             digest[2], digest[3]);
}

static enum rc take_token(struct http_tokens *tokens, const char *token, size_t len,
                          struct err *err)
{
    size_t place;

    if (strspn(token, letters) < len)
        return err_fail(
            err, RC_REJECT, 0,
            "has a character that is not allowed in a token; expected letters, digits and -._~+/=");
    if (len < HTTP_TOKEN_BYTES_MIN || len > HTTP_TOKEN_BYTES_MAX)
        return err_fail(err, RC_REJECT, 0,
                        "has a token of %zu characters; expected %d to %d, e.g. from `openssl "
                        "rand -hex 32`",
                        len, HTTP_TOKEN_BYTES_MIN, HTTP_TOKEN_BYTES_MAX);
    if (tokens->count == HTTP_TOKENS_MAX)
        return err_fail(err, RC_REJECT, 0, "has too many tokens; expected %d at most",
                        HTTP_TOKENS_MAX);
    compute_digest(token, len, tokens->digests[tokens->count]);
    if (http_tokens_match(tokens, tokens->digests[tokens->count], &place))
        return err_fail(err, RC_REJECT, 0, "has the same token as an earlier line");
    name_token(&tokens->scopes[tokens->count], tokens->digests[tokens->count]);
    tokens->count++;
    return RC_OK;
}

/* TOKEN [SCOPE ...] */
static enum rc take_line(struct http_tokens *tokens, const char *line, size_t len, struct err *err)
{
    size_t token_len = 0;
    struct http_scopes *scopes;
    enum rc rc;

    while (token_len < len && !is_blank(line[token_len]))
        token_len++;
    rc = take_token(tokens, line, token_len, err);
    if (rc != RC_OK)
        return rc;
    scopes = &tokens->scopes[tokens->count - 1];
    for (size_t at = token_len; at < len && rc == RC_OK;) {
        size_t word = at;

        while (at < len && !is_blank(line[at]))
            at++;
        if (at > word)
            rc = take_scope(scopes, line + word, at - word, err);
        while (at < len && is_blank(line[at]))
            at++;
    }
    if (scopes->bits == 0 && scopes->group_count == 0)
        scopes->bits = HTTP_SCOPE_VOTES | HTTP_SCOPE_READ;
    return rc;
}

static enum rc take_lines(struct http_tokens *tokens, const char *text, const char *path,
                          struct err *err)
{
    unsigned line = 1;

    for (const char *at = text; *at; line++) {
        size_t len = strcspn(at, "\n");
        size_t line_len = len;
        enum rc rc = RC_OK;

        if (line_len > 0 && at[line_len - 1] == '\r')
            line_len--;
        if (line_len > 0 && at[0] != '#')
            rc = take_line(tokens, at, line_len, err);
        if (rc != RC_OK) {
            err_wrap(err, "%.200s:%u", path, line);
            return rc;
        }
        at += len + (at[len] != '\0');
    }
    if (tokens->count == 0)
        return err_fail(err, RC_REJECT, 0, "%.200s: has no token; expected one a line", path);
    return RC_OK;
}

/* The caller forgets text, also after a failure. */
static enum rc read_file(struct http_tokens *tokens, struct buf *text, const char *path,
                         struct err *err)
{
    enum rc rc = secret_file_read(text, path, err);

    return rc == RC_OK ? take_lines(tokens, buf_text(text), path, err) : rc;
}

enum rc http_tokens_read(struct http_tokens *tokens, const char *path, struct err *err)
{
    struct http_tokens fresh = {.count = 0};
    struct buf text = {0};
    enum rc rc = read_file(&fresh, &text, path, err);

    secret_file_forget(&text);
    if (rc == RC_OK)
        *tokens = fresh;
    return rc;
}

/* The line of the first token with the scope, in a text that was read into tokens; NULL: none. */
static const char *find_line(const struct http_tokens *tokens, const char *text,
                             enum http_scope scope)
{
    size_t place = 0;

    for (const char *at = text; *at; at += strcspn(at, "\n"), at += *at != '\0') {
        if (strchr("#\r\n", *at))
            continue;
        if (http_scopes_have(&tokens->scopes[place], scope))
            return at;
        place++;
    }
    return NULL;
}

enum rc http_tokens_pick(struct buf *token, const char *path, enum http_scope scope,
                         struct err *err)
{
    struct http_tokens tokens = {.count = 0};
    struct buf text = {0};
    enum rc rc = read_file(&tokens, &text, path, err);
    const char *line = rc == RC_OK ? find_line(&tokens, buf_text(&text), scope) : NULL;

    /* Reserved at once, because growing would leave a part of the token in freed memory. */
    if (line && buf_reserve(token, HTTP_TOKEN_BYTES_MAX))
        buf_put(token, line, strcspn(line, " \t\r\n"));
    else if (line)
        rc = err_fail(err, RC_FATAL, 0, "out of memory");
    else if (rc == RC_OK)
        rc = err_fail(err, RC_REJECT, 0, "%.200s: no token has the scope %s", path,
                      name_scope(scope));
    secret_file_forget(&text);
    return rc;
}

bool http_tokens_match(const struct http_tokens *tokens,
                       const unsigned char digest[HTTP_TOKEN_DIGEST_SIZE], size_t *place)
{
    unsigned found = 0;
    size_t at_place = 0;

    /* Volatile, so that the compiler cannot end the comparison early. */
    for (size_t i = 0; i < tokens->count; i++) {
        const volatile unsigned char *one = tokens->digests[i];
        unsigned differ = 0;
        unsigned same;

        for (size_t at = 0; at < HTTP_TOKEN_DIGEST_SIZE; at++)
            differ |= (unsigned)(one[at] ^ digest[at]);
        /* 1 where differ is 0, without a branch: differ is at most 255. */
        same = (differ - 1U) >> 31;
        found |= same;
        at_place |= i & (0 - (size_t)same); /* no token is in the list twice */
    }
    *place = at_place;
    return found != 0;
}

bool http_tokens_allow(const struct http_tokens *tokens, const char *header,
                       struct http_scopes *scopes)
{
    static const char scheme[] = "Bearer ";
    unsigned char digest[HTTP_TOKEN_DIGEST_SIZE];
    size_t place;

    if (!header || strncasecmp(header, scheme, sizeof(scheme) - 1) != 0)
        return false;
    header += sizeof(scheme) - 1;
    header += strspn(header, " ");
    compute_digest(header, strlen(header), digest);
    if (!http_tokens_match(tokens, digest, &place))
        return false;
    *scopes = tokens->scopes[place];
    return true;
}
