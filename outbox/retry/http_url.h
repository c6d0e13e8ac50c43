/* SPDX-License-Identifier: MIT */
/* The URLs that the queue calls, and the addresses of its clients: decides which texts are URLs and
 * which hosts may be called. Pure; any thread. */
#ifndef OUTBOX_RETRY_HTTP_URL_H
#define OUTBOX_RETRY_HTTP_URL_H

#include <stdbool.h>
#include <stddef.h>

#define HTTP_ORIGIN_SIZE 280

/* It points into itself and must not be copied. */
struct http_url {
    const char *text;
    char origin[HTTP_ORIGIN_SIZE]; /* "https://name:443", in lower case */
    const char *host;              /* the name, inside origin */
    size_t host_len;
    int port;
    int scheme_port; /* 80 or 443 */
};

/* Reads https://host[:port][/path][?query] or http://, without a user, a fragment or blanks. False:
 * the text is something else. Borrows text for the life of url. */
bool http_url_read(struct http_url *url, const char *text);

/* Returns whether the host is in the list, which has the form of retry.http_hosts. */
bool http_url_is_allowed(const struct http_url *url, const char *list);

#endif
