/* SPDX-License-Identifier: MIT */
#include "outbox/retry/http_url.h"

#include "common/host.h"

#include <assert.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of the host, which fits into an origin; 0: there is none, or one that DNS would read twice. */
static size_t measure_host(const char *text)
{
    size_t len = host_name_len(text);

    return len > 0 && text[len - 1] != '.' ? len : 0;
}

static bool read_port(const char **at, int *port)
{
    size_t digits;

    if (**at != ':')
        return true;
    digits = strspn(*at + 1, "0123456789");
    if (digits == 0 || digits > 5)
        return false;
    *port = (int)strtol(*at + 1, NULL, 10);
    *at += digits + 1;
    return *port >= 1 && *port <= 65535;
}

/* Narrower than what libcurl takes, so that both see the same host in it: no user, no fragment,
 * nothing that is not visible ASCII. */
bool http_url_read(struct http_url *url, const char *text)
{
    bool tls = strncmp(text, "https://", 8) == 0;
    const char *host = text + (tls ? 8 : 7);
    const char *at;
    int len;

    if (!tls && strncmp(text, "http://", 7) != 0)
        return false;
    url->text = text;
    url->scheme_port = tls ? 443 : 80;
    url->port = url->scheme_port;
    url->host_len = measure_host(host);
    at = host + url->host_len;
    if (url->host_len == 0 || !read_port(&at, &url->port))
        return false;
    if (*at && *at != '/' && *at != '?')
        return false;
    for (; *at; at++)
        if (*at <= ' ' || *at > '~' || *at == '#')
            return false;
    len = snprintf(url->origin, sizeof(url->origin), "%s://%.*s:%d", tls ? "https" : "http",
                   (int)url->host_len, host, url->port);
    assert(len > 0 && (size_t)len < sizeof(url->origin));
    for (char *c = url->origin; *c; c++)
        *c = (char)tolower((unsigned char)*c);
    url->host = url->origin + (tls ? 8 : 7);
    return true;
}

bool http_url_is_allowed(const struct http_url *url, const char *list)
{
    const struct host host = {url->host, url->host_len, url->port};

    return host_is_listed(&host, list, url->scheme_port);
}
