/* SPDX-License-Identifier: MIT */
/* The replay of votes that the log refuses for a while: the tasks that consumers make of held
 * contents, and the processes that replay the dead records of these tasks. */
#ifndef TESTS_SIM_REPLAYS_H
#define TESTS_SIM_REPLAYS_H

#include "consumer/held/submitter.h"
#include "tests/fakes/fake_dead.h"
#include "tests/sim/broker.h"
#include "tests/sim/sink.h"

/* A task of the scene `dead`, by the place and key that it replays; one is active at a time. */
struct replay_task {
    struct fake_row row; /* first */
    bool now_active;
    bool old_active;
};

struct replay_tables {
    struct replay_task tasks[BROKER_PARTITIONS_MAX][SIM_CONTENTS + 1];
};

/* The connections of a consumer's submitter: one to the log, one to the writers' side. */
struct held_adapter {
    struct link sink;
    struct link writers;
    struct held_store store;
};

void replays_begin_run(struct replay_tables *tables, struct sim *sim);
void held_adapter_init(struct held_adapter *adapter, struct proc *proc);
void held_adapter_close(struct held_adapter *adapter);

/* Tasks that are active. */
size_t replays_left(const struct sim *sim);

#endif
