/* SPDX-License-Identifier: MIT */
/* Batches of several partitions on their way into one transaction. Decides which batches may share
 * one: each is of another partition, and none is whole or has dead records, which are looked at
 * partition by partition. Pure; one thread at a time. */
#ifndef CONSUMER_APPLY_APPLY_GROUP_H
#define CONSUMER_APPLY_APPLY_GROUP_H

#include "consumer/apply/apply_row.h"
#include "consumer/ingest/batch.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define APPLY_GROUP_MAX 16

struct apply_group {
    size_t count;
    struct batch *batches[APPLY_GROUP_MAX];
    struct place places[APPLY_GROUP_MAX];
    int64_t epochs[APPLY_GROUP_MAX];               /* with which they are claimed */
    struct progress_row progress[APPLY_GROUP_MAX]; /* as the last try has found it */
};

/* Takes the batch in; an empty group takes any. False: it cannot share this group's transaction, or
 * there would be more than rows_max votes. */
bool apply_group_add(struct apply_group *group, size_t rows_max, const struct place *place,
                     int64_t epoch, struct batch *batch);

/* The votes of all batches from where the partitions' progress ends, those of one partition in
 * their order. A group of one gives its own rows, and the others are `skip` in it; else they are
 * copied into rows, which has room for all. */
struct vote_row *apply_group_rows(struct apply_group *group, struct vote_row *rows, size_t *count);

#endif
