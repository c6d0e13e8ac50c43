/* SPDX-License-Identifier: MIT */
/* Bearer tokens: which are good, and whether what a client shows is one of them. A token is kept as
 * its SHA-256 only. Reading: any thread on tokens of its own; looking: any thread. */
#ifndef COMMON_HTTP_TOKENS_H
#define COMMON_HTTP_TOKENS_H

#include "common/err.h"

#include <stdbool.h>
#include <stddef.h>

#define HTTP_TOKENS_MAX 64
#define HTTP_TOKEN_BYTES_MIN 20
#define HTTP_TOKEN_BYTES_MAX 255
#define HTTP_TOKEN_DIGEST_SIZE 32

struct http_tokens {
    unsigned char digests[HTTP_TOKENS_MAX][HTTP_TOKEN_DIGEST_SIZE];
    size_t count;
};

/* Reads a file of tokens, one a line; empty lines and lines that begin with # are skipped. RC_FATAL:
 * err names the file and the line, never a token; *tokens is as before. A file that accounts beside
 * its owner and group can read is refused. */
enum rc http_tokens_read(struct http_tokens *tokens, const char *path, struct err *err);

/* Takes the same steps whatever the digest is and wherever it stands. */
bool http_tokens_match(const struct http_tokens *tokens,
                       const unsigned char digest[HTTP_TOKEN_DIGEST_SIZE]);

/* header: the value of Authorization, or NULL. True for "Bearer <one of the tokens>". */
bool http_tokens_allow(const struct http_tokens *tokens, const char *header);

#endif
