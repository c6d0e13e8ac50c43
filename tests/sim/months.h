/* SPDX-License-Identifier: MIT */
/* The parts of the log that housekeeping changes: its partitions, log_begin, vote_base and the
 * housekeeping lease. A run without housekeepers keeps one log for ever. */
#ifndef TESTS_SIM_MONTHS_H
#define TESTS_SIM_MONTHS_H

#include "consumer/maintenance/housekeep.h"
#include "tests/fakes/fake_housekeep.h"
#include "tests/sim/db.h"
#include "tests/sim/promises.h"
#include "tests/sim/sink.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The process that holds the housekeeping lease, and when it took it. */
struct months_holder {
    const struct proc *proc;
    int life;
    int64_t round_ms;
};

struct months {
    struct fake_housekeep_tables tables;
    struct months_holder now_holder; /* of the transaction with the lease's row */
    struct months_holder old_holder;
    size_t folded[FAKE_FOLD_ROWS_MAX]; /* events that the transaction adds to vote_base */
    size_t folded_count;

    /* Shared locks: a session locks the row with its own number, an exclusive lock is all of
     * them. */
    struct fake_row begin_readers[DB_SESSIONS_MAX];
    struct fake_row log_users[DB_SESSIONS_MAX]; /* metadata lock of vote_document */

    struct housekeep_rules rules;
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
    struct link link; /* first */
    struct fake_housekeep fake;
    struct housekeep_store ops;
    bool denied; /* a deletion of this round was denied: it is left to the next round */
};

void housekeep_tables_init(struct fake_housekeep_tables *tables, struct sim *sim);
/* The adapter must not move afterwards. */
void housekeep_adapter_init(struct housekeep_adapter *adapter, struct proc *proc);

#endif
