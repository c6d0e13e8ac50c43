/* SPDX-License-Identifier: MIT */
/* Who may talk to an HTTP server: the rule that what other machines can reach is not open to all,
 * the bearer tokens, and the certificate. http_guard_allows() and http_guards_reload(): any
 * thread. */
#ifndef COMMON_HTTP_GUARD_H
#define COMMON_HTTP_GUARD_H

#include "common/buf.h"
#include "common/err.h"
#include "common/http_tokens.h"

#include <pthread.h>
#include <stdbool.h>

/* Settings of a section; a text that is empty or NULL is not set. */
struct http_guard_config {
    const char *section; /* "api": for sentences */
    const char *token_file;
    const char
        *tls_cert; /* a PEM file: the server's certificate, then those between it and a root */
    const char *tls_key;
    bool without_token;   /* other machines may come without a token */
    unsigned open_scopes; /* what everyone may do without a token_file: bits of enum http_scope */
    enum http_scope needed_scope; /* at least one token must have it; 0: none */
};

struct http_guard {
    const struct http_guard_config *config;
    struct buf cert; /* PEM; empty without TLS */
    struct buf key;
    bool has_tokens;
    pthread_mutex_t lock; /* guards tokens */
    struct http_tokens tokens;
    struct http_guard *next; /* of those that are open */
};

/* Reads the files, and looks at where the listening socket fd is bound. RC_FATAL: err names the
 * setting and what to do. config is borrowed until http_guard_close(), which takes a zeroed guard,
 * too. */
enum rc http_guard_open(struct http_guard *guard, const struct http_guard_config *config, int fd,
                        struct err *err);
void http_guard_close(struct http_guard *guard);

/* Whether a request with this Authorization header (or NULL) may pass; *scopes: what it may do. */
bool http_guard_allows(struct http_guard *guard, const char *authorization,
                       struct http_scopes *scopes);

/* Reads the tokens of every open guard of the process again and says in the log what it did. After
 * a failure the old ones stay good. */
void http_guards_reload(void);

#endif
