/* SPDX-License-Identifier: MIT */
#include "common/http/listen.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define HOST_SIZE 256
#define BACKLOG 511

/* Splits "host:port" and "[host]:port". False when it is neither. */
static bool split_address(const char *address, char host[HOST_SIZE], char port[8])
{
    const char *colon = strrchr(address, ':');
    size_t len = colon ? (size_t)(colon - address) : 0;

    if (!colon || len == 0 || len >= HOST_SIZE || strlen(colon + 1) >= 8)
        return false;
    if (address[0] == '[' && address[len - 1] == ']') {
        address++;
        len -= 2;
    }
    memcpy(host, address, len);
    host[len] = '\0';
    memcpy(port, colon + 1, strlen(colon + 1) + 1);
    return true;
}

static const char *explain_error(int code)
{
    switch (code) {
    case EADDRINUSE:
        return "another process listens on this address; stop it or choose another port";
    case EADDRNOTAVAIL:
        return "this machine does not have that address";
    case EACCES:
        return "ports below 1024 need a privilege";
    default:
        return strerror(code);
    }
}

/* 0 and the socket, or an errno. */
static int open_socket(const struct addrinfo *place, int *out)
{
    int fd = socket(place->ai_family, place->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK,
                    place->ai_protocol);
    int on = 1;
    int off = 0;
    int code;

    if (fd < 0)
        return errno;
    /* Without it a restart fails while old connections are in TIME_WAIT. */
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    /* "*" and "[::]" mean both families; the system's default differs. */
    if (place->ai_family == AF_INET6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
    if (bind(fd, place->ai_addr, place->ai_addrlen) == 0 && listen(fd, BACKLOG) == 0) {
        *out = fd;
        return 0;
    }
    code = errno;
    close(fd);
    return code;
}

static int read_port(int fd)
{
    struct sockaddr_storage address = {0};
    socklen_t len = sizeof(address);
    char port[8];

    if (getsockname(fd, (struct sockaddr *)&address, &len) != 0 ||
        getnameinfo((struct sockaddr *)&address, len, NULL, 0, port, sizeof(port),
                    NI_NUMERICSERV) != 0)
        return 0;
    return (int)strtol(port, NULL, 10);
}

/* Opens the first address of this family that works. For "*" IPv6 is tried first: such a socket
 * accepts IPv4, too. */
static int try_places(const struct addrinfo *places, int family, int *fd)
{
    int code = EADDRNOTAVAIL;

    for (const struct addrinfo *place = places; place; place = place->ai_next) {
        if (place->ai_family != family)
            continue;
        code = open_socket(place, fd);
        if (code == 0)
            return 0;
    }
    return code;
}

enum rc http_listen(const char *address, int *fd, int *port, struct err *err)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    struct addrinfo *places = NULL;
    char host[HOST_SIZE];
    char port_text[8];
    bool any;
    int code;

    if (!split_address(address, host, port_text))
        return err_fail(err, RC_FATAL, 0, "cannot listen on \"%s\": expected address:port",
                        address);
    any = strcmp(host, "*") == 0;
    code = getaddrinfo(any ? NULL : host, port_text, &hints, &places);
    if (code != 0)
        return err_fail(err, RC_FATAL, 0, "cannot listen on %s: %s", address, gai_strerror(code));
    code = try_places(places, any ? AF_INET6 : AF_INET, fd);
    if (code != 0 && code != EADDRINUSE)
        code = try_places(places, any ? AF_INET : AF_INET6, fd);
    freeaddrinfo(places);
    if (code != 0)
        return err_fail(err, RC_FATAL, code, "cannot listen on %s: %s", address,
                        explain_error(code));
    *port = read_port(*fd);
    return RC_OK;
}
