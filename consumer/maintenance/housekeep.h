/* SPDX-License-Identifier: MIT */
/* The housekeeping engine: makes the partitions of the months to come, drops those of months that
 * need not be kept, and deletes old rows, in small steps. Decides when a round is due, which
 * process works on it, what comes next and how to handle failures. Several engines may run against
 * one database; a singleton lease lets one of them work.
 *
 * A month is dropped in steps that may be repeated or be the last before a crash: the beginning of
 * the log moves behind the month, so that no vote of the month is accepted any more; its rows are
 * added to vote_base in batches, each in one transaction with the position reached; when no row is
 * left, the partition is dropped. An engine belongs to one thread. */
#ifndef CONSUMER_MAINTENANCE_HOUSEKEEP_H
#define CONSUMER_MAINTENANCE_HOUSEKEEP_H

#include "common/backoff.h"
#include "common/condition.h"
#include "common/err.h"
#include "common/loop.h"
#include "consumer/maintenance/old_rows.h"
#include "consumer/singleton_lease.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HOUSEKEEP_NAME_SIZE 65

/* More than a table can have. */
#define HOUSEKEEP_PARTS_MAX 8192

/* The limit of the partition for all later days. */
#define HOUSEKEEP_NO_LIMIT INT64_MAX

/* A partition of vote_document: the rows from before limit_day that are in no earlier partition. */
struct housekeep_part {
    char name[HOUSEKEEP_NAME_SIZE];
    int64_t limit_day;
};

struct housekeep_state {
    int64_t now_ms;
    int64_t finished_ms; /* end of the last round; 0: none has ended */
    int64_t lease_until_ms;
    int64_t epoch;
    char owner[SINGLETON_OWNER_SIZE]; /* "": free */
    int64_t begin_day;                /* of the log: older votes are refused */
    /* of the newest vote in the log; INT64_MIN: the log is empty */
    int64_t newest_day;
};

/* What the engine needs of the databases. Each call is one statement or one transaction; nothing
 * stays open between calls. All times are those of the clock of the database; days count since
 * 1970-01-01. */
struct housekeep_store {
    void *ctx;

    /* Reads the state. RC_FATAL: a row that the migrations inserted is missing, and its content
     * cannot be guessed. */
    enum rc (*read_state)(void *ctx, struct housekeep_state *state, struct err *err);

    /* See singleton_mysql_take(). */
    enum rc (*take)(void *ctx, const struct singleton_lease *lease, bool *taken, struct err *err);

    /* Renews the lease. *held false: another process took it, and nothing was written. */
    enum rc (*renew)(void *ctx, const struct singleton_lease *lease, bool *held, struct err *err);

    /* Reads the partitions in order. RC_REJECT: they do not end at dates, or are more than max. */
    enum rc (*read_parts)(void *ctx, struct housekeep_part *parts, size_t max, size_t *count,
                          struct err *err);

    /* Counts the rows of the partition, up to max. */
    enum rc (*count_rows)(void *ctx, const struct housekeep_part *part, uint64_t max,
                          uint64_t *rows, struct err *err);

    /* Makes a partition after all partitions with a limit: by splitting `last`, whose rows are
     * moved, or at the end if last is NULL. RC_RETRY: other statements kept the table locked for a
     * second. */
    enum rc (*make_part)(void *ctx, const struct housekeep_part *part,
                         const struct housekeep_part *last, struct err *err);

    /* Moves the beginning of the log to begin_day: from then on no transaction writes an older
     * vote. Folding starts again at the first row before begin_day. *held as above. RC_RETRY: a
     * partition that ends before begin_day exists, as after a fail-over that lost its drop; the
     * position of folding is valid for one partition only. */
    enum rc (*move_begin)(void *ctx, const struct singleton_lease *lease, int64_t begin_day,
                          bool *held, struct err *err);

    /* Adds the next rows of the partition, at most rows_max, to vote_base and stores the position
     * in the same transaction; renews the lease. *rows 0: all are folded. *held as above. RC_RETRY:
     * the log begins before the end of the partition, as after a fail-over that lost
     * move_begin(). */
    enum rc (*fold)(void *ctx, const struct singleton_lease *lease,
                    const struct housekeep_part *part, size_t rows_max, uint64_t *rows, bool *held,
                    struct err *err);

    /* Drops the partition if it exists; waits as make_part(). RC_REJECT: it has a row that is not
     * folded. */
    enum rc (*drop_part)(void *ctx, const struct housekeep_part *part, struct err *err);

    /* Deletes, or marks, at most rows_max rows of a kind that are older than `days`. *rows 0: none
     * is left. */
    enum rc (*delete_old)(void *ctx, enum housekeep_kind kind, int64_t days, size_t rows_max,
                          uint64_t *rows, struct err *err);

    /* Counts such rows, up to max. */
    enum rc (*count_old)(void *ctx, enum housekeep_kind kind, int64_t days, uint64_t max,
                         uint64_t *rows, struct err *err);

    /* Ends the round: stores the time and gives the lease back. A second call with the same lease
     * has no further effect. */
    enum rc (*finish)(void *ctx, const struct singleton_lease *lease, bool *held, struct err *err);

    /* Gives the lease back in the middle of a round. A failure is ignored. */
    void (*release)(void *ctx, const struct singleton_lease *lease);
};

/* A holder that is silent for this long has lost its lease. */
#define HOUSEKEEP_LEASE_MS 15000

/* What is kept, and how much is done at once. */
struct housekeep_rules {
    int64_t months_ahead;
    int64_t keep_months;                /* 0: all */
    int64_t keep_days[HOUSEKEEP_KINDS]; /* 0: for ever */
    /* largest number of rows that making a partition may move */
    uint64_t move_rows_max;
    size_t batch_rows_max;
    int64_t pause_ms; /* between two batches */
};

struct housekeep_config {
    const struct housekeep_store *store; /* borrowed until housekeep_done() */
    const char *owner;                   /* borrowed; unique among all engines */
    struct housekeep_rules rules;
    int64_t interval_ms; /* rounds begin at multiples of it since 1970 */
    int64_t lease_ms;
    bool once; /* run one round, due or not, and then return LOOP_END */
    uint64_t (*rng)(void);
    struct stop *stop; /* receives stop_fail() when the engine cannot continue; may be NULL */
};

/* The work of a round so far. */
struct housekeep_counts {
    uint64_t made;
    uint64_t dropped;
    uint64_t folded;                   /* rows of dropped partitions */
    uint64_t deleted[HOUSEKEEP_KINDS]; /* or marked */
    uint64_t postponed;                /* changes left to the next round */
    int64_t ms;                        /* duration, set at the end */
};

enum housekeep_phase {
    HOUSEKEEP_IDLE,   /* no round: wait until one is due and take the lease */
    HOUSEKEEP_PLAN,   /* the lease is held from here on: decide what comes next */
    HOUSEKEEP_MAKING, /* make part, if the rows of the last partition may be moved */
    HOUSEKEEP_BEGINNING,
    HOUSEKEEP_FOLDING,
    HOUSEKEEP_DROPPING,
    HOUSEKEEP_DELETING, /* delete or mark rows of kind */
    HOUSEKEEP_FINISH,
    /* the only round of `once` is done, or the engine cannot continue and err tells why */
    HOUSEKEEP_ENDED,
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
    unsigned tries; /* of the current change of partitions */
    enum housekeep_kind kind;
    struct housekeep_counts counts;

    struct backoff backoff;
    struct condition database; /* as the last step found it */
    enum rc rc;                /* of the last step */
    struct err err;            /* while failing */
    /* When a due round last made progress, on the caller's clock; SINGLETON_ON_TIME while none
     * is due. */
    int64_t late_since_ms;
    int64_t rounds;                   /* finished by this engine */
    char other[SINGLETON_OWNER_SIZE]; /* the other instance that holds the lease; "": none */
};

/* Earlier than any day. */
#define HOUSEKEEP_KEEP_ALL INT64_MIN

/* Which partition of vote_document is made or dropped next. */
enum housekeep_act {
    HOUSEKEEP_NOTHING, /* nothing to do */
    HOUSEKEEP_MAKE,    /* make part */
    /* move the beginning of the log to the limit of part, so that part can be dropped */
    HOUSEKEEP_BEGIN,
    HOUSEKEEP_DROP, /* part lies before the beginning of the log: fold and drop it */
};

struct housekeep_next {
    enum housekeep_act act;
    struct housekeep_part part;
};

/* A dry run counts no further. */
#define HOUSEKEEP_DRY_ROWS_MAX 1000000

enum housekeep_deed {
    HOUSEKEEP_WOULD_MAKE,
    HOUSEKEEP_WOULD_DROP,
    HOUSEKEEP_WOULD_DELETE,
    HOUSEKEEP_WOULD_MARK,
};

struct housekeep_would {
    enum housekeep_deed deed;
    const char *name;  /* of the partition, or of the table with the rows to delete or mark */
    int64_t limit_day; /* of the partition */
    int64_t keep_days; /* of rows to delete or mark */
    uint64_t rows;     /* to move, drop, delete or mark; HOUSEKEEP_DRY_ROWS_MAX: or more */
};

typedef void (*housekeep_on_would)(void *ctx, const struct housekeep_would *would);

/* Returns the name of the table (static). This and the functions below, up to
 * housekeep_next_drop(), are pure; any thread may call them. */
const char *housekeep_kind_name(enum housekeep_kind kind);

/* True: rows of the kind are marked for the removal of their votes, not deleted. A round marks
 * batch_rows_max of them and leaves the rest to the next one, so that removals which a client has
 * asked for do not wait behind all of them. */
bool housekeep_kind_marks(enum housekeep_kind kind);

/* Returns the day up to which partitions must exist: the end of the months_ahead full months after
 * the month of now_day. */
int64_t housekeep_ahead_day(int64_t now_day, int64_t months_ahead);

/* Returns the day before which rows may be dropped: keep_months (0: all) full months before the
 * month of the newest vote are kept. A clock that is ahead of the votes drops nothing. */
int64_t housekeep_keep_day(int64_t now_day, int64_t newest_day, int64_t keep_months);

/* Return the next change, one month at a time. parts must be in order. */
struct housekeep_next housekeep_next_make(const struct housekeep_part *parts, size_t count,
                                          int64_t ahead_day);
struct housekeep_next housekeep_next_drop(const struct housekeep_part *parts, size_t count,
                                          int64_t begin_day, int64_t keep_day);

/* Allocates memory. housekeep_done() accepts a zeroed housekeep. RC_FATAL: no memory. */
enum rc housekeep_init(struct housekeep *housekeep, const struct housekeep_config *config,
                       struct err *err);
void housekeep_done(struct housekeep *housekeep);

/* A loop_step: reads the state, changes one partition or handles one batch of rows. arg is a struct
 * housekeep. */
int64_t housekeep_step(void *arg, int64_t now_ms);

/* Ends the engine between two steps: gives the lease back if it is held. */
void housekeep_leave(struct housekeep *housekeep);

/* Finds out what a round would do without changing anything. Calls on_would for each change, in
 * order. */
enum rc housekeep_dry(const struct housekeep_store *store, const struct housekeep_rules *rules,
                      housekeep_on_would on_would, void *ctx, struct err *err);

#endif
