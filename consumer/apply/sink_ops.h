/* SPDX-License-Identifier: MIT */
/* What the applying engine needs of a database. All calls between begin() and commit() or
 * rollback() belong to one transaction; RC_RETRY and RC_FATAL end it. RC_REJECT: the database
 * refuses the data, and a repeat would fail too. One thread at a time. */
#ifndef CONSUMER_APPLY_SINK_OPS_H
#define CONSUMER_APPLY_SINK_OPS_H

#include "common/err.h"
#include "consumer/apply/apply_row.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sink {
    void *ctx;

    /* Checks whether the database accepts writes. Outside of a transaction. */
    enum rc (*ping)(void *ctx, struct err *err);

    /* Changes with every new connection, which may lead to a database that lost committed
     * transactions. May be NULL. */
    uint64_t (*session)(void *ctx);

    enum rc (*begin)(void *ctx, struct err *err);

    /* Inserts the row of place if it does not exist (nothing applied, no owner, epoch 0), locks it
     * and fills progress. The beginning of the log does not move before the end of the
     * transaction. */
    enum rc (*make_progress)(void *ctx, const struct place *place, struct progress_row *progress,
                             struct err *err);

    /* Locks the rows of places[] (each place once) in the order of their keys and fills rows[] as
     * above; `found` tells which of them exist. */
    enum rc (*lock_progress)(void *ctx, const struct place *places, struct progress_row *rows,
                             size_t count, struct err *err);

    /* Locks the beginning of the log until the end of the transaction and stores its day since
     * 1970. */
    enum rc (*lock_log_begin)(void *ctx, int64_t *begin_day, struct err *err);

    /* Writes epoch, owner and topic_id into the locked row. */
    enum rc (*own_progress)(void *ctx, const struct place *place,
                            const struct progress_row *progress, struct err *err);

    /* Writes next_offset and leader_epoch into the locked rows. */
    enum rc (*move_progress)(void *ctx, const struct place *places, const struct progress_row *rows,
                             size_t count, struct err *err);

    /* Locks the rows of tallies[] (sorted by content_id, each once) in that order and fills votes,
     * seq, ended and found. */
    enum rc (*lock_tallies)(void *ctx, struct tally_row *tallies, size_t count, struct err *err);

    /* Inserts the rows that are not `found`, in order, with 0 votes and seq 0. */
    enum rc (*make_tallies)(void *ctx, const struct tally_row *tallies, size_t count,
                            struct err *err);

    /* Writes the rows that are `changed`. */
    enum rc (*write_tallies)(void *ctx, const struct tally_row *tallies, size_t count,
                             struct err *err);

    /* Stores that the tallies of the rows with `ends` end now. A tally that has ended keeps its
     * time. */
    enum rc (*end_tallies)(void *ctx, const struct tally_row *tallies, size_t count,
                           struct err *err);

    /* Fills voting, occurred_ms and found of lasts[] (sorted by content_id and voter_id, each
     * once). The locks on the tallies of their contents keep them unchanged. */
    enum rc (*read_lasts)(void *ctx, struct last_row *lasts, size_t count, struct err *err);

    /* Writes the rows that are `changed`. */
    enum rc (*write_lasts)(void *ctx, const struct last_row *lasts, size_t count, struct err *err);

    /* Appends the rows that are not `skip` to the log. *duplicate: an event is in the log already,
     * or twice among the rows; some rows may be written, so roll back. */
    enum rc (*insert_votes)(void *ctx, const struct vote_row *rows, size_t count, bool *duplicate,
                            struct err *err);

    /* Calls on_found for each row that is not `skip` and whose event is in the log on one of the
     * days of these rows. */
    enum rc (*find_events)(void *ctx, const struct vote_row *rows, size_t count,
                           void (*on_found)(void *found_ctx, const struct id *event_id),
                           void *found_ctx, struct err *err);

    /* Stores a dead record. The same record twice at one place is one row. RC_REJECT: the place has
     * another record. *id (may be NULL) becomes the id of the new row, 0 if it existed. */
    enum rc (*insert_dead)(void *ctx, const struct place *place, const struct dead_row *dead,
                           int64_t *id, struct err *err);

    /* Calls on_content, once or more, for the content of each record of place that is dead for a
     * cause that may pass (REASON_REFUSED, REASON_BEHIND). In a transaction. */
    enum rc (*read_held)(void *ctx, const struct place *place,
                         void (*on_content)(void *content_ctx, int64_t content_id),
                         void *content_ctx, struct err *err);

    /* Counts the dead records of place, up to max. */
    enum rc (*count_dead)(void *ctx, const struct place *place, int64_t max, int64_t *count,
                          struct err *err);

    /* RC_RETRY: the result of the COMMIT is unknown. */
    enum rc (*commit)(void *ctx, struct err *err);
    void (*rollback)(void *ctx);
};

#endif
