/* SPDX-License-Identifier: MIT */
/* The keeper of a stream lane, its third step instead of deleter.h: saves the position up to which
 * all rows are done, and runs the diverter. It deletes nothing: acknowledged rows go straight back
 * to the reader. The deleter's thread. */
#ifndef OUTBOX_RELAY_BINLOG_STREAM_KEEPER_H
#define OUTBOX_RELAY_BINLOG_STREAM_KEEPER_H

#include "common/backoff.h"
#include "common/condition.h"
#include "common/err.h"
#include "outbox/relay/binlog/position_store.h"
#include "outbox/relay/diverter.h"
#include "outbox/relay/lane.h"
#include "outbox/relay/relay_ops.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* A position is saved when it is so old, or when so many rows were done since the last one. So a
 * kill repeats the rows of about this time or this number, and those in flight. */
#define KEEPER_SAVE_MS 1000
#define KEEPER_SAVE_ROWS 10000
/* A position that moved without rows of the lane is saved when it is so old: saving it writes into
 * the log, and moves the position again. */
#define KEEPER_SAVE_IDLE_MS 10000

/* How often the keeper asks whether the server keeps the log at the saved position. */
#define KEEPER_CHECK_MS 30000

struct stream_keeper {
    struct lane *lane;
    struct position_store positions;
    struct diverter diverter;
    struct backoff backoff;
    uint64_t rng;
    int64_t wait_until_ms;           /* after a failure: when to try again */
    int64_t saved_ms;                /* when a position was saved last */
    struct stream_position position; /* being saved, or saved last */
    int64_t checked_ms;              /* when the log at that position was looked at */
    struct condition log_kept;       /* a check: the server keeps the log at the position */

    pthread_mutex_t lock; /* guards the fields below */
    struct stream_position offered;
    int64_t offered_row; /* the last row before it */
    int64_t offered_epoch;
    bool at_once;     /* save it now */
    uint64_t offers;  /* number of the last offer */
    uint64_t settled; /* the last offer that was saved, or dropped because the lease was lost */
    uint64_t saved;   /* the last one that was saved */
    int64_t saved_row;
};

/* As deleter_init(). RC_FATAL is not returned: it owns no memory at first. */
void stream_keeper_init(struct stream_keeper *keeper, struct lane *lane,
                        const struct position_store *positions,
                        const struct diverter_ops *diverter_ops, uint64_t seed);

/* Accepts a zeroed keeper. */
void stream_keeper_done(struct stream_keeper *keeper);

/* For the reader: all rows before this position are done, and `row` is the last of them. The
 * position is copied, and replaces one that was not saved yet. Returns false when memory is
 * exhausted. */
bool stream_keeper_offer(struct stream_keeper *keeper, const struct stream_position *position,
                         int64_t row, int64_t epoch, bool at_once);

/* For the reader: whether the last position that was offered is saved; or was dropped, because the
 * lease was lost. */
bool stream_keeper_is_saved(struct stream_keeper *keeper);
bool stream_keeper_is_settled(struct stream_keeper *keeper);

/* Runs one step. Returns in how many ms the next one is due. It has the type of a loop_step. */
int64_t stream_keeper_step(void *keeper, int64_t now_ms);

#endif
