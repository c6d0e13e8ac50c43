/* SPDX-License-Identifier: MIT */
/* The tables of the log side, for the applying and the roll-up engines. */
#ifndef TESTS_SIM_SINK_H
#define TESTS_SIM_SINK_H

#include "consumer/apply/sink_ops.h"
#include "consumer/rollup/rollup.h"
#include "tests/fakes/fake_rollup.h"
#include "tests/sim/broker.h"
#include "tests/sim/db.h"

/* Rows with two versions: the transaction that has the row locked sees `now`. */
struct sink_progress {
    struct fake_row row; /* first */
    bool now_found;
    bool old_found;
    struct progress_row now;
    struct progress_row old;
    const struct proc *now_owner; /* the process that claimed it */
    int now_life;
    const struct proc *old_owner;
    int old_life;
};

struct sink_total {
    struct fake_row row; /* first */
    bool now_found;
    bool old_found;
    int64_t now_votes;
    int64_t old_votes;
    int64_t now_seq;
    int64_t old_seq;
    int64_t now_changed_ms;
    int64_t old_changed_ms;
};

/* A row of vote_document, by the number of its event. */
struct sink_vote {
    struct fake_row row; /* first */
    bool now_found;
    bool old_found;
    int64_t votes;
    int64_t seq;
    int64_t offset;
    int32_t partition;
    int64_t id;
    int64_t day; /* create_date */
    int folded;  /* so often it was added to vote_base */
    bool dropped;
};

/* Why a record is dead: it can never be applied, it is from before the log's beginning, or it is
 * held (consumer/held/held.h). */
enum sink_dead_class { SINK_DEAD_NEVER, SINK_DEAD_TOO_OLD, SINK_DEAD_REFUSED, SINK_DEAD_BEHIND };

struct sink_dead {
    struct fake_row row; /* first */
    bool now_found;
    bool old_found;
    enum sink_dead_class now_class;
    enum sink_dead_class old_class;
    size_t event;
};

/* A row of vote_last. */
struct sink_last {
    struct fake_row row; /* first */
    struct last_row now;
    struct last_row old;
};

struct sink_tables {
    struct sink_progress progress[BROKER_PARTITIONS_MAX];
    struct sink_total totals[SIM_CONTENTS + 1];
    struct sink_vote *votes;                       /* by event */
    struct sink_dead *dead[BROKER_PARTITIONS_MAX]; /* by offset */
    struct sink_last lasts[SIM_CONTENTS + 1][SIM_VOTERS + 1];
    struct fake_remark remarks[SIM_CONTENTS + 1];
    int64_t held_ends[BROKER_PARTITIONS_MAX]; /* no record from here on was ever held */
    /* Until this time the log refuses votes of a content: those whose event number has none of the
     * bits. */
    int64_t refused_until_ms[SIM_CONTENTS + 1];
    size_t refused_bits[SIM_CONTENTS + 1];
    struct fake_row state_row;
    struct rollup_state state;
};

/* One applier's connection. */
struct sink_adapter {
    struct link link;
    struct sink ops;
};

struct rollup_adapter {
    struct link link;
    struct fake_rollup fake;
    struct rollup_store ops;
};

void sink_begin_run(struct sink_tables *tables, struct sim *sim);
void sink_done(struct sink_tables *tables);
/* A transaction of the adapter changes a dead record that it has locked. */
void sink_dead_write(struct sink_adapter *adapter, struct sink_dead *dead);
enum sink_dead_class sink_dead_class(const char *reason_class);
bool sink_is_held(enum sink_dead_class dead_class);
void sink_adapter_init(struct sink_adapter *adapter, struct proc *proc);
void rollup_adapter_init(struct rollup_adapter *adapter, struct proc *proc);

#endif
