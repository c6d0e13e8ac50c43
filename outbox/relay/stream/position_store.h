/* SPDX-License-Identifier: MIT */
/* The ops through which the relay keeps the position of a lane that reads the binary log. An
 * adapter fills them from the tables relay_position, relay_published and relay_published_id, tests
 * from a model. load, begin and check_log belong to the reader's thread, save to one other thread;
 * both may call at the same time.
 *
 * RC_RETRY: try again later. RC_FATAL: an operator has to act. */
#ifndef OUTBOX_RELAY_STREAM_POSITION_STORE_H
#define OUTBOX_RELAY_STREAM_POSITION_STORE_H

#include "common/err.h"
#include "outbox/relay/stream/published_ids.h"
#include "outbox/relay/stream/stream_ops.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Rows of the table that are done. */
struct done_rows {
    const int64_t *seqs; /* above 0, ascending and without repeats */
    size_t seq_count;
    const struct published_id *ids; /* of rows without a seq; each is set */
    size_t id_count;
    bool emptied; /* the table was emptied since the last save: all rows that were saved before are
                     forgotten */
};

struct position_store {
    void *ctx;
    /* Accepts the next database that a connection of the lane meets (origin_mysql.h). The lane
     * holds no row. Any connection of the lease may be the first, so this comes before it waits for
     * anything. NULL: there is only one. */
    void (*accept)(void *ctx);
    /* Reads the position of the lane. *found is false when none was saved; then, and after a
     * failure, the position is empty but for its server. Otherwise its epoch is set, too. The
     * memory of position->before is used again. RC_FATAL also when the position is a place in the
     * log of another server, or the lane goes on from its table and this process may not let it. */
    enum rc (*load)(void *ctx, struct stream_position *position, bool *found, struct err *err);
    /* Reads by what rows of the table that are done are known. RC_FATAL also when there is no table
     * yet. On the thread of load. */
    enum rc (*kind)(void *ctx, enum published_kind *kind, struct err *err);
    /* Saves the position and, in the same transaction, that these rows are done, if this instance
     * holds the lane's lease with this epoch; otherwise saves nothing and sets *fenced. After
     * RC_RETRY it is unknown whether all is saved, or what is forgotten: repeating it is harmless.
     */
    enum rc (*save)(void *ctx, const struct stream_position *position, const struct done_rows *rows,
                    int64_t epoch, bool *fenced, struct err *err);
    /* Writes where the log ends now, for a lane without a position, and saves nothing. The server
     * is set, too. RC_FATAL, with a text that says what to do, when the table has rows: they may
     * not be published yet. RC_RETRY also while a transaction that wrote into the table is open. */
    enum rc (*begin)(void *ctx, struct stream_position *position, struct err *err);
    /* Checks that the server has all transactions before the position, which was loaded from
     * elsewhere. RC_REJECT: it does not have them. NULL: it is not known. */
    enum rc (*check_log)(void *ctx, const struct stream_position *position, struct err *err);
    /* Tells whether the server has deleted the log at the position, or will do so within hours:
     * *risk is the reason, with an empty text if there is none. On the thread of save. RC_OK, or it
     * is not known, as without the privilege for it. NULL: it is never known. */
    enum rc (*find_risk)(void *ctx, const struct stream_position *position, struct err *risk,
                         struct err *err);
};

#endif
