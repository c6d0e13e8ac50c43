/* SPDX-License-Identifier: MIT */
/* What the vote engine needs of a database. Between begin() and commit() or rollback() all calls
 * belong to one transaction; RC_RETRY and RC_FATAL end it. One thread at a time. */
#ifndef PRODUCER_VOTE_VOTE_OPS_H
#define PRODUCER_VOTE_VOTE_OPS_H

#include "common/err.h"
#include "outbox/outbox.h"
#include "producer/vote/vote_row.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct vote_store {
    void *ctx;

    /* RC_OK: the database would accept a transaction now. Only outside of one. */
    enum rc (*ping)(void *ctx, struct err *err);

    enum rc (*begin)(void *ctx, struct err *err);

    /* Locks the rows of counts[] (sorted by content_id, each once) in that order until the end of
     * the transaction, and fills votes and found. */
    enum rc (*lock_counts)(void *ctx, struct vote_count_row *counts, size_t count, struct err *err);

    /* Locks, in the same order, the rows that are found or wanted, and makes the missing ones with
     * 0 votes. It is the first call of its transaction. */
    enum rc (*make_counts)(void *ctx, const struct vote_count_row *counts, size_t count,
                           struct err *err);

    /* Fills states[] (sorted by voter_id, content_id, each once) with the committed rows, and
     * *now_ms with the clock of the database, in ms since 1970. */
    enum rc (*read_states)(void *ctx, struct vote_state_row *states, size_t count, int64_t *now_ms,
                           struct err *err);

    /* Write the rows that are `changed`; append events to the outbox table `lane`. */
    enum rc (*write_states)(void *ctx, const struct vote_state_row *states, size_t count,
                            struct err *err);
    enum rc (*write_counts)(void *ctx, const struct vote_count_row *counts, size_t count,
                            struct err *err);
    enum rc (*append)(void *ctx, const char *lane, const struct outbox_event *events, size_t count,
                      struct err *err);

    /* RC_RETRY: it is unknown whether the transaction was committed. */
    enum rc (*commit)(void *ctx, struct err *err);
    void (*rollback)(void *ctx);

    /* After RC_RETRY. True: a collision with another transaction (deadlock, lock time-out). False:
     * the server cannot be reached or does not take writes. */
    bool (*collided)(void *ctx, const struct err *err);
};

#endif
