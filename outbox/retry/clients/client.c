/* SPDX-License-Identifier: MIT */
#include "outbox/retry/clients/client.h"

#include "outbox/retry/http_url.h"

#include <stdio.h>
#include <string.h>

bool client_route_read(const char *name, enum client_route *route)
{
    static const char *const names[CLIENT_ROUTES] = {[CLIENT_RANDOM] = "random",
                                                     [CLIENT_ROUND_ROBIN] = "round_robin",
                                                     [CLIENT_CONSISTENT_HASH] = "consistent_hash",
                                                     [CLIENT_LRU] = "lru",
                                                     [CLIENT_TWO_CHOICES] = "two_choices"};

    *route = CLIENT_ROUND_ROBIN;
    for (size_t i = 0; i < CLIENT_ROUTES; i++)
        if (strcmp(names[i], name) == 0) {
            *route = (enum client_route)i;
            return true;
        }
    return false;
}

/* The text of the address is not quoted: it may contain a password. */
enum rc retry_client_address(char address[RETRY_CLIENT_ADDRESS_SIZE], const char *text,
                             const char *hosts, struct err *err)
{
    struct http_url url;
    const char *path;
    size_t path_len;
    int len;

    if (!http_url_read(&url, text) || strchr(text, '?'))
        return err_fail(err, RC_REJECT, 0,
                        "the address must be http://host[:port][/path] or https://, without user, "
                        "query, fragment and blanks");
    if (!http_url_is_allowed(&url, hosts))
        return err_fail(err, RC_REJECT, 0,
                        "the host \"%.*s\" with port %d is not in retry.http_hosts of this server",
                        (int)url.host_len, url.host, url.port);
    path = text + (strchr(url.origin, ':') - url.origin) + strlen("://");
    path += strcspn(path, "/");
    path_len = strlen(path);
    while (path_len > 0 && path[path_len - 1] == '/')
        path_len--;
    len = snprintf(address, RETRY_CLIENT_ADDRESS_SIZE, "%s%.*s", url.origin, (int)path_len, path);
    if (len < 0 || len > RETRY_CLIENT_ADDRESS_BYTES_MAX)
        return err_fail(err, RC_REJECT, 0, "the address may have %d bytes at most",
                        RETRY_CLIENT_ADDRESS_BYTES_MAX);
    return RC_OK;
}
