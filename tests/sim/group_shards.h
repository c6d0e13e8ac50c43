/* SPDX-License-Identifier: MIT */
/* The shards of the group that all tasks of a run belong to (retry_group.shards): an operator
 * changes the list at random, and a model maps shards by itself. Promise: a process claims tasks of
 * the group only while it holds the shard to which the list that it has read last maps theirs. */
#ifndef TESTS_SIM_GROUP_SHARDS_H
#define TESTS_SIM_GROUP_SHARDS_H

#include "outbox/retry/retry_ops.h"
#include "tests/sim/sim.h"

#include <stdbool.h>
#include <stdint.h>

#define GROUP_LISTS_MAX 256

struct task_adapter;

struct group_list {
    unsigned bits; /* 0: all shards */
    bool bad;      /* it is no list: the group is closed */
    char text[RETRY_GROUP_SHARDS_SIZE];
    int64_t ended_ms; /* when another list replaced it */
};

struct group_shards {
    struct group_list lists[GROUP_LISTS_MAX];
    size_t newest;
};

void group_shards_begin_run(struct group_shards *shards);
/* Begins to change the list if the plan says so. */
void group_shards_start(struct sim *sim);
/* From now on the list is one that can be read, and stays as it is. */
void group_shards_heal(struct sim *sim);

/* The shards that retry.shards fixes for a process, so that all processes together have each. */
void group_shards_fix(const struct sim *sim, size_t process, char *text, size_t size);

/* The process is about to claim from the class. */
void group_shards_check(const struct task_adapter *adapter, const struct task_class *class);

#endif
