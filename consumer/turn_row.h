/* SPDX-License-Identifier: MIT */
/* Taking turns: one row of a table says whose turn it is and until when, by the database's clock.
 * What a table of turns has in common; pure, any thread. */
#ifndef CONSUMER_TURN_ROW_H
#define CONSUMER_TURN_ROW_H

#include <stdbool.h>
#include <stdint.h>

#define TURN_OWNER_SIZE 129

/* The holder of a turn as the database sees it. Only owner and epoch together tell it from all
 * others: a database that lost its last transactions gives an epoch out twice. */
struct turn_hold {
    const char *owner;
    int64_t epoch; /* grows with every new owner, unless the database lost commits */
    int64_t lease_ms;
};

/* A lease that ends later than this many of its lengths from now was written before the clock was
 * set back, and counts as expired.
 * Invariant: what a holder writes is fenced by owner and epoch in the same transaction, so one that
 * lives and loses the lease so writes nothing more. */
#define TURN_LENGTHS_MAX 2
bool turn_is_implausible(int64_t lease_until_ms, int64_t now_ms, int64_t lease_ms);

/* Is owner ("": nobody) another one than me, with a lease that is not over? lease_ms: the length of
 * one. */
bool turn_is_anothers(const char *owner, int64_t lease_until_ms, int64_t now_ms, int64_t lease_ms,
                      const char *me);

/* When the next turn is due after one that covered everything until then: at a full interval since
 * 1970; may lie before now_ms. A clock that went back behind done_until_ms makes it due at once. */
int64_t turn_due_ms(int64_t done_until_ms, int64_t now_ms, int64_t interval_ms);

#endif
