/* SPDX-License-Identifier: MIT */
/* The parts of the log that housekeeping changes: its partitions, log_begin, vote_base and the
 * housekeeping lease. A run without housekeepers keeps one log for ever. */
#ifndef TESTS_SIM_MONTHS_H
#define TESTS_SIM_MONTHS_H

#include "consumer/maintenance/housekeep.h"
#include "tests/sim/db.h"
#include "tests/sim/promises.h"
#include "tests/sim/sink.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MONTHS_PARTS_MAX 320
#define MONTHS_FOLD_MAX 20
#define MONTHS_AGED_MAX 64

struct months_base {
    int64_t seq;
    int64_t votes;
    int64_t row_count;
    int64_t vote_sum;
};

/* One row of housekeep_state and of log_begin, and all of vote_base: only the lease's holder writes
 * them. */
struct months_state {
    struct housekeep_state row;
    const struct proc *holder; /* that took the lease */
    int holder_life;
    int64_t round_ms; /* when that was */
    int64_t folded_id;
    struct months_base base[SIM_CONTENTS + 1];
};

struct months_parts {
    size_t count;
    struct housekeep_part parts[MONTHS_PARTS_MAX];
};

struct months {
    struct fake_row row; /* first; of housekeep_state */
    struct months_state now;
    struct months_state old;
    size_t folded[MONTHS_FOLD_MAX]; /* events that the transaction adds to vote_base */
    size_t folded_count;

    struct months_ddl {
        struct fake_row row; /* first */
        struct months_parts now;
        struct months_parts old;
        int64_t drops_from_day; /* of the partition that is being dropped */
        int64_t drops_until_day;
    } ddl;

    /* Shared locks: a session locks the row with its own number, an exclusive lock is all of
     * them. */
    struct fake_row begin_readers[DB_SESSIONS_MAX];
    struct fake_row log_users[DB_SESSIONS_MAX]; /* metadata lock of vote_document */

    int64_t next_id; /* of vote_document */
    struct housekeep_rules rules;
    /* Creation times of rows that may be deleted when they are old, oldest first. */
    int64_t aged_ms[HOUSEKEEP_KINDS][MONTHS_AGED_MAX];
    size_t aged_count[HOUSEKEEP_KINDS];
};

void months_begin_run(struct months *months, struct sim *sim);

/* For consumers: log_begin stays until the end of the transaction. */
enum rc months_keep_begin(struct link *link, int64_t *begin_day, struct err *err);
/* No partition changes until the end of the transaction. */
enum rc months_use_log(struct link *link, struct err *err);
/* Takes the exclusive lock that belongs to one of the two. */
enum rc months_lock_all(struct link *link, struct fake_row readers[DB_SESSIONS_MAX],
                        struct err *err);
/* Is there a partition for the day? */
bool months_have(const struct sim *sim, int64_t day);
int64_t months_next_id(struct sim *sim);
/* Of the committed row with the highest id; INT64_MIN: there is none. */
int64_t months_newest_day(const struct sim *sim);

/* The rows of the partition are of the days from *from_day to before *until_day. False: there is no
 * such partition. */
bool months_find(const struct months_parts *parts, const char *name, size_t *at, int64_t *from_day,
                 int64_t *until_day);
/* Is the committed row in the log, on one of these days? */
bool months_is_row(const struct sink_vote *vote, int64_t from_day, int64_t until_day);

/* Promises that are checked at once: a vote was committed to the log, a record as too old. */
void months_check_logged(struct sim *sim, size_t event);
void months_check_too_old(struct sim *sim, size_t event);
/* vote_base and the rows behind it are the total of each content. */
void months_check_totals(struct sim *sim);

/* Are all partitions made and dropped that should be? */
bool months_rest(const struct sim *sim, struct waiting *waiting);
/* The sum of the votes of a content that are dead as too_old. */
int64_t months_refused_votes(const struct sim *sim, int64_t content);

struct housekeep_adapter {
    struct link link;
    struct housekeep_store ops;
    bool denied; /* a deletion of this round was denied: it is left to the next round */
};

void housekeep_adapter_init(struct housekeep_adapter *adapter, struct proc *proc);

#endif
