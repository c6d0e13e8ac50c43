/* SPDX-License-Identifier: MIT */
/* Keeps the clients that a retry process calls equal to the live rows of retry_client, whose hosts
 * retry.http_hosts of this process allows; makes tasks that tell them a changed configuration of
 * their group; and deletes rows that are a day old. It has a thread and a connection of its own. */
#ifndef OUTBOX_RETRY_CLIENTS_CLIENT_WATCH_H
#define OUTBOX_RETRY_CLIENTS_CLIENT_WATCH_H

#include "common/backoff.h"
#include "common/condition.h"
#include "outbox/retry/clients/client_ops.h"
#include "outbox/retry/clients/clients.h"

#include <stddef.h>
#include <stdint.h>

#define CLIENT_PUSHES_MAX 128 /* of one step, in one transaction */

struct client_watch {
    struct clients *clients;
    struct client_ops ops;
    const char *hosts; /* retry.http_hosts */
    struct condition reading;
    struct condition hosts_listed; /* fails while the host of a live client is not allowed */
    struct condition limit;        /* fails while there are more than can be called */
    struct condition missing;      /* fails while tasks wait for a live client */
    struct backoff backoff;
    uint64_t rng;
    int64_t forget_at_ms;
    /* Of one reading. */
    size_t left_out;
    struct err not_listed;
    struct client_push pushes[CLIENT_PUSHES_MAX];
    size_t push_count;
};

/* clients, ops and hosts are borrowed. seed: 64 random bits. */
void client_watch_init(struct client_watch *watch, struct clients *clients,
                       const struct client_ops *ops, const char *hosts, uint64_t seed);
void client_watch_done(struct client_watch *watch);

/* A loop_step. */
int64_t client_watch_step(void *watch, int64_t now_ms);

#endif
