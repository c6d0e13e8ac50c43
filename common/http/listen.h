/* SPDX-License-Identifier: MIT */
/* Listening sockets from "address:port". Any thread. */
#ifndef COMMON_HTTP_LISTEN_H
#define COMMON_HTTP_LISTEN_H

#include "common/err.h"

/* address: a name, an IPv4 address, an IPv6 one in brackets, or * for every address there is.
 * *fd is the caller's; *port is the one it got. RC_FATAL: err says which address and why. */
enum rc http_listen(const char *address, int *fd, int *port, struct err *err);

#endif
