// SPDX-License-Identifier: MIT
// The linker takes this program's accept() and bind() before libc's, also for librdkafka's calls.
#define _DEFAULT_SOURCE
#include "tests/support/broker_sockets.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static atomic_int wanted_port;

int accept(int listener, struct sockaddr *restrict address, socklen_t *restrict length)
{
    int on = 1;
    int fd = (int)syscall(SYS_accept4, listener, address, length, 0);

    if (fd >= 0)
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    return fd;
}

int bind(int fd, const struct sockaddr *address, socklen_t length)
{
    struct sockaddr_in chosen;
    int port = atomic_load(&wanted_port);
    int on = 1;

    if (port == 0 || length != sizeof(chosen) || address->sa_family != AF_INET)
        return (int)syscall(SYS_bind, fd, address, length);
    memcpy(&chosen, address, sizeof(chosen));
    chosen.sin_port = htons((uint16_t)port);
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    return (int)syscall(SYS_bind, fd, &chosen, length);
}

void broker_sockets_set_port(int port)
{
    atomic_store(&wanted_port, port);
}

bool broker_sockets_port_is_free(int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int on = 1;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    int saved;
    bool bound;

    if (fd < 0)
        return false;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    bound = syscall(SYS_bind, fd, &address, sizeof(address)) == 0;
    saved = errno;
    close(fd);
    errno = saved;
    return bound;
}
