/* SPDX-License-Identifier: MIT */
/* The pump of a stream lane: fills batches from the stream. Reading waits for bytes of the server,
 * so it has a thread of its own, and the reader (stream_reader.h) never waits.
 *
 * The reader tells the pump from which position to read. Each such order has a number, its term,
 * and so has each batch and each failure: what belongs to an earlier term is out of date. A batch
 * goes empty from the reader to the pump and filled back, through one ring each. */
#ifndef OUTBOX_RELAY_STREAM_STREAM_PUMP_H
#define OUTBOX_RELAY_STREAM_STREAM_PUMP_H

#include "common/err.h"
#include "common/ring.h"
#include "outbox/relay/relay_row.h"
#include "outbox/relay/stream/stream_batches.h"
#include "outbox/relay/stream/stream_ops.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A batch of rows that are committed. */
struct pump_batch {
    struct relay_batch *rows; /* may be empty: then only the position has moved */
    struct stream_position after;
    uint64_t term;
    bool at_end;  /* the stream had nothing more when the batch was filled */
    bool emptied; /* behind its rows the table was emptied; see stream_ops.h */
};

struct stream_pump {
    struct stream_ops ops;
    struct stream_batches batches;
    struct ring empty;                    /* reader to pump */
    struct ring filled;                   /* pump to reader */
    void (*wake)(void *ctx, bool reader); /* wakes the reader, or else the pump */
    void *wake_ctx;
    size_t rows_enough;

    pthread_mutex_t lock; /* guards the fields up to err */
    uint64_t term;        /* of the last order */
    bool wanted;          /* it says to read */
    bool stopping;
    struct stream_position from;
    uint64_t failed_term; /* of the last failure; 0: none */
    enum rc failed_rc;
    bool failed_purged; /* the server has purged the log at the position */
    struct err err;

    /* The pump's thread. */
    uint64_t own_term; /* of the order that it carries out */
    bool reads;        /* the stream is open */
    struct pump_batch *batch;
    struct stream_position start;
    int64_t given_ms;  /* when a batch was given to the reader last */
    bool given_at_end; /* its at_end */
};

/* Borrows ops. rows_max and bytes: those of the batches. RC_FATAL: no memory, and nothing is owned.
 */
enum rc stream_pump_init(struct stream_pump *pump, const struct stream_ops *ops, size_t rows_max,
                         size_t bytes, struct err *err);

/* Accepts a zeroed one. No thread uses it any more. */
void stream_pump_done(struct stream_pump *pump);

/* For the reader: orders to read from a position, and forgets what was read before. The position is
 * copied. RC_FATAL: no memory for it. */
enum rc stream_pump_read(struct stream_pump *pump, const struct stream_position *from,
                         struct err *err);

/* For the reader: orders to close the stream. */
void stream_pump_close(struct stream_pump *pump);

/* For the reader: takes the failure of the present order, and whether it is that the server has
 * purged the log at the position. The pump then waits for the next order. */
bool stream_pump_failed(struct stream_pump *pump, enum rc *rc, bool *purged, struct err *err);

/* Returns the next filled batch of the present order, or NULL. It stays in the ring until
 * stream_pump_take(). For the reader. */
struct pump_batch *stream_pump_peek(struct stream_pump *pump);
struct pump_batch *stream_pump_take(struct stream_pump *pump);

/* For the reader: gives a batch to be filled. */
void stream_pump_give(struct stream_pump *pump, struct pump_batch *batch);

/* Ends the thread at its next step, also while it waits for the server. Any thread. */
void stream_pump_stop(struct stream_pump *pump);

/* A step of its thread, a loop_step. Waits for the server as long as ops do. */
int64_t stream_pump_step(void *pump, int64_t now_ms);

#endif
