/* SPDX-License-Identifier: MIT */
/* The keeper of a stream lane, its third step instead of deleter.h: saves the position up to which
 * all rows are done together with the seqs or ids of these rows, and runs the diverter. It deletes
 * nothing: acknowledged rows go straight back to the reader, and stream_cleaner.h deletes them
 * later.
 *
 * Invariant R13: when a position is saved, the seqs or ids of all rows before it were saved with it
 * or earlier (test_stream_keeper, test_stream_lane). The deleter's thread. */
#ifndef OUTBOX_RELAY_STREAM_STREAM_KEEPER_H
#define OUTBOX_RELAY_STREAM_STREAM_KEEPER_H

#include "common/backoff.h"
#include "common/condition.h"
#include "common/err.h"
#include "outbox/relay/diverter.h"
#include "outbox/relay/lane.h"
#include "outbox/relay/relay_ops.h"
#include "outbox/relay/stream/position_store.h"

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
    int64_t wait_until_ms;     /* after a failure: when to try again */
    int64_t saved_ms;          /* when a position was saved last */
    int64_t checked_ms;        /* when the log at that position was looked at */
    struct condition log_kept; /* a check: the server keeps the log at the position */

    /* What is being saved, until it is saved or the lane begins again. */
    uint64_t saving; /* number of the offer; 0: none */
    uint64_t saving_begins;
    struct stream_position position; /* or saved last */
    int64_t position_row;
    int64_t position_epoch;
    int64_t *seqs; /* sorted */
    size_t seq_count;
    struct published_id *ids;
    size_t id_count;
    bool emptied;

    pthread_mutex_t lock; /* guards the fields below */
    uint64_t begins;      /* number of calls of stream_keeper_begin() */
    struct stream_position offered;
    int64_t offered_row; /* the last row before it */
    int64_t offered_epoch;
    bool at_once;     /* save it now */
    uint64_t offers;  /* number of the last offer */
    uint64_t settled; /* the last offer that was saved, or dropped because the lease was lost */
    uint64_t saved;   /* the last one that was saved */
    int64_t saved_row;
    int64_t *done; /* seqs of rows that are done, for the next position that is saved */
    size_t done_count;
    size_t done_offered;           /* those of them that belong to the last offer */
    struct published_id *done_ids; /* of rows without a seq; NULL: ids are not saved */
    size_t done_id_count;
    size_t done_ids_offered;
    size_t done_max;   /* of both together; 0: nothing is saved */
    bool done_emptied; /* the rows that were saved before are to be forgotten */
};

/* As deleter_init(). RC_FATAL is not returned: it owns no memory at first. */
void stream_keeper_init(struct stream_keeper *keeper, struct lane *lane,
                        const struct position_store *positions,
                        const struct diverter_ops *diverter_ops, uint64_t seed);

/* Makes it save the seqs of up to rows_max rows with a position, and with_ids the ids of rows
 * without a seq. RC_FATAL: no memory. */
enum rc stream_keeper_save_rows(struct stream_keeper *keeper, size_t rows_max, bool with_ids,
                                struct err *err);

/* Accepts a zeroed keeper. */
void stream_keeper_done(struct stream_keeper *keeper);

/* For the reader: it begins at a saved position, and forgets all rows. So does the keeper. */
void stream_keeper_begin(struct stream_keeper *keeper);

/* For the reader, while it holds the lease of its last offer: whether so many rows can be added. If
 * not, the keeper saves at once. */
bool stream_keeper_has_room(struct stream_keeper *keeper, size_t count);

/* For the reader: the rows with these seqs are done, or those with these ids where a seq is not
 * above 0; ids may be NULL, and rows without both are ignored. There is room. The next position
 * that is saved has them, of whichever offer. */
void stream_keeper_add(struct stream_keeper *keeper, const int64_t *seqs,
                       const struct published_id *ids, size_t count);

/* For the reader: the table was emptied, and the rows added so far were in it. They and all that
 * were saved are forgotten when the next position is saved: later rows may have their seqs. */
void stream_keeper_note_emptied(struct stream_keeper *keeper);

/* For the reader: all rows before this position are done, and `row` is the last of them. The
 * position is copied, and replaces one that was not saved yet. Returns false when memory is
 * exhausted; the rows that were added since the last offer are dropped. */
bool stream_keeper_offer(struct stream_keeper *keeper, const struct stream_position *position,
                         int64_t row, int64_t epoch, bool at_once);

/* For the reader: whether the last position that was offered is saved; or was dropped, because the
 * lease was lost. */
bool stream_keeper_is_saved(struct stream_keeper *keeper);
bool stream_keeper_is_settled(struct stream_keeper *keeper);

/* Runs one step. Returns in how many ms the next one is due. It has the type of a loop_step. */
int64_t stream_keeper_step(void *keeper, int64_t now_ms);

#endif
