/* SPDX-License-Identifier: MIT */
/* Distributes lanes over the live instances by weight: every instance holds its share, rounded down
 * or up, and as few lanes as possible change their holder. Each instance decides for itself on the
 * same numbers; a compare-and-set in the database resolves races. Pure functions, any thread. */
#ifndef OUTBOX_LEASE_SHARE_H
#define OUTBOX_LEASE_SHARE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* held[i]: lanes that instance i holds; weights[i]: its weight, >= 1. Every instance sees the
 * instances in the same order. me: index of the caller, < instances. */
struct share {
    const size_t *held;
    size_t instances;
    size_t me;
    size_t lanes;
    size_t free;            /* lanes without a holder */
    const int64_t *weights; /* NULL: all weights are 1 */
};

/* Returns whether the caller may take one more free lane. */
bool share_may_take(const struct share *share);

/* Returns how many of its lanes the caller has to release now. */
size_t share_surplus(const struct share *share);

#endif
