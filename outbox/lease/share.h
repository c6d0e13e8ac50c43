/* SPDX-License-Identifier: MIT */
/* Spreads lanes over the instances that live, by their weights: every instance holds its part of
 * them, rounded down or up, and as few as possible move. Each instance decides for itself on the
 * same numbers; the database's compare-and-set settles races. Pure. */
#ifndef OUTBOX_LEASE_SHARE_H
#define OUTBOX_LEASE_SHARE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* held[i]: lanes that instance i holds, weights[i]: its weight, >= 1; instances are in one order
 * for everybody; me < instances. */
struct share {
    const size_t *held;
    size_t instances;
    size_t me;
    size_t lanes;
    size_t free;            /* of them held by nobody now */
    const int64_t *weights; /* NULL: all are equal */
};

/* May I take one more lane that is free? */
bool share_may_take(const struct share *share);

/* So many of mine I must give up now, all at once; 0: none. */
size_t share_surplus(const struct share *share);

#endif
