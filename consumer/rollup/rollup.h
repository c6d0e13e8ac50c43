/* SPDX-License-Identifier: MIT */
/* The roll-up engine: copies changed totals from vote_tally to remark.votes, one window at a time.
 * Decides when a window is due, which process works on it, what it covers and how to handle
 * failures. A missed window is not repeated: the next one covers everything since rolled_until_ms.
 * Several engines may run against one database; a singleton lease lets one of them work.
 *
 * Invariant C8: a window covers the changes up to its start. It begins `overlap_ms` before the end
 * of the last one, because a row may be committed later than its changed_at says. Remarks that were
 * never rolled up come first: their contents may have changed long before any window of today. A
 * remark only moves forward (votes_seq), so a window that was interrupted anywhere, or done by two
 * processes, can be repeated.
 *
 * Invariant C12: windows are numbered, and one that was interrupted keeps its number. Each remark
 * keeps the votes that it had before the window which wrote it, so that readers of lists see the
 * votes as of the last finished window while the next one is at work. An engine belongs to one
 * thread. */
#ifndef CONSUMER_ROLLUP_ROLLUP_H
#define CONSUMER_ROLLUP_ROLLUP_H

#include "common/backoff.h"
#include "common/condition.h"
#include "common/err.h"
#include "common/loop.h"
#include "consumer/singleton_lease.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The row of rollup_state: the lease and the progress. */
struct rollup_state {
    int64_t now_ms;
    int64_t rolled_until_ms; /* earlier changes are in remark; 0: none are */
    int64_t finished_ms;     /* end of the last window; 0: none has ended */
    int64_t finished_window; /* its number; 0: none has ended */
    int64_t started_window;  /* the last window that wrote */
    int64_t lease_until_ms;
    int64_t epoch;                    /* grows with every new owner */
    char owner[SINGLETON_OWNER_SIZE]; /* "": free */
};

/* A position in the order of (changed_at, content_id). */
struct rollup_place {
    int64_t changed_ms;
    int64_t content_id;
};

#define ROLLUP_NO_REMARK (-1)

/* The total of a content and the state of its remark. */
struct rollup_row {
    struct rollup_place place;
    int64_t votes;
    int64_t seq;
    int64_t remark_seq; /* ROLLUP_NO_REMARK: it does not exist */
    bool due;           /* the remark was never rolled up; it is marked as seen */
};

/* How far a window is. */
struct rollup_progress {
    int64_t window; /* its number */
    int64_t rolled_until_ms;
};

/* What the engine needs of the sink's database. Each call is one statement or one transaction;
 * nothing stays open between calls. All times are those of the clock of the database, in ms since
 * 1970. */
struct rollup_store {
    void *ctx;

    /* Reads the state; inserts the row if it does not exist. */
    enum rc (*read_state)(void *ctx, struct rollup_state *state, struct err *err);

    /* Takes the lease if the epoch is still lease->epoch - 1 and the lease is free, expired or
     * already owned by lease->owner. After RC_RETRY it may be taken; read_state() tells. The lease
     * ends with the connection: a new one may reach a replica that has the lease but lacks writes
     * of the window. */
    enum rc (*take)(void *ctx, const struct singleton_lease *lease, bool *taken, struct err *err);

    /* Reads at most max totals after `after` that were changed at until_ms or earlier, in order and
     * without locks. votes and seq of a row belong together. */
    enum rc (*read)(void *ctx, const struct rollup_place *after, int64_t until_ms,
                    struct rollup_row *rows, size_t max, size_t *count, struct err *err);

    /* Reads at most max remarks that were never rolled up, with ids above after_id, in order and
     * without locks. votes and seq are 0 if there is no total. */
    enum rc (*read_due)(void *ctx, int64_t after_id, struct rollup_row *rows, size_t max,
                        size_t *count, struct err *err);

    /* In one transaction: checks that the lease is held, updates remarks whose votes_seq is lower,
     * marks those that are `due` as seen, stores the progress and renews the lease. A remark that
     * no earlier write of this window has updated keeps its old votes as votes_before. *changed:
     * remarks written. *held false: another process took the lease, or this is not the connection
     * that took it, and nothing was written. */
    enum rc (*write)(void *ctx, const struct singleton_lease *lease,
                     const struct rollup_progress *progress, const struct rollup_row *rows,
                     size_t count, uint64_t *changed, bool *held, struct err *err);

    /* Ends the window: stores the progress and the time, and gives the lease back. A second call
     * with the same lease has no further effect. *held as in write(). */
    enum rc (*finish)(void *ctx, const struct singleton_lease *lease,
                      const struct rollup_progress *progress, bool *held, struct err *err);

    /* Gives the lease back in the middle of a window. A failure is ignored. */
    void (*release)(void *ctx, const struct singleton_lease *lease);
};

/* A holder that is silent for this long has lost its lease. */
#define ROLLUP_LEASE_MS 10000

struct rollup_config {
    const struct rollup_store *store; /* borrowed until rollup_done() */
    const char *owner;                /* borrowed; unique among all engines */
    int64_t interval_ms;              /* windows begin at multiples of it since 1970 */
    int64_t overlap_ms;
    int64_t lease_ms;
    size_t batch_rows_max;
    bool once; /* run one window, due or not, and then return LOOP_END */
    uint64_t (*rng)(void);
    struct stop *stop; /* receives stop_fail() when the engine cannot continue; may be NULL */
};

/* The work of a window so far. */
struct rollup_counts {
    uint64_t contents; /* contents read */
    uint64_t changed;  /* remarks written */
    uint64_t missing;  /* contents that have no remark */
    uint64_t refused;  /* remarks that the database refused to write */
    int64_t ms;        /* duration, set at the end */
};

enum rollup_phase {
    ROLLUP_IDLE,   /* no window: wait until one is due and take the lease */
    ROLLUP_READ,   /* the lease is held from here on: read the next page */
    ROLLUP_WRITE,  /* write rows[at..count) */
    ROLLUP_FINISH, /* everything is written */
    /* the only window of `once` is done, or the engine cannot continue and err tells why */
    ROLLUP_ENDED,
};

struct rollup {
    struct rollup_config config;
    enum rollup_phase phase;
    struct singleton_lease lease;

    int64_t window;            /* its number */
    int64_t start_ms;          /* of the window, on the caller's clock */
    int64_t target_ms;         /* the time of the database at the start: the next rolled_until */
    int64_t until_ms;          /* later changes are left to the next window */
    int64_t progress_ms;       /* rolled_until after the pages written so far */
    bool reading_due;          /* pages are remarks that were never rolled up, not changed totals */
    int64_t after_id;          /* end of the current page of such remarks */
    struct rollup_place after; /* end of the current page of changed totals */
    bool last_page;
    struct rollup_row *rows;
    size_t count;
    size_t at;
    size_t write_rows_max; /* lowered after a refusal, to find the row */
    struct rollup_counts counts;

    struct backoff backoff;
    struct condition database; /* as the last step found it */
    enum rc rc;                /* of the last step */
    struct err err;            /* while failing */
    /* When a due window last made progress, on the caller's clock; SINGLETON_ON_TIME while none
     * is due. */
    int64_t late_since_ms;
    int64_t windows;                  /* finished by this engine */
    char other[SINGLETON_OWNER_SIZE]; /* the other instance that holds the lease; "": none */
};

/* Allocates memory. rollup_done() accepts a zeroed rollup. RC_FATAL: no memory. */
enum rc rollup_init(struct rollup *rollup, const struct rollup_config *config, struct err *err);
void rollup_done(struct rollup *rollup);

/* A loop_step: reads the state, reads one page or writes one transaction. arg is a struct
 * rollup. */
int64_t rollup_step(void *arg, int64_t now_ms);

/* Ends the engine between two steps: gives the lease back if it is held. */
void rollup_leave(struct rollup *rollup);

#endif
