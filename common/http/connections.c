/* SPDX-License-Identifier: MIT */
#include "common/http/connections.h"

#include "common/loop.h"
#include "common/metrics.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define TICKS 8 /* a phase ends late by at most this fraction of its time */
#define TICK_MS_MIN 20
#define TICK_MS_MAX 1000

/* Each peer is checked once a second, and its connection is shut down when two checks in a row find
 * it closed: between them the library handles the bytes that it had read before. */
#define CHECK_MS 1000
#define CHECKS_MAX 2000 /* in one step */

struct http_connection {
    int fd;
    struct in6_addr address; /* IPv4 ones are mapped */
    bool has_address;
    bool is_reserved;
    bool is_shut; /* it no longer counts; the library will remove it */
    bool peer_closed;
    enum http_phase phase;
    int64_t until_ms; /* when the phase ends; 0: never */
    int64_t checked_ms;
    struct http_connection *next;
    struct http_connection *previous;
};

enum shut_reason { SHUT_HEADER, SHUT_BODY, SHUT_ANSWER, SHUT_ADDRESS, SHUT_RESERVED, SHUT_REASONS };

static struct metric shut_total[SHUT_REASONS] = {
#define SHUT_METRIC(reason)                                                     \
    {                                                                           \
        .name = "tallybox_http_connections_shut_total", .kind = METRIC_COUNTER, \
        .help = "Connections of HTTP clients that were too slow or too many.",  \
        .labels = "reason=\"" reason "\""                                       \
    }
    [SHUT_HEADER] = SHUT_METRIC("header_timeout"), [SHUT_BODY] = SHUT_METRIC("body_timeout"),
    [SHUT_ANSWER] = SHUT_METRIC("answer_timeout"), [SHUT_ADDRESS] = SHUT_METRIC("address_limit"),
    [SHUT_RESERVED] = SHUT_METRIC("reserved"),
};

void http_connections_metrics_register(void)
{
    for (size_t i = 0; i < SHUT_REASONS; i++)
        metrics_register(&shut_total[i]);
}

void http_connections_init(struct http_connections *all, const struct http_limits *limits)
{
    *all = (struct http_connections){.limits = *limits};
    pthread_mutex_init(&all->lock, NULL);
}

void http_connections_done(struct http_connections *all)
{
    while (all->first)
        http_connection_remove(all, all->first);
    pthread_mutex_destroy(&all->lock);
}

static void set_address(struct http_connection *connection, const struct sockaddr *address)
{
    struct sockaddr_in four;
    struct sockaddr_in6 six;

    if (address && address->sa_family == AF_INET) {
        memcpy(&four, address, sizeof(four));
        connection->address.s6_addr[10] = connection->address.s6_addr[11] = 0xff;
        memcpy(connection->address.s6_addr + 12, &four.sin_addr, sizeof(four.sin_addr));
        connection->has_address = true;
    } else if (address && address->sa_family == AF_INET6) {
        memcpy(&six, address, sizeof(six));
        connection->address = six.sin6_addr;
        connection->has_address = true;
    }
}

static unsigned count_address(const struct http_connections *all,
                              const struct http_connection *connection)
{
    unsigned count = 0;

    if (!connection->has_address)
        return 0;
    for (const struct http_connection *other = all->first; other; other = other->next)
        count += other != connection && other->has_address && !other->is_shut &&
                 !other->is_reserved &&
                 memcmp(&other->address, &connection->address, sizeof(other->address)) == 0;
    return count;
}

static bool is_within_address(const struct http_connections *all,
                              const struct http_connection *connection)
{
    unsigned max = all->limits.per_address_max;

    return max == 0 || count_address(all, connection) < max;
}

static unsigned *compute_place(struct http_connections *all,
                               const struct http_connection *connection)
{
    return connection->is_reserved ? &all->reserved : &all->taken;
}

static void shut_connection(struct http_connections *all, struct http_connection *connection)
{
    --*compute_place(all, connection);
    connection->is_shut = true;
    shutdown(connection->fd, SHUT_RDWR);
}

/* A health probe sends its whole request at once, so a connection whose request is incomplete is
 * no probe. */
static bool is_waiting_for_request(const struct http_connection *connection)
{
    return connection->phase == HTTP_PHASE_HEADER || connection->phase == HTTP_PHASE_BODY;
}

static bool make_reserved_room(struct http_connections *all)
{
    struct http_connection *oldest = NULL;

    if (all->limits.reserved == 0)
        return false;
    for (struct http_connection *other = all->first; other; other = other->next)
        if (other->is_reserved && !other->is_shut && is_waiting_for_request(other))
            oldest = other;
    if (!oldest)
        return false;
    shut_connection(all, oldest);
    metric_add(&shut_total[SHUT_RESERVED], 1);
    return true;
}

/* False: there is no room for the connection. */
static bool find_place(struct http_connections *all, struct http_connection *connection)
{
    bool within_address = is_within_address(all, connection);

    connection->is_reserved = !within_address || all->taken >= all->limits.connections_max;
    if (connection->is_reserved && all->reserved >= all->limits.reserved &&
        !make_reserved_room(all)) {
        metric_add(&shut_total[within_address ? SHUT_RESERVED : SHUT_ADDRESS], 1);
        return false;
    }
    ++*compute_place(all, connection);
    return true;
}

static void add_connection(struct http_connections *all, struct http_connection *connection)
{
    connection->next = all->first;
    if (all->first)
        all->first->previous = connection;
    all->first = connection;
    all->count++;
}

static void remove_connection(struct http_connections *all, struct http_connection *connection)
{
    if (all->next_check == connection)
        all->next_check = connection->next;
    if (connection->next)
        connection->next->previous = connection->previous;
    if (connection->previous)
        connection->previous->next = connection->next;
    else
        all->first = connection->next;
    all->count--;
}

static int64_t get_phase_ms(const struct http_limits *limits, enum http_phase phase)
{
    int64_t header_ms = limits->header_timeout_ms;
    int64_t body_ms = limits->body_timeout_ms;
    int64_t idle_ms = limits->idle_timeout_ms;

    switch (phase) {
    case HTTP_PHASE_HEADER:
        return header_ms;
    case HTTP_PHASE_BODY:
        return body_ms;
    case HTTP_PHASE_ANSWER:
        return body_ms > 0 && idle_ms > 0 ? idle_ms + body_ms : 0;
    case HTTP_PHASE_IDLE:
        return header_ms > 0 && idle_ms > 0 ? idle_ms + header_ms : 0;
    case HTTP_PHASE_HANDLER:
        break;
    }
    return 0;
}

static void set_phase(const struct http_connections *all, struct http_connection *connection,
                      enum http_phase phase, int64_t now_ms)
{
    int64_t ms = get_phase_ms(&all->limits, phase);

    connection->phase = phase;
    connection->until_ms = ms > 0 ? now_ms + ms : 0;
    connection->checked_ms = now_ms;
    connection->peer_closed = false;
}

struct http_connection *http_connection_add(struct http_connections *all, int fd,
                                            const struct sockaddr *address, int64_t now_ms)
{
    struct http_connection *connection = calloc(1, sizeof(*connection));
    bool placed = false;

    if (connection) {
        connection->fd = fd;
        set_address(connection, address);
        set_phase(all, connection, HTTP_PHASE_HEADER, now_ms);
        pthread_mutex_lock(&all->lock);
        placed = find_place(all, connection);
        if (placed)
            add_connection(all, connection);
        pthread_mutex_unlock(&all->lock);
    }
    if (placed)
        return connection;
    free(connection);
    shutdown(fd, SHUT_RDWR);
    return NULL;
}

void http_connection_remove(struct http_connections *all, struct http_connection *connection)
{
    pthread_mutex_lock(&all->lock);
    if (!connection->is_shut)
        --*compute_place(all, connection);
    remove_connection(all, connection);
    pthread_mutex_unlock(&all->lock);
    free(connection);
}

bool http_connection_enter(struct http_connections *all, struct http_connection *connection,
                           enum http_phase phase, int64_t now_ms)
{
    bool is_open;

    pthread_mutex_lock(&all->lock);
    set_phase(all, connection, phase, now_ms);
    is_open = !connection->is_shut;
    pthread_mutex_unlock(&all->lock);
    return is_open;
}

bool http_connection_admit(struct http_connections *all, struct http_connection *connection)
{
    bool admitted;

    pthread_mutex_lock(&all->lock);
    if (connection->is_reserved && !connection->is_shut &&
        all->taken < all->limits.connections_max && is_within_address(all, connection)) {
        all->reserved--;
        all->taken++;
        connection->is_reserved = false;
    }
    admitted = !connection->is_reserved;
    pthread_mutex_unlock(&all->lock);
    return admitted;
}

static void enforce_ends(struct http_connections *all, int64_t now_ms)
{
    static const enum shut_reason reasons[] = {
        [HTTP_PHASE_HEADER] = SHUT_HEADER,  [HTTP_PHASE_BODY] = SHUT_BODY,
        [HTTP_PHASE_HANDLER] = SHUT_ANSWER, [HTTP_PHASE_ANSWER] = SHUT_ANSWER,
        [HTTP_PHASE_IDLE] = SHUT_HEADER,
    };

    for (struct http_connection *one = all->first; one; one = one->next) {
        if (one->is_shut || one->until_ms == 0 || now_ms < one->until_ms)
            continue;
        shut_connection(all, one);
        metric_add(&shut_total[reasons[one->phase]], 1);
    }
}

static bool has_ended(int fd)
{
    char byte;

    return recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

/* In these phases every answer has been sent: a peer that closed its side waits for nothing. */
static void read_peer(struct http_connections *all, struct http_connection *one, int64_t now_ms)
{
    bool waits = one->phase == HTTP_PHASE_HEADER || one->phase == HTTP_PHASE_IDLE;

    if (one->is_shut || !waits || now_ms - one->checked_ms < CHECK_MS)
        return;
    one->checked_ms = now_ms;
    if (!has_ended(one->fd))
        one->peer_closed = false;
    else if (!one->peer_closed)
        one->peer_closed = true;
    else
        shut_connection(all, one);
}

static int64_t min_ms(int64_t ms, int64_t timeout_ms)
{
    return timeout_ms > 0 && timeout_ms / TICKS < ms ? timeout_ms / TICKS : ms;
}

int64_t http_connections_step(void *ctx, int64_t now_ms)
{
    struct http_connections *all = ctx;
    int64_t tick_ms = TICK_MS_MAX;
    bool any;

    pthread_mutex_lock(&all->lock);
    enforce_ends(all, now_ms);
    for (size_t i = 0; i < all->count && i < CHECKS_MAX; i++) {
        struct http_connection *one = all->next_check ? all->next_check : all->first;

        all->next_check = one->next;
        read_peer(all, one, now_ms);
    }
    any = all->count > 0;
    pthread_mutex_unlock(&all->lock);
    tick_ms = min_ms(tick_ms, all->limits.header_timeout_ms);
    tick_ms = min_ms(tick_ms, all->limits.body_timeout_ms);
    if (!any)
        return LOOP_WAKEUP;
    return tick_ms > TICK_MS_MIN ? tick_ms : TICK_MS_MIN;
}

#define HOST_SIZE 256
#define BACKLOG 511
#define PORT_MAX 65535
#define PORTS_TRIED 100 /* for "host:port+" */

/* Splits "host:port", "[host]:port" and both with a + at the end. False when it is none of them. */
static bool split_address(const char *address, char host[HOST_SIZE], int *port, bool *plus)
{
    const char *colon = strrchr(address, ':');
    size_t len = colon ? (size_t)(colon - address) : 0;
    size_t digits = colon ? strspn(colon + 1, "0123456789") : 0;

    if (len == 0 || len >= HOST_SIZE || digits == 0 || digits > 5)
        return false;
    *port = (int)strtol(colon + 1, NULL, 10);
    *plus = strcmp(colon + 1 + digits, "+") == 0;
    if (*port > PORT_MAX || (colon[1 + digits] && !*plus))
        return false;
    if (address[0] == '[' && address[len - 1] == ']') {
        address++;
        len -= 2;
    }
    memcpy(host, address, len);
    host[len] = '\0';
    return true;
}

/* A port that another process has may be free at the next start; the other mistakes are in the
 * setting. */
static enum rc judge_error(int code)
{
    return code == EADDRNOTAVAIL || code == EACCES || code == EAFNOSUPPORT ? RC_REJECT : RC_FATAL;
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

/* 0 and the socket, an errno, or an error of getaddrinfo(), which is in *resolve_code. */
static int listen_at(const char *host, int port, int *fd, int *resolve_code)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    struct addrinfo *places = NULL;
    bool any = strcmp(host, "*") == 0;
    char port_text[8];
    int code;

    snprintf(port_text, sizeof(port_text), "%d", port);
    *resolve_code = getaddrinfo(any ? NULL : host, port_text, &hints, &places);
    if (*resolve_code != 0)
        return EADDRNOTAVAIL;
    code = try_places(places, any ? AF_INET6 : AF_INET, fd);
    if (code != 0 && code != EADDRINUSE)
        code = try_places(places, any ? AF_INET : AF_INET6, fd);
    freeaddrinfo(places);
    return code;
}

static enum rc fail_address(const char *address, struct err *err)
{
    return err_fail(err, RC_REJECT, 0, "cannot listen on \"%s\": expected address:port", address);
}

/* code, resolve_code: of listen_at(). */
static enum rc judge_listen(const char *address, int code, int resolve_code, struct err *err)
{
    if (resolve_code != 0)
        return err_fail(err, resolve_code == EAI_NONAME ? RC_REJECT : RC_FATAL, 0,
                        "cannot listen on %s: %s", address, gai_strerror(resolve_code));
    if (code != 0)
        return err_fail(err, judge_error(code), code, "cannot listen on %s: %s", address,
                        explain_error(code));
    return RC_OK;
}

enum rc http_listen(const char *address, int *fd, int *port, struct err *err)
{
    char host[HOST_SIZE];
    int first;
    int last;
    int resolve_code = 0;
    int code = EADDRINUSE;
    bool plus;

    if (!split_address(address, host, &first, &plus))
        return fail_address(address, err);
    last = plus && first > 0 ? first + PORTS_TRIED - 1 : first;
    if (last > PORT_MAX)
        last = PORT_MAX;
    for (int at = first; code == EADDRINUSE && at <= last; at++)
        code = listen_at(host, at, fd, &resolve_code);
    if (code == EADDRINUSE && last > first)
        return err_fail(err, RC_FATAL, code,
                        "cannot listen on %s: other processes listen on all ports from %d to %d",
                        address, first, last);
    if (code == 0)
        *port = read_port(*fd);
    return judge_listen(address, code, resolve_code, err);
}

enum rc http_try_address(const char *address, int *fd, struct err *err)
{
    char host[HOST_SIZE];
    int resolve_code = 0;
    int code;
    int port;
    bool plus;

    if (!split_address(address, host, &port, &plus))
        return fail_address(address, err);
    code = listen_at(host, 0, fd, &resolve_code);
    return judge_listen(address, code, resolve_code, err);
}

bool http_is_foreign(const char *address)
{
    struct err err = {0};
    int fd = -1;

    if (http_try_address(address, &fd, &err) != RC_OK)
        return err.code == EADDRNOTAVAIL;
    close(fd);
    return false;
}
