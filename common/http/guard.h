/* SPDX-License-Identifier: MIT */
/* Decides which requests an HTTP server accepts: an address that other machines can reach needs
 * bearer tokens unless a setting allows requests without one; and it holds the tokens and the
 * certificate. http_guard_allows() and http_guards_reload(): any thread. */
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
    const char *section; /* for messages: "api" */
    /* The values that the header Host may have, as SETTING_HOSTS; "": those of the loopback and the
     * address of the server, and the machine's name if it listens at every address; NULL: any. */
    const char *hosts;
    const char *token_file;
    const char *tls_cert; /* a PEM file: the server's certificate, then the intermediate ones */
    const char *tls_key;
    bool without_token;   /* other machines may send requests without a token */
    unsigned open_scopes; /* of every request if there is no token_file: bits of enum http_scope */
    enum http_scope needed_scope; /* at least one token must have it; 0: none */
};

struct http_guard {
    const struct http_guard_config *config;
    /* The host of the listen address as written; where it is every address, the machine's name. */
    char name[HTTP_GUARD_NAME_SIZE];
    struct buf cert; /* PEM; empty without TLS */
    struct buf key;
    bool has_tokens;
    pthread_mutex_t lock; /* guards tokens */
    struct http_tokens tokens;
    struct http_guard *next; /* in the list of open guards */
};

/* Reads the files and checks the address of the listening socket fd; listen is that address as it
 * was written. RC_REJECT: err names the setting and what to do. config is borrowed until
 * http_guard_close(), which accepts a zeroed guard. */
enum rc http_guard_open(struct http_guard *guard, const struct http_guard_config *config,
                        const char *listen, int fd, struct err *err);
void http_guard_close(struct http_guard *guard);

/* Logs a warning if other machines can reach the address of the socket fd without TLS. */
void http_guard_warn(const struct http_guard *guard, int fd);

/* Whether a request on the socket fd may have this Host. A web page can resolve its own name to the
 * address of this server (DNS rebinding), and then a browser lets the page send requests here; but
 * the browser sends the page's name as Host. */
bool http_guard_answers_for(const struct http_guard *guard, const char *host, int fd);

/* Whether a request with this Authorization header, or NULL, is accepted; *scopes: its scopes. */
bool http_guard_allows(struct http_guard *guard, const char *authorization,
                       struct http_scopes *scopes);

/* Reads the tokens of every open guard of the process again and logs the result. After a failure
 * the old tokens stay valid. */
void http_guards_reload(void);

#endif
