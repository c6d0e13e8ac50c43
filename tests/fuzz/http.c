/* SPDX-License-Identifier: MIT */
/* The HTTP server on a real socket: for any bytes, handlers see whole requests, every request is
 * answered or its connection ends, and the next client is served. how | the bytes of one
 * connection, which is then closed */
#include "common/http/http.h"

#include "tests/fuzz/fuzz.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#define BODY_BYTES_MAX 512
#define WAIT_SECONDS 20
#define KNOCK_EVERY 64
/* Most answers come at once, if they come. The connection is then cut instead of half closed: the
 * library sees an end that comes together with the last bytes only when it is idle for too long. */
#define ANSWER_MS 2

static struct http_server *server;
static unsigned inputs;

/* Requests of "/late" are answered by this thread. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards late and late_count */
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct http_request *late[64];
static size_t late_count;

static void on_argument(void *ctx, const char *name, const char *value)
{
    *(size_t *)ctx += strlen(name) + strlen(value);
}

static void answer(struct http_request *request)
{
    size_t len;
    size_t arguments = 0;
    const unsigned char *body = http_body(request, &len);
    const char *type = http_header(request, "content-type");
    char text[64];
    unsigned sum = 0;

    fuzz_must(len <= BODY_BYTES_MAX, "a body keeps its bound");
    for (size_t i = 0; i < len; i++)
        sum += body[i];
    http_each_argument(request, on_argument, &arguments);
    fuzz_must(*http_method(request) != '\0' && http_path(request) != NULL, "a request is whole");
    if (http_argument(request, "a"))
        arguments++;
    http_answer_header(request, "X-Sum", type && *type ? "1" : "0");
    snprintf(text, sizeof(text), "%u %zu", sum, arguments);
    http_answer(request, 200, "text/plain", text, strlen(text));
}

static void on_request(void *ctx, struct http_request *request)
{
    bool kept = false;

    (void)ctx;
    pthread_mutex_lock(&lock);
    if (strncmp(http_path(request), "/late", 5) == 0 && late_count < 64) {
        late[late_count++] = request;
        kept = true;
        pthread_cond_signal(&changed);
    }
    pthread_mutex_unlock(&lock);
    if (!kept)
        answer(request);
}

static void *answer_late(void *unused)
{
    (void)unused;
    for (;;) {
        struct http_request *request;

        pthread_mutex_lock(&lock);
        while (late_count == 0)
            pthread_cond_wait(&changed, &lock);
        request = late[--late_count];
        pthread_mutex_unlock(&lock);
        answer(request);
    }
    return NULL;
}

/* libFuzzer's timer would interrupt the socket calls of this thread. Other threads handle it. */
static void timer_block(void)
{
    sigset_t timer;

    sigemptyset(&timer);
    sigaddset(&timer, SIGALRM);
    pthread_sigmask(SIG_BLOCK, &timer, NULL);
}

/* Never closed: libFuzzer ends the process. */
static void open_once(void)
{
    const struct http_config config = {.listen = "127.0.0.1:0",
                                       .body_bytes_max = BODY_BYTES_MAX,
                                       .header_bytes_max = 4096,
                                       .connections_max = 100,
                                       .idle_timeout_ms = 5000,
                                       .guard = {.section = "fuzz", .hosts = "x,*.y:80,[::1]"}};
    pthread_t thread;
    struct err err = {0};

    if (server)
        return;
    if (http_open(&server, &config, on_request, NULL, NULL, &err) != RC_OK)
        fuzz_fail(err.text);
    fuzz_must(pthread_create(&thread, NULL, answer_late, NULL) == 0, "a thread can be made");
    pthread_detach(thread);
    timer_block();
}

static int connect_to_server(void)
{
    const struct sockaddr_in address = {.sin_family = AF_INET,
                                        .sin_port = htons((uint16_t)http_port(server)),
                                        .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const struct timeval wait = {.tv_sec = WAIT_SECONDS};
    const struct linger reset = {.l_onoff = 1};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    fuzz_must(fd >= 0, "there is a socket");
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof(wait));
    /* Ports must not stay in TIME_WAIT: thousands are needed a second. */
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
    fuzz_must(connect(fd, (const struct sockaddr *)&address, sizeof(address)) == 0,
              "the server takes connections");
    return fd;
}

/* False: the server hung up meanwhile, as it may. */
static bool send_all(int fd, const uint8_t *data, size_t size)
{
    while (size > 0) {
        ssize_t sent = send(fd, data, size, MSG_NOSIGNAL);

        if (sent <= 0)
            return false;
        data += sent;
        size -= (size_t)sent;
    }
    return true;
}

/* Reads up to the end of the connection, and keeps the beginning. */
static size_t read_all(int fd, char *text, size_t size)
{
    char more[4096];
    size_t len = 0;
    ssize_t n;

    while ((n = recv(fd, len < size ? text + len : more, len < size ? size - len : sizeof(more),
                     0)) > 0)
        len += len < size ? (size_t)n : 0;
    return len;
}

/* Another client is served as if nothing had happened. */
static void knock(void)
{
    static const char request[] = "POST /x?a=b HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n"
                                  "Connection: close\r\n\r\nab";
    char text[512];
    int fd = connect_to_server();
    size_t len;

    fuzz_must(send_all(fd, (const uint8_t *)request, sizeof(request) - 1), "a request is taken");
    len = read_all(fd, text, sizeof(text) - 1);
    text[len] = '\0';
    close(fd);
    fuzz_must(strncmp(text, "HTTP/1.1 200 ", 13) == 0 && strstr(text, "\r\n\r\n195 3"),
              "the next client is served");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input = {data, size};
    uint8_t how = fuzz_byte(&input);
    size_t first = how % 16 == 0 ? 0 : input.size * (how % 16) / 16;
    char text[16];
    struct pollfd ready = {.events = POLLIN};
    size_t len = 0;
    int fd;

    open_once();
    fd = connect_to_server();
    ready.fd = fd;
    if (send_all(fd, input.data, first) && send_all(fd, input.data + first, input.size - first) &&
        how < 192 && poll(&ready, 1, ANSWER_MS) > 0) {
        ssize_t n = recv(fd, text, sizeof(text), MSG_DONTWAIT);

        len = n > 0 ? (size_t)n : 0;
    }
    close(fd);
    fuzz_must(len == 0 || (len >= 9 && memcmp(text, "HTTP/1.", 7) == 0), "an answer is HTTP");
    if (++inputs % KNOCK_EVERY == 0)
        knock();
    return 0;
}
