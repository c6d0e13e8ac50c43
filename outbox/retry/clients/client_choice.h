/* SPDX-License-Identifier: MIT */
/* Chooses the client that gets a task, by the route of its group. Pure; any thread. */
#ifndef OUTBOX_RETRY_CLIENTS_CLIENT_CHOICE_H
#define OUTBOX_RETRY_CLIENTS_CLIENT_CHOICE_H

#include "outbox/retry/clients/client.h"

#include <stddef.h>
#include <stdint.h>

struct client_candidate {
    const char *address;
    unsigned in_flight; /* calls */
    uint64_t used;      /* grows with every call of any client; 0: never called */
};

/* Returns the index of the candidate, of which there is one at least. key: of the consistent hash;
 * if a candidate is added, some keys move to it, and if one is removed, only its keys move (D.
 * Thaler, C. Ravishankar, "Using Name-Based Mappings to Increase Hit Rates", 1998). turn: of the
 * group, moved by round_robin. */
size_t client_choose(enum client_route route, const struct client_candidate *candidates,
                     size_t count, const char *key, uint64_t *turn, uint64_t random_bits);

#endif
