/* SPDX-License-Identifier: MIT */
#include "common/host.h"

#include "common/text.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#define NAME_BYTES_MAX 253 /* DNS's own bound */

/* Only an IPv6 address is valid between brackets. */
static bool read_address(struct in6_addr *address, const char *name, size_t name_len)
{
    char text[INET6_ADDRSTRLEN];

    if (name_len < 3 || name_len - 2 >= sizeof(text) || name[0] != '[' || name[name_len - 1] != ']')
        return false;
    memcpy(text, name + 1, name_len - 2);
    text[name_len - 2] = '\0';
    return inet_pton(AF_INET6, text, address) == 1;
}

size_t host_name_len(const char *text)
{
    struct in6_addr address;
    size_t len;

    if (*text == '[') {
        len = strspn(text + 1, "0123456789abcdefABCDEF:.") + 2;
        return text[len - 1] == ']' && read_address(&address, text, len) ? len : 0;
    }
    len = strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-.");
    return len <= NAME_BYTES_MAX && *text != '.' ? len : 0;
}

bool host_read(struct host *host, const char *text)
{
    const char *port;
    size_t digits;

    *host = (struct host){.name = text, .name_len = host_name_len(text)};
    port = text + host->name_len;
    if (host->name_len == 0 || *port == '\0')
        return host->name_len > 0;
    digits = strspn(port + 1, "0123456789");
    if (*port != ':' || digits == 0 || digits > 5 || port[digits + 1] != '\0')
        return false;
    host->port = (int)strtol(port + 1, NULL, 10);
    return host->port >= 1 && host->port <= 65535;
}

bool host_has_name(const struct host *host, const char *name, size_t name_len)
{
    struct in6_addr one;
    struct in6_addr other;

    if (host->name_len == name_len && strncasecmp(host->name, name, name_len) == 0)
        return true;
    return read_address(&one, host->name, host->name_len) && read_address(&other, name, name_len) &&
           memcmp(&one, &other, sizeof(one)) == 0;
}

static bool match_entry(const struct host *host, const char *entry, size_t len, int port_standard)
{
    const char *bracket = memchr(entry, ']', len);
    const char *from = bracket ? bracket : entry;
    const char *colon = memchr(from, ':', len - (size_t)(from - entry));
    int port = colon ? (int)strtol(colon + 1, NULL, 10) : port_standard;
    size_t name_len = colon ? (size_t)(colon - entry) : len;

    if (port != 0 && port != host->port)
        return false;
    if (name_len <= 2 || entry[0] != '*')
        return host_has_name(host, entry, name_len);
    /* ".suffix", with something in front of it. */
    entry++;
    name_len--;
    return host->name_len > name_len &&
           strncasecmp(host->name + host->name_len - name_len, entry, name_len) == 0;
}

bool host_is_listed(const struct host *host, const char *list, int port_standard)
{
    size_t len;

    for (const char *entry; (entry = list_next(&list, ',', &len));)
        if (len > 0 && match_entry(host, entry, len, port_standard))
            return true;
    return false;
}
