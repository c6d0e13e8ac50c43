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
#include "common/condition.h"
#include "common/err.h"
#include "common/stop.h"
#include "consumer/singleton_lease.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HOUSEKEEP_NAME_SIZE 65

/* More partitions than a table can have. */
#define HOUSEKEEP_PARTS_MAX 8192

/* The limit of a partition that takes all later days. */
#define HOUSEKEEP_NO_LIMIT INT64_MAX

/* A partition of vote_document: the rows from before limit_day that are in none before it. */
struct housekeep_part {
    char name[HOUSEKEEP_NAME_SIZE];
    int64_t limit_day;
};

struct housekeep_state {
    int64_t now_ms;
    int64_t finished_ms; /* end of the last round; 0 = none ever ended */
    int64_t lease_until_ms;
    int64_t epoch;
    char owner[SINGLETON_OWNER_SIZE]; /* "": nobody */
    int64_t begin_day;                /* of the log: older votes are refused */
    int64_t newest_day;               /* of the newest vote in the log; INT64_MIN: there is none */
};

/* Rows that may go when they are old. */
enum housekeep_kind {
    HOUSEKEEP_INSTANCES, /* by their last heartbeat; on the writers' side */
    HOUSEKEEP_PROGRESS,  /* of groups and topics that are not ours, by their last change */
    HOUSEKEEP_DEAD,      /* by when they were kept */
    HOUSEKEEP_HISTORY,   /* dead records that were replayed or dropped, by when that was */
    HOUSEKEEP_TASKS, /* of the retry queue that ended, by when; not those that a row stands for */
    HOUSEKEEP_ATTEMPTS, /* at tasks of which nothing is left; both on the writers' side */
    HOUSEKEEP_KINDS,
};

/* What the engine needs of the databases. Every call is one transaction or one statement of its
 * own: nothing stays open between calls. All times are the database's clock; days are counted since
 * 1970-01-01. */
struct housekeep_store {
    void *ctx;

    /* Reads the state. RC_FATAL: a row that migrations made is gone, and nobody may guess it. */
    enum rc (*look)(void *ctx, struct housekeep_state *state, struct err *err);

    /* See singleton_mysql_take(). */
    enum rc (*take)(void *ctx, const struct singleton_lease *lease, bool *taken, struct err *err);

    /* Renews the lease. *held false: another one took it, and nothing was written. */
    enum rc (*renew)(void *ctx, const struct singleton_lease *lease, bool *held, struct err *err);

    /* The partitions in their order. RC_REJECT: they are not cut by day, or are more than max. */
    enum rc (*read_parts)(void *ctx, struct housekeep_part *parts, size_t max, size_t *count,
                          struct err *err);

    /* How many rows the partition has; counts no further than max. */
    enum rc (*count_rows)(void *ctx, const struct housekeep_part *part, uint64_t max,
                          uint64_t *rows, struct err *err);

    /* Makes a partition behind all that have a limit, in front of `last`, whose rows are moved, or
     * at the end when last is NULL. Waits a second at most for the statements under way, and lets
     * others wait no longer behind it: RC_RETRY. */
    enum rc (*make_part)(void *ctx, const struct housekeep_part *part,
                         const struct housekeep_part *last, struct err *err);

    /* From now on no vote from before begin_day comes into the log, and none is on its way. What
     * is folded in counts anew for what lies before begin_day. *held as above. RC_RETRY: a
     * partition that ends before begin_day is there, as after a fail-over that lost its drop; what
     * is folded in counts for one partition only. */
    enum rc (*move_begin)(void *ctx, const struct singleton_lease *lease, int64_t begin_day,
                          bool *held, struct err *err);

    /* Adds the next rows of the partition, rows_max at most, to vote_base and notes how far that
     * is, in one transaction; renews the lease. *rows 0: all are folded in. *held as above.
     * RC_RETRY: the log begins before the end of the partition, as after a fail-over that lost
     * move_begin(). */
    enum rc (*fold)(void *ctx, const struct singleton_lease *lease,
                    const struct housekeep_part *part, size_t rows_max, uint64_t *rows, bool *held,
                    struct err *err);

    /* Drops a partition, if it is there; waits as make_part(). RC_REJECT: it has a row that is not
     * folded in. */
    enum rc (*drop_part)(void *ctx, const struct housekeep_part *part, struct err *err);

    /* Deletes rows of a kind that are older than `days`, rows_max at most. *rows 0: none is
     * left. */
    enum rc (*delete_old)(void *ctx, enum housekeep_kind kind, int64_t days, size_t rows_max,
                          uint64_t *rows, struct err *err);

    /* How many of them there are; counts no further than max. */
    enum rc (*count_old)(void *ctx, enum housekeep_kind kind, int64_t days, uint64_t max,
                         uint64_t *rows, struct err *err);

    /* Ends the round: notes the time, gives the lease back. Done twice by the same lease is as good
     * as once. */
    enum rc (*finish)(void *ctx, const struct singleton_lease *lease, bool *held, struct err *err);

    /* Gives the lease back in the middle of a round; best effort. */
    void (*release)(void *ctx, const struct singleton_lease *lease);
};

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
    uint64_t (*rng)(void);
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
    struct singleton_lease lease;

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
    struct condition database; /* as the last step found it */
    enum rc rc;                /* of the last step */
    struct err err;            /* while failing */
    /* Since when a due round makes no progress, on the caller's clock; SINGLETON_ON_TIME: none. */
    int64_t late_since_ms;
    int64_t rounds;                   /* finished by this engine */
    char other[SINGLETON_OWNER_SIZE]; /* who held the lease at the last look; "" = nobody else */
};

/* No day is so early. */
#define HOUSEKEEP_KEEP_ALL INT64_MIN

/* Which partition of vote_document is to be made or dropped next. */
enum housekeep_act {
    HOUSEKEEP_NOTHING, /* everything is as it should be */
    HOUSEKEEP_MAKE,    /* part is to be made */
    HOUSEKEEP_BEGIN,   /* the log is to begin at part's limit, so that part can go */
    HOUSEKEEP_DROP,    /* part lies before the log's beginning: fold it in, and drop it */
};

struct housekeep_next {
    enum housekeep_act act;
    struct housekeep_part part;
};

/* Counting stops here: a person needs no more digits. */
#define HOUSEKEEP_DRY_ROWS_MAX 1000000

enum housekeep_deed { HOUSEKEEP_WOULD_MAKE, HOUSEKEEP_WOULD_DROP, HOUSEKEEP_WOULD_DELETE };

struct housekeep_would {
    enum housekeep_deed deed;
    const char *name;  /* of the partition, or the table of what would be deleted */
    int64_t limit_day; /* of the partition */
    int64_t keep_days; /* of what would be deleted */
    uint64_t rows;     /* to be moved, dropped or deleted; HOUSEKEEP_DRY_ROWS_MAX: or more */
};

typedef void (*housekeep_on_would)(void *ctx, const struct housekeep_would *would);

/* The table it is in; static. This and the functions below, up to housekeep_next_drop(), are pure;
 * any thread may call them. */
const char *housekeep_kind_name(enum housekeep_kind kind);

/* The partitions must reach up to this day: the months_ahead full months behind that of now_day. */
int64_t housekeep_ahead_day(int64_t now_day, int64_t months_ahead);

/* What lies before this day may go: keep_months (0: all) full months before that of the newest vote
 * stay. A clock that is ahead of the votes drops nothing. */
int64_t housekeep_keep_day(int64_t now_day, int64_t newest_day, int64_t keep_months);

/* One month at a time. parts are in their order. */
struct housekeep_next housekeep_next_make(const struct housekeep_part *parts, size_t count,
                                          int64_t ahead_day);
struct housekeep_next housekeep_next_drop(const struct housekeep_part *parts, size_t count,
                                          int64_t begin_day, int64_t keep_day);

/* Takes its memory; a zeroed housekeep may be given to housekeep_done(). RC_FATAL: there is
 * none. */
enum rc housekeep_init(struct housekeep *housekeep, const struct housekeep_config *config,
                       struct err *err);
void housekeep_done(struct housekeep *housekeep);

/* A loop_step: one look, one change of a partition, one batch of rows. arg is a struct
 * housekeep. */
int64_t housekeep_step(void *arg, int64_t now_ms);

/* Between two steps, for good: gives the lease back if it is held. */
void housekeep_leave(struct housekeep *housekeep);

/* What a round would do, found out without doing any of it: calls on_would for each thing that
 * would be done, in that order. */
enum rc housekeep_dry(const struct housekeep_store *store, const struct housekeep_rules *rules,
                      housekeep_on_would on_would, void *ctx, struct err *err);

#endif
