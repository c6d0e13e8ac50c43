/* SPDX-License-Identifier: MIT */
/* What the removal of remarks reads and writes: deleted_content, the rows of remark, and the votes
 * that are deleted; and the promises about them (P4, P5, P6). */
#ifndef TESTS_SIM_REMOVALS_H
#define TESTS_SIM_REMOVALS_H

#include "tests/fakes/fake_removal.h"
#include "tests/fakes/fake_votes.h"
#include "tests/sim/db.h"
#include "tests/sim/promises.h"
#include "tests/sim/sim.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What the transactions of a content have committed, as the promises need it. */
struct removal_history {
    int64_t deleted_tick;  /* when its row of deleted_content came; 0: there is none */
    int64_t deleted_order; /* events of its key that were committed before, or -1: the transaction
                              did not have the total locked */
    int64_t closed_order;  /* the same of the close; -1: it is not closed */
    bool removed;          /* its remark */
    bool lasts[SIM_VOTERS + 1]; /* rows of vote_last from before the run */
};

struct removal_tables {
    struct fake_deletion deletions[SIM_CONTENTS + 1];  /* deleted_content */
    struct fake_removal_row remarks[SIM_CONTENTS + 1]; /* sink->remarks has their votes */
    struct removal_history histories[SIM_CONTENTS + 1];
    int64_t tick; /* counts the deletions that were committed, from 1 */
};

/* The two connections of a remover, or of an application that deletes by SQL. */
struct removal_adapter {
    struct link votes_link;
    struct fake_votes votes;
    struct vote_store votes_ops;
    struct link sink_link;
    struct fake_removal fake;
    struct removal_store ops;
    struct removal_marks marks;
    bool total_locked; /* by the open transaction of an application */
};

void removals_begin_run(struct removal_tables *tables, struct sim *sim);

/* The adapter must not move afterwards. */
void removal_adapter_init(struct removal_adapter *adapter, struct proc *proc);
void removal_adapter_close(struct removal_adapter *adapter);
/* For event ids of tombstones. */
void removals_rng_bytes(void *bytes, size_t len);

/* An application inserts a remark; ids of removed remarks are not used again. */
void removals_add_remark(struct sim *sim, int64_t content);
bool removals_was_removed(const struct sim *sim, int64_t content);

/* The votes of a content by its committed events. */
int64_t removals_count_votes(const struct sim *sim, int64_t content);

/* As promises.h. */
bool removals_rest(const struct sim *sim, struct waiting *waiting);
void removals_check(struct sim *sim);

#endif
