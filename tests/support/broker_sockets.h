// SPDX-License-Identifier: MIT
/* Cures two things of librdkafka's in-process broker by standing in for its accept() and bind():
 * its sockets lack TCP_NODELAY, which stalls request after request for 40 ms, and it cannot be
 * told a port. Linking this object is enough for the first. Any thread may call it. */
#ifndef TESTS_SUPPORT_BROKER_SOCKETS_H
#define TESTS_SUPPORT_BROKER_SOCKETS_H

#include <stdbool.h>

/* The next IPv4 sockets are bound to this port, until it is 0 again. */
void broker_sockets_set_port(int port);

/* True when the port of 127.0.0.1 can be bound. If not, errno has the reason. */
bool broker_sockets_port_is_free(int port);

#endif
