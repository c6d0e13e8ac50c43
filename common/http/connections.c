/* SPDX-License-Identifier: MIT */
#include "common/http/connections.h"

#include "common/loop.h"
#include "common/metrics.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

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
