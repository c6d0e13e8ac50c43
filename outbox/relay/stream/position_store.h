/* SPDX-License-Identifier: MIT */
/* The ops through which the relay keeps the position of a lane that reads the binary log. An
 * adapter fills them from the tables relay_position and relay_published, tests from a model. load
 * and begin belong to the reader's thread, save to one other thread; both may call at the same
 * time.
 *
 * RC_RETRY: try again later. RC_FATAL: an operator has to act. */
#ifndef OUTBOX_RELAY_STREAM_POSITION_STORE_H
#define OUTBOX_RELAY_STREAM_POSITION_STORE_H

#include "common/err.h"
#include "outbox/relay/stream/stream_ops.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct position_store {
    void *ctx;
    /* Reads the position of the lane. *found is false when none was saved; then, and after a
     * failure, the position is empty. The memory of position->before is used again. RC_FATAL also
     * when the position is a place in the log of another server. */
    enum rc (*load)(void *ctx, struct stream_position *position, bool *found, struct err *err);
    /* Saves the position and, in the same transaction, that the rows with these seqs of the table
     * are done, if this instance holds the lane's lease with this epoch; otherwise saves nothing
     * and sets *fenced. seqs are above 0, ascending and without repeats. After RC_RETRY it is
     * unknown whether all is saved: repeating it is harmless. */
    enum rc (*save)(void *ctx, const struct stream_position *position, const int64_t *seqs,
                    size_t seq_count, int64_t epoch, bool *fenced, struct err *err);
    /* Writes where the log ends now, for a lane without a position, and saves nothing. RC_FATAL,
     * with a text that says what to do, when the table has rows: they may not be published yet.
     * RC_RETRY also while a transaction that wrote into the table is open. */
    enum rc (*begin)(void *ctx, struct stream_position *position, struct err *err);
    /* Tells whether the server has deleted the log at the position, or will do so within hours:
     * *risk is the reason, with an empty text if there is none. On the thread of save. RC_OK, or it
     * is not known, as without the privilege for it. NULL: it is never known. */
    enum rc (*find_risk)(void *ctx, const struct stream_position *position, struct err *risk,
                         struct err *err);
};

#endif
