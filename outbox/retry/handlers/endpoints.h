/* SPDX-License-Identifier: MIT */
/* Which of several servers a call goes to: of two taken by chance the one with less trouble and
 * less under way (M. Mitzenmacher, "The Power of Two Choices in Randomized Load Balancing", 2001).
 * One that fails again and again is left out for a while, and comes back with one call to try it.
 * Pure; one thread at a time. */
#ifndef OUTBOX_RETRY_HANDLERS_ENDPOINTS_H
#define OUTBOX_RETRY_HANDLERS_ENDPOINTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ENDPOINTS_MAX 256 /* that are remembered */
#define ENDPOINT_NAME_SIZE 280

#define ENDPOINT_FAILURES_OUT 3 /* in a row, and it is left out */
#define ENDPOINT_OUT_MS_BASE 5000
#define ENDPOINT_OUT_MS_CAP 60000

struct endpoint {
    char name[ENDPOINT_NAME_SIZE]; /* its origin */
    unsigned in_flight;
    unsigned failures; /* in a row */
    int64_t out_until_ms;
    int64_t used_ms;
};

struct endpoints {
    struct endpoint list[ENDPOINTS_MAX];
    size_t count;
};

/* The index of the name to call, which is under way then until endpoints_end(). count > 0. */
size_t endpoints_pick(struct endpoints *endpoints, const char *const *names, size_t count,
                      int64_t now_ms, uint64_t random_bits);

/* The call has come to an end. failed: the server's own trouble, not the caller's. True: it is left
 * out from now on. */
bool endpoints_end(struct endpoints *endpoints, const char *name, bool failed, int64_t now_ms,
                   uint64_t random_bits);

#endif
