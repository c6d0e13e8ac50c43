/* SPDX-License-Identifier: MIT */
/* The rates of a scene that count for each client of its group: a token bucket for each scene and
 * client. When there are more than CLIENT_RATES_MAX, the one that was unused longest begins anew.
 * Pure; one thread at a time. */
#ifndef OUTBOX_RETRY_CLIENTS_CLIENT_RATES_H
#define OUTBOX_RETRY_CLIENTS_CLIENT_RATES_H

#include "outbox/retry/handler.h"
#include "outbox/retry/policy/policy.h"

#include <stdint.h>

#define CLIENT_RATES_MAX 4096 /* a power of two */

struct client_rate {
    uint64_t name;        /* the hash of scene and client; 0: free */
    struct bucket bucket; /* this process's share */
    int64_t clock_ms;     /* the bucket's clock, which runs at the speed of the share */
    int64_t rest;         /* of it, below a ms */
    int64_t seen_ms;
    int64_t return_ms; /* when the last task that waits for a token is due again */
};

/* Zeroed: nothing was called yet. */
struct client_rates {
    struct client_rate list[CLIENT_RATES_MAX];
};

/* Returns the bucket of this name, with its tokens of now. */
struct client_rate *client_rates_get(struct client_rates *rates, uint64_t name,
                                     const struct retry_client_rate *limit, int64_t now_ms);

bool client_rate_has_token(const struct client_rate *rate);
void client_rate_spend(struct client_rate *rate);

/* For how long a task waits for a token: tasks return in the time of a token. */
int64_t client_rate_wait_ms(struct client_rate *rate, const struct retry_client_rate *limit,
                            int64_t now_ms);

#endif
