/* SPDX-License-Identifier: MIT */
/* Something that one instance at a time works on: an outbox table, a shard of the retry lane. The
 * thread that keeps the leases writes it, but for what is said to be the holder's. Any thread may
 * ask. */
#ifndef OUTBOX_LEASE_LEASED_H
#define OUTBOX_LEASE_LEASED_H

#include "common/metrics.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct lease_news;

struct leased {
    const char *name;
    atomic_llong valid_until_ms; /* 0: not held */
    atomic_llong epoch;
    atomic_bool leaving; /* finish what is in hand, begin nothing more */
    atomic_bool idle;    /* the holder's: nothing is in hand */
    atomic_bool strange; /* set by anyone: what it was leased from is not there any more */

    void (*wake)(void *ctx);                          /* the lease has changed; may be NULL */
    void (*news)(void *ctx, struct lease_news *news); /* for other processes; may be NULL */
    void *ctx;
    struct metric *held; /* may be NULL, as the next */
    struct metric *told_epoch;
};

/* Its epoch when it is held at this time, else 0. */
int64_t leased_epoch(const struct leased *leased, int64_t now_ms);

#endif
