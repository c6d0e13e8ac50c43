/* SPDX-License-Identifier: MIT */
/* Hosts as the header Host, URLs and settings write them: NAME[:PORT], a name being one of DNS, an
 * IPv4 address or an IPv6 address in brackets; and lists of them. Pure; any thread. */
#ifndef COMMON_HOST_H
#define COMMON_HOST_H

#include <stdbool.h>
#include <stddef.h>

struct host {
    const char *name; /* borrowed from the text; with the brackets of an IPv6 address */
    size_t name_len;
    int port; /* 0: there is none */
};

/* The length of the host name at the start of a text; 0: there is none. */
size_t host_name_len(const char *text);

/* Parses a text. False: it is no host. */
bool host_read(struct host *host, const char *text);

/* Whether both have the same name, in either case, or are the same IPv6 address. */
bool host_has_name(const struct host *host, const char *name, size_t name_len);

/* Whether a list of hosts from the settings names the host: NAME, NAME:PORT or *.SUFFIX. An entry
 * without a port means port_standard; 0: any port. */
bool host_is_listed(const struct host *host, const char *list, int port_standard);

#endif
