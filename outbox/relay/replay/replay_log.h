/* SPDX-License-Identifier: MIT */
/* The rows of a replay from the binary log of the lane's server: those of the transactions that the
 * lane has published and whose time lies in the period, in the order of the log, so events of a key
 * keep their order. The time of a transaction is that of its GTID in the log: when its COMMIT, or
 * its only statement, began, in whole seconds.
 *
 * A place is one between two transactions, and a number of rows of the table that are committed
 * behind it and done, whether they are selected or not. So it can be said of any row, also within a
 * transaction that is larger than a batch. When the stream is lost, it is opened again at the last
 * place, and the rows that are done are skipped. Memory is that of two batches (stream_batches.h).
 * One thread. */
#ifndef OUTBOX_RELAY_REPLAY_REPLAY_LOG_H
#define OUTBOX_RELAY_REPLAY_REPLAY_LOG_H

#include "common/buf.h"
#include "common/err.h"
#include "outbox/relay/replay/replay_ops.h"
#include "outbox/relay/stream/stream_batches.h"
#include "outbox/relay/stream/stream_ops.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Statements may take long, so that their transaction comes so much later in the log than its time
 * says. */
#define REPLAY_LOG_SLACK_MS INT64_C(3600000)

struct replay_log_options {
    int64_t from_ms; /* since 1970 */
    int64_t to_ms;   /* exclusive */
    const char *key; /* aggregateid; NULL: any */
    const char *type;
    struct replay_log_place after; /* where it begins */
    struct replay_log_at end;      /* of the log, or of what the lane has published */
    size_t rows_max;               /* of a batch */
    size_t batch_bytes;
};

struct replay_log {
    struct replay_log_ops ops;
    struct replay_log_options options;
    struct replay_log_place place;
    struct stream_batches batches;
    struct stream_position start;
    struct stream_position behind; /* the last batch */

    bool open; /* the stream */
    bool complete;
    struct replay_log_at base;       /* of what is read next */
    uint64_t passed;                 /* rows behind base that the stream has given */
    uint64_t skip;                   /* rows behind base that were done when it was opened */
    struct replay_log_at batch_base; /* from which the rows of the last batch are counted, as seq */
};

/* Borrows the texts of options and the ctx of ops until replay_log_done(). RC_FATAL: no memory, and
 * nothing is owned. */
enum rc replay_log_init(struct replay_log *log, const struct replay_log_options *options,
                        const struct replay_log_ops *ops, struct err *err);

/* Accepts a zeroed one. */
void replay_log_done(struct replay_log *log);

/* Valid while the log is. Its rows have the time of their transaction, in ms, as epoch. */
struct replay_source replay_log_source(struct replay_log *log);

/* Finds in which of `count` files, above 0, reading has to begin for rows from this time on: in the
 * last one that was begun REPLAY_LOG_SLACK_MS before it, or in the oldest one. *oldest_ms: when
 * that was begun. *number is set only with RC_OK. RC_REJECT: the oldest one was begun after
 * from_ms. Other failures: those of the op. */
enum rc replay_log_find_file(const struct replay_log_ops *ops, size_t count, int64_t from_ms,
                             size_t *number, int64_t *oldest_ms, struct err *err);

/* "FILE/OFFSET/ROWS@SERVER". */
void replay_log_place_put(const struct replay_log_place *place, struct buf *out);
bool replay_log_place_read(struct replay_log_place *place, const char *text);

#endif
