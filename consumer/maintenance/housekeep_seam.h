/* SPDX-License-Identifier: MIT */
/* What housekeeping needs of the databases. Every call is one transaction or one statement of its
 * own: nothing stays open between calls. All times are the database's clock; days are counted since
 * 1970-01-01. One thread at a time. */
#ifndef CONSUMER_MAINTENANCE_HOUSEKEEP_SEAM_H
#define CONSUMER_MAINTENANCE_HOUSEKEEP_SEAM_H

#include "common/err.h"
#include "consumer/turn_row.h"

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
    char owner[TURN_OWNER_SIZE]; /* "": nobody */
    int64_t begin_day;           /* of the log: older votes are refused */
    int64_t newest_day;          /* of the newest vote in the log; INT64_MIN: there is none */
};

/* Rows that may go when they are old. */
enum housekeep_kind {
    HOUSEKEEP_INSTANCES, /* by their last heartbeat; on the writers' side */
    HOUSEKEEP_PROGRESS,  /* of groups and topics that are not ours, by their last change */
    HOUSEKEEP_DEAD,      /* by when they were kept */
    HOUSEKEEP_HISTORY,   /* dead records that were replayed or dropped, by when that was */
    HOUSEKEEP_TASKS,    /* of the retry lane that ended, by when; not those that a row stands for */
    HOUSEKEEP_ATTEMPTS, /* at tasks of which nothing is left; both on the writers' side */
    HOUSEKEEP_KINDS,
};

struct housekeep_store {
    void *ctx;

    /* Reads the state. RC_FATAL: a row that migrations made is gone, and nobody may guess it. */
    enum rc (*look)(void *ctx, struct housekeep_state *state, struct err *err);

    /* See turn_mysql_take(). */
    enum rc (*take)(void *ctx, const struct turn_hold *hold, bool *taken, struct err *err);

    /* Renews the lease. *held false: another one took it, and nothing was written. */
    enum rc (*renew)(void *ctx, const struct turn_hold *hold, bool *held, struct err *err);

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
    enum rc (*move_begin)(void *ctx, const struct turn_hold *hold, int64_t begin_day, bool *held,
                          struct err *err);

    /* Adds the next rows of the partition, rows_max at most, to vote_base and notes how far that
     * is, in one transaction; renews the lease. *rows 0: all are folded in. *held as above.
     * RC_RETRY: the log begins before the end of the partition, as after a fail-over that lost
     * move_begin(). */
    enum rc (*fold)(void *ctx, const struct turn_hold *hold, const struct housekeep_part *part,
                    size_t rows_max, uint64_t *rows, bool *held, struct err *err);

    /* Drops a partition, if it is there; waits as make_part(). RC_REJECT: it has a row that is not
     * folded in. */
    enum rc (*drop_part)(void *ctx, const struct housekeep_part *part, struct err *err);

    /* Deletes rows of a kind that are older than `days`, rows_max at most. *rows 0: none is left. */
    enum rc (*delete_old)(void *ctx, enum housekeep_kind kind, int64_t days, size_t rows_max,
                          uint64_t *rows, struct err *err);

    /* How many of them there are; counts no further than max. */
    enum rc (*count_old)(void *ctx, enum housekeep_kind kind, int64_t days, uint64_t max,
                         uint64_t *rows, struct err *err);

    /* Ends the round: notes the time, gives the lease back. Done twice by the same hold is as good
     * as once. */
    enum rc (*finish)(void *ctx, const struct turn_hold *hold, bool *held, struct err *err);

    /* Gives the lease back in the middle of a round; best effort. */
    void (*release)(void *ctx, const struct turn_hold *hold);
};

#endif
