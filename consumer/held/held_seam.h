/* SPDX-License-Identifier: MIT */
/* What is needed to hand held contents (held.h) to the retry lane: the sink, where they are read,
 * and the writers' side, where tasks are. No transaction spans both, and none stays open between
 * calls. One thread at a time. */
#ifndef CONSUMER_HELD_HELD_SEAM_H
#define CONSUMER_HELD_HELD_SEAM_H

#include "common/err.h"
#include "consumer/apply/apply_row.h"
#include "outbox/retry/retry.h"

#include <stddef.h>
#include <stdint.h>

#define HELD_KEY_SIZE 25
#define HELD_SUBMIT_MAX 100

/* A key that is held, by one of its dead records. */
struct held_key {
    int64_t id; /* of the record */
    char topic[TOPIC_SIZE];
    int32_t partition;
    char key[HELD_KEY_SIZE];
};

struct held_store {
    void *ctx;

    /* Calls on_key for records of the group that are held, with higher ids than after, in the order
     * of their ids, rows_max at most. */
    enum rc (*read_keys)(void *ctx, int64_t after, size_t rows_max,
                         void (*on_key)(void *key_ctx, const struct held_key *key), void *key_ctx,
                         struct err *err);

    /* Submits the tasks, HELD_SUBMIT_MAX at most, all or none. *made: how many of them were not
     * there already. Done twice is as good as once. */
    enum rc (*submit)(void *ctx, const struct retry_new_task *tasks, size_t count, size_t *made,
                      struct err *err);
};

#endif
