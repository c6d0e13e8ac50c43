/* SPDX-License-Identifier: MIT */
/* Bearer tokens and their scopes. A token is kept as its SHA-256 only. Any thread may read a file
 * into tokens of its own, and any thread may compare. */
#ifndef COMMON_HTTP_TOKENS_H
#define COMMON_HTTP_TOKENS_H

#include "common/buf.h"
#include "common/err.h"

#include <stdbool.h>
#include <stddef.h>

#define HTTP_TOKENS_MAX 64
#define HTTP_TOKEN_BYTES_MIN 20
#define HTTP_TOKEN_BYTES_MAX 255
#define HTTP_TOKEN_DIGEST_SIZE 32

/* Groups of tasks that one token may name, and the length of a group's name
 * (RETRY_NAME_BYTES_MAX). */
#define HTTP_SCOPE_GROUPS_MAX 16
#define HTTP_SCOPE_GROUP_SIZE 65

/* Of the name of a token: the first 8 hexadecimal digits of its SHA-256. */
#define HTTP_TOKEN_NAME_SIZE 9

/* A token is checked in four places: tokens.c parses its scopes, guard.c finds it by the request's
 * header, api.c compares its scopes with the route's (api_routes.h), and api_tasks.c compares its
 * groups with the task's. */
enum http_scope {
    HTTP_SCOPE_VOTES = 1,   /* "votes" */
    HTTP_SCOPE_READ = 2,    /* "read" */
    HTTP_SCOPE_OPERATE = 4, /* "operate" */
    HTTP_SCOPE_REMARKS = 8, /* "remarks" */
};

/* The scopes of a token. */
struct http_scopes {
    unsigned bits;                    /* of enum http_scope */
    char token[HTTP_TOKEN_NAME_SIZE]; /* its name, which does not give it away; "": no token */
    size_t group_count;
    char groups[HTTP_SCOPE_GROUPS_MAX][HTTP_SCOPE_GROUP_SIZE]; /* of "tasks:GROUP" */
};

struct http_tokens {
    unsigned char digests[HTTP_TOKENS_MAX][HTTP_TOKEN_DIGEST_SIZE];
    struct http_scopes scopes[HTTP_TOKENS_MAX];
    size_t count;
};

/* Reads a file with one token per line: TOKEN [SCOPE ...], separated by blanks. The scopes are
 * votes, read, remarks, operate and tasks:GROUP; a token without scopes has votes and read. Empty
 * lines and lines that begin with # are skipped. RC_REJECT: err names the file and the line, but
 * quotes nothing of it; *tokens is unchanged. A file that others than its owner and group can read
 * is refused. */
enum rc http_tokens_read(struct http_tokens *tokens, const char *path, struct err *err);

/* Appends the first token of such a file that has the scope, for a request of our own; the caller
 * forgets it with secret_file_forget(). RC_REJECT as http_tokens_read(), or no token has the scope;
 * nothing is appended then. */
enum rc http_tokens_pick(struct buf *token, const char *path, enum http_scope scope,
                         struct err *err);

/* Returns whether the digest is that of a token, and sets *place to the index of the token. Takes
 * the same time for every digest and every index. */
bool http_tokens_match(const struct http_tokens *tokens,
                       const unsigned char digest[HTTP_TOKEN_DIGEST_SIZE], size_t *place);

/* header: the value of the header Authorization, or NULL. Returns whether it is "Bearer TOKEN" with
 * one of the tokens, and sets *scopes to the scopes of that token. */
bool http_tokens_allow(const struct http_tokens *tokens, const char *header,
                       struct http_scopes *scopes);

bool http_scopes_have(const struct http_scopes *scopes, enum http_scope scope);
bool http_scopes_have_group(const struct http_scopes *scopes, const char *group);

#endif
