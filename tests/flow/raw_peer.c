/* SPDX-License-Identifier: MIT */
#include "tests/flow/raw_peer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

static bool say(int fd, const char *bytes, size_t len)
{
    while (len > 0) {
        ssize_t sent = send(fd, bytes, len, MSG_NOSIGNAL);

        if (sent <= 0)
            return false;
        bytes += sent;
        len -= (size_t)sent;
    }
    return true;
}

static bool say_text(int fd, const char *text)
{
    return say(fd, text, strlen(text));
}

static void say_much(int fd, const char *unit, size_t times)
{
    for (size_t i = 0; i < times && say_text(fd, unit); i++)
        continue;
}

/* Until the other side goes. */
static void await_end(int fd)
{
    char bytes[256];

    while (recv(fd, bytes, sizeof(bytes), 0) > 0)
        continue;
}

/* False: the connection is at its end. */
static bool request_read(struct raw_peer *peer, int fd)
{
    size_t len = 0;

    for (;;) {
        ssize_t got = recv(fd, peer->request + len, sizeof(peer->request) - 1 - len, 0);
        const char *end;
        const char *length;

        if (got <= 0)
            return false;
        len += (size_t)got;
        peer->request[len] = '\0';
        end = strstr(peer->request, "\r\n\r\n");
        length = strstr(peer->request, "Content-Length: ");
        if (end &&
            (!length || len >= (size_t)(end + 4 - peer->request) + strtoul(length + 16, NULL, 10)))
            return true;
    }
}

static bool is_path(const struct raw_peer *peer, const char *path)
{
    const char *at = strchr(peer->request, ' ');

    return at && strncmp(at + 1, path, strlen(path)) == 0;
}

static int status_of(const struct raw_peer *peer)
{
    return (int)strtol(strstr(peer->request, "/status/") + 8, NULL, 10);
}

/* True: the connection stays open. */
static bool answer(struct raw_peer *peer, int fd)
{
    static const char block[] = "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx";
    char text[256];

    if (is_path(peer, "/ok"))
        return say_text(fd, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ndone");
    if (is_path(peer, "/json"))
        return say_text(fd, "HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\n{\"code\": 7}");
    if (is_path(peer, "/later"))
        return say_text(fd, "HTTP/1.1 503 Later\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n");
    if (is_path(peer, "/never"))
        return say_text(fd, "HTTP/1.1 422 No\r\nTallybox-No-Retry: 1\r\nContent-Length: 0\r\n\r\n");
    if (is_path(peer, "/status/")) {
        snprintf(text, sizeof(text), "HTTP/1.1 %d Text\r\nContent-Length: 0\r\n\r\n",
                 status_of(peer));
        return say_text(fd, text);
    }
    if (is_path(peer, "/redirect")) {
        snprintf(
            text, sizeof(text),
            "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:%d/ok\r\nContent-Length: 0\r\n\r\n",
            peer->port);
        return say_text(fd, text);
    }
    if (is_path(peer, "/huge")) {
        say_text(fd, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n");
        say_much(fd, block, (3U << 20) / (sizeof(block) - 1));
    }
    if (is_path(peer, "/heads")) {
        say_text(fd, "HTTP/1.1 200 OK\r\n");
        say_much(fd, "X-Much: abcdefghijklmnopqrstuvwxyz\r\n", 1U << 20);
    }
    if (is_path(peer, "/half"))
        say_text(fd, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly this");
    if (is_path(peer, "/rubbish"))
        say_text(fd, "SSH-2.0-peer\r\n");
    if (is_path(peer, "/stall"))
        say_text(fd, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n");
    if (is_path(peer, "/stall") || is_path(peer, "/silent"))
        await_end(fd);
    return false;
}

static void *peer_main(void *arg)
{
    struct raw_peer *peer = arg;

    while (!atomic_load(&peer->over)) {
        int fd = accept(peer->fd, NULL, NULL);

        if (fd < 0)
            continue;
        atomic_fetch_add(&peer->connections, 1);
        while (!atomic_load(&peer->over) && request_read(peer, fd)) {
            pthread_mutex_lock(&peer->lock);
            memcpy(peer->last, peer->request, sizeof(peer->last));
            pthread_mutex_unlock(&peer->lock);
            atomic_fetch_add(&peer->requests, 1);
            if (!answer(peer, fd))
                break;
        }
        close(fd);
    }
    return NULL;
}

void raw_peer_open(struct raw_peer *peer)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(address);

    memset(peer, 0, sizeof(*peer));
    pthread_mutex_init(&peer->lock, NULL);
    peer->fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(peer->fd >= 0);
    assert_int_equal(bind(peer->fd, (struct sockaddr *)&address, len), 0);
    assert_int_equal(listen(peer->fd, 16), 0);
    assert_int_equal(getsockname(peer->fd, (struct sockaddr *)&address, &len), 0);
    peer->port = ntohs(address.sin_port);
    assert_int_equal(pthread_create(&peer->thread, NULL, peer_main, peer), 0);
}

/* All clients have closed their connections before. */
void raw_peer_close(struct raw_peer *peer)
{
    atomic_store(&peer->over, true);
    shutdown(peer->fd, SHUT_RDWR);
    pthread_join(peer->thread, NULL);
    close(peer->fd);
    pthread_mutex_destroy(&peer->lock);
}

void raw_peer_last(struct raw_peer *peer, char request[RAW_REQUEST_SIZE])
{
    pthread_mutex_lock(&peer->lock);
    memcpy(request, peer->last, RAW_REQUEST_SIZE);
    pthread_mutex_unlock(&peer->lock);
}
