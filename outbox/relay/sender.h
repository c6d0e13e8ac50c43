/* SPDX-License-Identifier: MIT */
/* The sender, the second step of a lane. It sends rows in order, many at a time, and handles the
 * result of each row:
 * - Acknowledged: the row is passed to the deleter.
 * - The broker failed: the sender stops sending, returns all rows in flight to the reader, waits
 * for a time that grows with each failure, and the rows are read and sent again in order.
 * - Refused: if several rows were in flight, the refusal does not show which of them is bad. They
 * are returned and read again, and each refused one is sent as a single record. If a single record
 * is refused, its key is diverted: the row and the key's later rows are moved into the retry queue,
 *   in order, until the key has no task there any more (diverted_keys.h).
 * While the lease drains, the sender of a table's lane waits for the reports of the rows in flight
 * and returns all others. That of a stream lane first sends the rows of the batches that it has
 * (test_stream_lane), unless the broker fails.
 *
 * The producer keeps the order within a partition even if one of its requests fails; see
 * broker_kafka.c.
 *
 * A relay may be stopped (SIGSTOP, a suspended machine) and continue after another relay has taken
 * the lane. Invariant R4: the sender checks the clock before each row, so after the end of the
 * lease it sends no row that it had read before (mutants lease-not-checked, lease-checked-per-step;
 * test_relay_lease). Records that librdkafka and the kernel had accepted may still arrive late, and
 * if the clock of the machine was stopped, too, the relay sends until its next heartbeat, for less
 * than one lease. Neither breaks the order:
 *
 * Invariant: every relay sends the rows of a key in order and without a hole, beginning at or below
 * the first row that is not yet in the topic. So a record of a late relay is a repeat or
 * arrives before all later events of its key: by the first record of each id, every key is in
 * order. This follows from:
 * - R3: a row is deleted only after it was acknowledged (mutant delete-before-ack).
 * - R6: a row is moved into the retry queue only when all earlier rows of its key are acknowledged
 * or moved (mutant moved-before-ack), and only if the lease is held at the COMMIT.
 * - R7: later rows of the key are sent only after a query that was sent after the last move had
 * been committed found no task of the key.
 * - R8: the diverted keys are loaded before the first row is sent under a lease (mutant
 *   keys-not-loaded), and rows are used only from a snapshot in which the lease was held. If
 * another relay moved rows after that snapshot, this relay holds those rows, too.
 * - No record may be skipped: a record has no time-out of its own; after a failure the producer is
 *   destroyed with all its records; and if rows queued for the retry queue are abandoned, all rows
 *   are returned and the table is read again from its first row.
 * The sender's thread. */
#ifndef OUTBOX_RELAY_SENDER_H
#define OUTBOX_RELAY_SENDER_H

#include "common/backoff.h"
#include "common/err.h"
#include "outbox/relay/exact/commits.h"
#include "outbox/relay/flight.h"
#include "outbox/relay/lane.h"
#include "outbox/relay/relay_ops.h"
#include "outbox/relay/suspects.h"
#include "outbox/relay/topics.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SENDER_NAME_SIZE 65

struct sender {
    struct lane *lane;
    struct broker broker;
    struct topics topics;
    struct suspects suspects;
    struct flight flight;
    struct breaker breaker;
    struct commits commits; /* of a lane that publishes exactly once */
    uint64_t rng;

    struct relay_batch *batch; /* being sent, or NULL */
    struct seqs *acks;         /* acknowledged rows, being filled, or NULL */
    struct seqs *drops;        /* rows for the reader, being filled, or NULL */
    int64_t epoch;             /* of the batches that it sends; 0: none */
    uint64_t generation;       /* of the diverted keys; 0: not loaded under this lease */
    uint64_t scan;             /* number of the full scan of the batch */
    int64_t pause_until_ms;    /* after too many diverted keys; 0: no pause */

    size_t unreported;                  /* rows in flight without a report */
    size_t failed;                      /* reported as failed */
    size_t refused;                     /* reported as refused */
    bool single;                        /* the flight is one row, sent as a single record */
    char single_name[SENDER_NAME_SIZE]; /* its key, for the log */
    struct relay_move single_move;      /* its move, if it is refused; owns the copy of its row */
    struct relay_move move;             /* of the row being handled, which is queued or forgotten */
    bool moves_queued;                  /* rows were queued for the diverter in this step */
    bool producer_failed;               /* the producer has failed and must be reset */
    struct err drain_err;               /* reason of the drain */
    struct err producer_err;            /* last error of the producer, for a missing report */

    bool draining;          /* no row is sent; all rows are to be returned to the reader */
    bool purged;            /* the records in flight were cancelled */
    bool penalty;           /* the circuit breaker opens after the drain */
    bool keys_full;         /* too many diverted keys caused the drain */
    bool reload_keys;       /* abandoned moves caused it: load the keys again */
    int64_t drain_until_ms; /* the drain waits for reports until this time */
};

/* Initialises the sender. lane is borrowed until sender_done(), broker is copied; seed is 64 random
 * bits. Returns RC_FATAL when memory is exhausted; the sender then owns no memory. */
enum rc sender_init(struct sender *sender, struct lane *lane, const struct broker *broker,
                    uint64_t seed, struct err *err);

/* Frees the memory. A zeroed sender is allowed. */
void sender_done(struct sender *sender);

/* Runs one step: handles reports and sends up to STEP_ROWS_MAX rows, or continues a drain. Returns
 * in how many ms the next step is due. It has the type of a loop_step. */
int64_t sender_step(void *sender, int64_t now_ms);

#endif
