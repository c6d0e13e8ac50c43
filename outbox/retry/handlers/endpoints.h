/* SPDX-License-Identifier: MIT */
/* Chooses the server of a call: of two random ones the one with fewer failures and fewer calls in
 * flight (M. Mitzenmacher, "The Power of Two Choices in Randomized Load Balancing", 2001). A
 * server that fails repeatedly is left out for a while and returns with one call as a probe. Pure;
 * one thread at a time. */
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

/* Returns the index of the name to call; the call counts as in flight until endpoints_end(). count
 * > 0. */
size_t endpoints_pick(struct endpoints *endpoints, const char *const *names, size_t count,
                      int64_t now_ms, uint64_t random_bits);

/* Ends a call. failed: the server failed, not the caller. Returns true when the server is left out
 * from now on. */
bool endpoints_end(struct endpoints *endpoints, const char *name, bool failed, int64_t now_ms,
                   uint64_t random_bits);

/* For how long a server is left out that has failed so often in a row. */
int64_t endpoints_out_ms(unsigned failures, uint64_t random_bits);

#endif
