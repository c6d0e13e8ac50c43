/* SPDX-License-Identifier: MIT */
/* A singleton lease lets one instance at a time do a job. One row of a table names the owner of the
 * lease and the time, by the clock of the database, at which the lease ends. This module holds what
 * all tables with such a row have in common. Pure functions; any thread may call them. */
#ifndef CONSUMER_SINGLETON_LEASE_H
#define CONSUMER_SINGLETON_LEASE_H

#include <stdbool.h>
#include <stdint.h>

#define SINGLETON_OWNER_SIZE 129

/* The lease that one holder took. Only owner and epoch together distinguish it from all others: a
 * database that lost its last transactions gives an epoch out twice. */
struct singleton_lease {
    const char *owner;
    int64_t epoch; /* grows with every new owner, unless the database lost commits */
    int64_t lease_ms;
};

/* The value of late_since_ms while no due work is delayed. */
#define SINGLETON_ON_TIME (-1)

/* A lease that ends later than this many of its lengths from now was written before the clock of
 * the database was set back, and counts as expired.
 * Invariant C8, C11: each write of a holder is fenced by owner and epoch in the same transaction,
 * so a holder that runs on after it lost its lease in this way writes nothing. */
#define SINGLETON_LEASE_LENGTHS_MAX 2
bool singleton_lease_is_implausible(int64_t lease_until_ms, int64_t now_ms, int64_t lease_ms);

/* Whether an owner other than `me` has a lease that has not ended. An empty owner means that the
 * lease is free. lease_ms is the length of a lease. */
bool singleton_lease_is_anothers(const char *owner, int64_t lease_until_ms, int64_t now_ms,
                                 int64_t lease_ms, const char *me);

/* Returns when the job is due again after a run that covered everything before done_until_ms: at a
 * multiple of interval_ms since 1970. The result may lie before now_ms. If done_until_ms is in the
 * future, because the clock was set back, the job is due at once. */
int64_t singleton_due_ms(int64_t done_until_ms, int64_t now_ms, int64_t interval_ms);

#endif
