/* SPDX-License-Identifier: MIT */
/* Listening sockets from "address:port". Any thread. */
#ifndef COMMON_HTTP_LISTEN_H
#define COMMON_HTTP_LISTEN_H

#include "common/err.h"

/* Opens a listening socket. address: host:port; the host is a name, an IPv4 address, an IPv6
 * address in brackets, or * for all addresses. The caller owns *fd; *port is the actual port.
 * RC_FATAL: err names the address and the reason. */
enum rc http_listen(const char *address, int *fd, int *port, struct err *err);

#endif
