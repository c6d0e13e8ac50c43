/* SPDX-License-Identifier: MIT */
/* The tables of the log side, for the applying and the roll-up engines. */
#ifndef TESTS_SIM_SINK_H
#define TESTS_SIM_SINK_H

#include "consumer/apply/sink_ops.h"
#include "consumer/rollup/rollup.h"
#include "tests/fakes/fake_rollup.h"
#include "tests/fakes/fake_sink.h"
#include "tests/sim/broker.h"
#include "tests/sim/db.h"

/* A row of vote_document, by the number of its event. */
struct sink_vote {
    struct fake_vote base; /* first */
    int folded;            /* so often it was added to vote_base */
    bool dropped;
};

struct sink_dead {
    struct fake_dead_row base; /* first */
    size_t event;
};

struct sink_tables {
    struct fake_sink_tables fake;
    struct fake_progress progress[BROKER_PARTITIONS_MAX];
    struct fake_tally totals[SIM_CONTENTS + 1];
    struct sink_vote *votes;                       /* by event */
    struct sink_dead *dead[BROKER_PARTITIONS_MAX]; /* by offset */
    int64_t dead_ends[BROKER_PARTITIONS_MAX];      /* no record from here on was ever dead */
    struct fake_last lasts[SIM_CONTENTS + 1][SIM_VOTERS + 1];
    struct fake_remark remarks[SIM_CONTENTS + 1];
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
    struct fake_sink fake;
    struct sink ops;
};

struct rollup_adapter {
    struct link link;
    struct fake_rollup fake;
    struct rollup_store ops;
};

void sink_begin_run(struct sink_tables *tables, struct sim *sim);
void sink_done(struct sink_tables *tables);
/* By the id of its dead record. */
struct sink_dead *sink_dead_at(const struct sim *sim, int64_t id);
/* The adapter must not move afterwards. */
void sink_adapter_init(struct sink_adapter *adapter, struct proc *proc);
void rollup_adapter_init(struct rollup_adapter *adapter, struct proc *proc);

#endif
