/* SPDX-License-Identifier: MIT */
/* Bearer tokens: which are good, what each of them may do, and whether what a client shows is one
 * of them. A token is kept as its SHA-256 only. Reading: any thread on tokens of its own; looking:
 * any thread. */
#ifndef COMMON_HTTP_TOKENS_H
#define COMMON_HTTP_TOKENS_H

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

enum http_scope {
    HTTP_SCOPE_VOTES = 1,   /* "votes" */
    HTTP_SCOPE_READ = 2,    /* "read" */
    HTTP_SCOPE_OPERATE = 4, /* "operate" */
};

/* What a token may do. */
struct http_scopes {
    unsigned bits; /* of enum http_scope */
    size_t group_count;
    char groups[HTTP_SCOPE_GROUPS_MAX][HTTP_SCOPE_GROUP_SIZE]; /* of "tasks:GROUP" */
};

struct http_tokens {
    unsigned char digests[HTTP_TOKENS_MAX][HTTP_TOKEN_DIGEST_SIZE];
    struct http_scopes scopes[HTTP_TOKENS_MAX];
    size_t count;
};

/* Reads a file of tokens, one a line: TOKEN [SCOPE ...], separated by blanks. The scopes are votes,
 * read, operate and tasks:GROUP; a line without any has votes and read. Empty lines and lines that
 * begin with # are skipped. RC_REJECT: err names the file and the line, never a token or what
 * stands in its place; *tokens is as before. A file that accounts beside its owner and group can
 * read is refused. */
enum rc http_tokens_read(struct http_tokens *tokens, const char *path, struct err *err);

/* Takes the same steps whatever the digest is and wherever it stands. *place: which token it is. */
bool http_tokens_match(const struct http_tokens *tokens,
                       const unsigned char digest[HTTP_TOKEN_DIGEST_SIZE], size_t *place);

/* header: the value of Authorization, or NULL. True for "Bearer <one of the tokens>"; *scopes is
 * what that token may do. */
bool http_tokens_allow(const struct http_tokens *tokens, const char *header,
                       struct http_scopes *scopes);

bool http_scopes_have(const struct http_scopes *scopes, enum http_scope scope);
bool http_scopes_have_group(const struct http_scopes *scopes, const char *group);

#endif
