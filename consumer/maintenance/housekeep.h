/* SPDX-License-Identifier: MIT */
/* The housekeeping engine: makes the partitions of the months to come, drops those of months that
 * need not be kept, and deletes old rows, in small steps. Decides when a round is due, who works on
 * it, what comes next and what to do about trouble. Any number of engines may run against one
 * database; a lease lets one of them work.
 *
 * A month is dropped in four steps, each harmless when it is done twice or the last before a crash:
 * the log's beginning moves behind the month, so that no vote of it comes in any more; its rows are
 * added to vote_base, batch by batch, each with how far that is in one transaction; and when no row
 * is left the partition is dropped. An engine belongs to one thread. */
#ifndef CONSUMER_MAINTENANCE_HOUSEKEEP_H
#define CONSUMER_MAINTENANCE_HOUSEKEEP_H

#include "common/backoff.h"
#include "common/err.h"
#include "common/stop.h"
#include "consumer/maintenance/housekeep_plan.h"
#include "consumer/maintenance/housekeep_seam.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A holder that is silent for so long has lost its lease. */
#define HOUSEKEEP_LEASE_MS 15000

/* What is to be kept, and how much is done at once. */
struct housekeep_rules {
    int64_t months_ahead;
    int64_t keep_months;                /* 0: all */
    int64_t keep_days[HOUSEKEEP_KINDS]; /* 0: for ever */
    uint64_t move_rows_max;             /* that making a partition may move */
    size_t batch_rows_max;
    int64_t pause_ms; /* between two batches */
};

struct housekeep_config {
    const struct housekeep_store *store; /* borrowed until housekeep_done() */
    const char *owner;                   /* borrowed; unique among all engines */
    struct housekeep_rules rules;
    int64_t interval_ms; /* rounds begin at multiples of it since 1970 */
    int64_t lease_ms;
    bool once; /* one round, due or not, and then LOOP_END */
    uint64_t (*dice)(void);
    struct stop *stop; /* told when no further work makes sense; may be NULL */
};

/* What a round did so far. */
struct housekeep_counts {
    uint64_t made;
    uint64_t dropped;
    uint64_t folded; /* rows of what was dropped */
    uint64_t deleted[HOUSEKEEP_KINDS];
    uint64_t postponed; /* to the next round */
    int64_t ms;         /* set at the end */
};

enum housekeep_phase {
    HOUSEKEEP_LOOK,   /* nothing is in hand: is a round due, and is it ours? */
    HOUSEKEEP_PLAN,   /* the lease is ours from here on: what comes next? */
    HOUSEKEEP_MAKING, /* part is to be made, if what lies behind it may be moved */
    HOUSEKEEP_BEGINNING,
    HOUSEKEEP_FOLDING,
    HOUSEKEEP_DROPPING,
    HOUSEKEEP_DELETING, /* rows of kind */
    HOUSEKEEP_FINISH,
    HOUSEKEEP_ENDED, /* the only round of `once` is done, or err says why nothing goes on */
};

struct housekeep {
    struct housekeep_config config;
    enum housekeep_phase phase;
    struct turn_hold hold;

    int64_t start_ms; /* of the round, on the caller's clock */
    struct housekeep_part *parts;
    size_t part_count;
    struct housekeep_part part;
    bool make_no_more; /* in this round */
    bool drop_no_more;
    unsigned tries; /* of the change of partitions in hand */
    enum housekeep_kind kind;
    struct housekeep_counts counts;

    struct backoff backoff;
    bool failing;
    enum rc rc;     /* of the last step */
    struct err err; /* while failing */
    /* Since when a due round makes no progress, on the caller's clock; HOUSEKEEP_ON_TIME: none. */
    int64_t late_since_ms;
    int64_t rounds;              /* finished by this engine */
    char other[TURN_OWNER_SIZE]; /* who held the lease at the last look; "" = nobody else */
};

#define HOUSEKEEP_ON_TIME (-1)

/* Takes its memory; a zeroed housekeep may be given to housekeep_done(). RC_FATAL: there is none. */
enum rc housekeep_init(struct housekeep *housekeep, const struct housekeep_config *config,
                       struct err *err);
void housekeep_done(struct housekeep *housekeep);

/* A loop_step: one look, one change of a partition, one batch of rows. arg is a struct housekeep. */
int64_t housekeep_step(void *arg, int64_t now_ms);

/* Between two steps, for good: gives the lease back if it is held. */
void housekeep_leave(struct housekeep *housekeep);

#endif
