/* SPDX-License-Identifier: MIT */
/* What the roll-up engine needs of the sink's database. Every call is one transaction or one
 * statement of its own: nothing stays open between calls. All times are the database's clock, in
 * ms since 1970. One thread at a time. */
#ifndef CONSUMER_ROLLUP_ROLLUP_SEAM_H
#define CONSUMER_ROLLUP_ROLLUP_SEAM_H

#include "common/err.h"
#include "consumer/turn_row.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The one row that says who rolls up, and how far it is. */
struct rollup_state {
    int64_t now_ms;
    int64_t rolled_until_ms; /* changes before it are in remark; 0 = nothing is */
    int64_t finished_ms;     /* end of the last window; 0 = none ever ended */
    int64_t lease_until_ms;
    int64_t epoch;               /* grows with every new owner */
    char owner[TURN_OWNER_SIZE]; /* empty: nobody */
};

/* A place in the order of (changed_at, content_id). */
struct rollup_place {
    int64_t changed_ms;
    int64_t content_id;
};

#define ROLLUP_NO_REMARK (-1)

/* A content's total, and what remark knows of it. */
struct rollup_row {
    struct rollup_place place;
    int64_t votes;
    int64_t seq;
    int64_t remark_seq; /* ROLLUP_NO_REMARK: there is none */
    bool due;           /* no roll-up has seen the remark: it is marked as seen */
};

struct rollup_store {
    void *ctx;

    /* Reads the state; makes the row where there is none. */
    enum rc (*look)(void *ctx, struct rollup_state *state, struct err *err);

    /* Takes the lease for hold when the epoch is still hold->epoch - 1 and the lease is free, over
     * or already that owner's. After RC_RETRY it may be taken; look() tells. */
    enum rc (*take)(void *ctx, const struct turn_hold *hold, bool *taken, struct err *err);

    /* Up to max totals behind `after` and not changed later than until_ms, in order, without locks:
     * votes and seq of a row belong together. */
    enum rc (*read)(void *ctx, const struct rollup_place *after, int64_t until_ms,
                    struct rollup_row *rows, size_t max, size_t *count, struct err *err);

    /* Up to max remarks that no roll-up has seen, with ids above after_id, in order, without locks;
     * votes and seq are 0 where there is no total. */
    enum rc (*read_due)(void *ctx, int64_t after_id, struct rollup_row *rows, size_t max,
                        size_t *count, struct err *err);

    /* In one transaction: checks that hold is still the holder, brings remarks whose votes_seq is
     * lower up to rows, marks those that were due as seen, notes rolled_until_ms and renews the lease. *changed: remarks written.
     * *held false: another one took the lease, and nothing was written. */
    enum rc (*write)(void *ctx, const struct turn_hold *hold, int64_t rolled_until_ms,
                     const struct rollup_row *rows, size_t count, uint64_t *changed, bool *held,
                     struct err *err);

    /* Ends the window: notes rolled_until_ms and the time, gives the lease back. Done twice by the
     * same hold is as good as once. */
    enum rc (*finish)(void *ctx, const struct turn_hold *hold, int64_t rolled_until_ms, bool *held,
                      struct err *err);

    /* Gives the lease back in the middle of a window; best effort. */
    void (*release)(void *ctx, const struct turn_hold *hold);
};

#endif
