/* SPDX-License-Identifier: MIT */
/* The roll-up engine: brings remark.votes up to vote_tally, a window at a time. Decides when a
 * window is due, who works on it, what it covers and what to do about trouble. Any number of
 * engines may run against one database; a lease lets one of them work.
 *
 * A window covers what changed up to its start. It begins `overlap_ms` before the last one ended,
 * because a row may be committed later than its changed_at says. Remarks that no roll-up has seen
 * come first: their contents may have changed long before any window of today. Writing goes only
 * forward (votes_seq), so a window that was cut anywhere, or done by two at once, is done again
 * harmlessly. An engine belongs to one thread. */
#ifndef CONSUMER_ROLLUP_ROLLUP_H
#define CONSUMER_ROLLUP_ROLLUP_H

#include "common/backoff.h"
#include "common/condition.h"
#include "common/err.h"
#include "common/stop.h"
#include "consumer/singleton_lease.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The one row that says who rolls up, and how far it is. */
struct rollup_state {
    int64_t now_ms;
    int64_t rolled_until_ms; /* changes before it are in remark; 0 = nothing is */
    int64_t finished_ms;     /* end of the last window; 0 = none ever ended */
    int64_t lease_until_ms;
    int64_t epoch;                    /* grows with every new owner */
    char owner[SINGLETON_OWNER_SIZE]; /* empty: nobody */
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

/* What the engine needs of the sink's database. Every call is one transaction or one statement of
 * its own: nothing stays open between calls. All times are the database's clock, in ms since
 * 1970. */
struct rollup_store {
    void *ctx;

    /* Reads the state; makes the row where there is none. */
    enum rc (*look)(void *ctx, struct rollup_state *state, struct err *err);

    /* Takes the lease when the epoch is still lease->epoch - 1 and the lease is free, over
     * or already that owner's. After RC_RETRY it may be taken; look() tells. */
    enum rc (*take)(void *ctx, const struct singleton_lease *lease, bool *taken, struct err *err);

    /* Up to max totals behind `after` and not changed later than until_ms, in order, without locks:
     * votes and seq of a row belong together. */
    enum rc (*read)(void *ctx, const struct rollup_place *after, int64_t until_ms,
                    struct rollup_row *rows, size_t max, size_t *count, struct err *err);

    /* Up to max remarks that no roll-up has seen, with ids above after_id, in order, without locks;
     * votes and seq are 0 where there is no total. */
    enum rc (*read_due)(void *ctx, int64_t after_id, struct rollup_row *rows, size_t max,
                        size_t *count, struct err *err);

    /* In one transaction: checks that the lease is still held, brings remarks whose votes_seq is
     * lower up to rows, marks those that were due as seen, notes rolled_until_ms and renews the
     * lease. *changed: remarks written. *held false: another one took the lease, and nothing was
     * written. */
    enum rc (*write)(void *ctx, const struct singleton_lease *lease, int64_t rolled_until_ms,
                     const struct rollup_row *rows, size_t count, uint64_t *changed, bool *held,
                     struct err *err);

    /* Ends the window: notes rolled_until_ms and the time, gives the lease back. Done twice by the
     * same lease is as good as once. */
    enum rc (*finish)(void *ctx, const struct singleton_lease *lease, int64_t rolled_until_ms,
                      bool *held, struct err *err);

    /* Gives the lease back in the middle of a window; best effort. */
    void (*release)(void *ctx, const struct singleton_lease *lease);
};

/* A holder that is silent for so long has lost its lease. */
#define ROLLUP_LEASE_MS 10000

struct rollup_config {
    const struct rollup_store *store; /* borrowed until rollup_done() */
    const char *owner;                /* borrowed; unique among all engines */
    int64_t interval_ms;              /* windows begin at multiples of it since 1970 */
    int64_t overlap_ms;
    int64_t lease_ms;
    size_t batch_rows_max;
    bool once; /* one window, due or not, and then LOOP_END */
    uint64_t (*rng)(void);
    struct stop *stop; /* told when no further work makes sense; may be NULL */
};

/* What a window did so far. */
struct rollup_counts {
    uint64_t contents; /* looked at */
    uint64_t changed;  /* remarks written */
    uint64_t missing;  /* contents without a remark */
    uint64_t refused;  /* remarks that the database would not have written */
    int64_t ms;        /* set at the end */
};

enum rollup_phase {
    ROLLUP_LOOK,   /* nothing is in hand: is a window due, and is it ours? */
    ROLLUP_READ,   /* the lease is ours from here on: read the next page */
    ROLLUP_WRITE,  /* rows[at..count) are to be written */
    ROLLUP_FINISH, /* everything is written */
    ROLLUP_ENDED,  /* the only window of `once` is done, or err says why nothing goes on */
};

struct rollup {
    struct rollup_config config;
    enum rollup_phase phase;
    struct singleton_lease lease;

    int64_t start_ms;          /* of the window, on the caller's clock */
    int64_t target_ms;         /* the database's time then: what rolled_until will be */
    int64_t until_ms;          /* contents changed later are left to the next window */
    int64_t progress_ms;       /* rolled_until of the pages done so far */
    bool reading_due;          /* pages are remarks that no roll-up has seen, not changed totals */
    int64_t after_id;          /* end of the page of such remarks */
    struct rollup_place after; /* end of the page of changed totals */
    bool last_page;
    struct rollup_row *rows;
    size_t count;
    size_t at;
    size_t write_rows_max; /* smaller after a refusal, to find the row */
    struct rollup_counts counts;

    struct backoff backoff;
    struct condition database; /* as the last step found it */
    enum rc rc;                /* of the last step */
    struct err err;            /* while failing */
    /* Since when a due window makes no progress, on the caller's clock; SINGLETON_ON_TIME: none. */
    int64_t late_since_ms;
    int64_t windows;                  /* finished by this engine */
    char other[SINGLETON_OWNER_SIZE]; /* who held the lease at the last look; "" = nobody else */
};

/* Takes its memory; a zeroed rollup may be given to rollup_done(). RC_FATAL: there is none. */
enum rc rollup_init(struct rollup *rollup, const struct rollup_config *config, struct err *err);
void rollup_done(struct rollup *rollup);

/* A loop_step: one look, one page, one transaction. arg is a struct rollup. */
int64_t rollup_step(void *arg, int64_t now_ms);

/* Between two steps, for good: gives the lease back if it is held. */
void rollup_leave(struct rollup *rollup);

#endif
