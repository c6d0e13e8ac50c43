/* SPDX-License-Identifier: MIT */
/* Who may talk to an HTTP server: the rule that what other machines can reach is not open to all,
 * the bearer tokens, and the certificate. http_guard_allows() and http_guards_reload(): any
 * thread. */
#ifndef COMMON_HTTP_GUARD_H
#define COMMON_HTTP_GUARD_H

#include "common/buf.h"
#include "common/err.h"
#include "common/http/tokens.h"

#include <pthread.h>
#include <stdbool.h>

#define HTTP_GUARD_NAME_SIZE 256

/* Settings of a section; a text that is empty or NULL is not set. */
struct http_guard_config {
    const char *section; /* "api": for sentences */
    /* Which names and addresses the header Host may have, as SETTING_HOSTS; "": those of the
     * loopback and the address of the server; NULL: any. */
    const char *hosts;
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
    char name[HTTP_GUARD_NAME_SIZE]; /* the host of its address as it was written; "": any */
    struct buf cert;                 /* PEM; empty without TLS */
    struct buf key;
    bool has_tokens;
    pthread_mutex_t lock; /* guards tokens */
    struct http_tokens tokens;
    struct http_guard *next; /* of those that are open */
};

/* Reads the files, and looks at where the listening socket fd is bound; listen is its address as it
 * was written. RC_REJECT: err names the setting and what to do. config is borrowed until
 * http_guard_close(), which takes a zeroed guard, too. */
enum rc http_guard_open(struct http_guard *guard, const struct http_guard_config *config,
                        const char *listen, int fd, struct err *err);
void http_guard_close(struct http_guard *guard);

/* Whether a request that came through the socket fd may be for this Host. A web page can have any
 * name stand for our address, and then a browser lets it talk to us; but it cannot make the browser
 * send another name than its own. */
bool http_guard_answers_for(const struct http_guard *guard, const char *host, int fd);

/* Whether a request with this Authorization header (or NULL) may pass; *scopes: what it may do. */
bool http_guard_allows(struct http_guard *guard, const char *authorization,
                       struct http_scopes *scopes);

/* Reads the tokens of every open guard of the process again and says in the log what it did. After
 * a failure the old ones stay good. */
void http_guards_reload(void);

#endif
