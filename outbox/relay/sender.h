/* SPDX-License-Identifier: MIT */
/* The second step of a lane: sends rows in order, many at a time, and sorts out what becomes of
 * them.
 *
 * Acknowledged: to the deleter. Trouble with the broker: nothing more is sent, everything under way
 * is given up and read again in order, after a wait that grows. Refused: when several rows were
 * under way nobody knows yet which one is bad, so they are read again and the refused ones sent one
 * by one; a row refused alone stops its key: it and the key's later rows are handed over to go
 * through the retry queue, in order, until the key has no task there any more (diverted_keys.h).
 *
 * The producer keeps order within a partition even when one of its requests fails; see
 * broker_kafka.c.
 *
 * A relay may be frozen (SIGSTOP, a stopped machine) and wake up after another one has taken the
 * lane. It looks at the clock before each row, so it sends nothing that is still in its hands. What
 * librdkafka and the kernel had taken over by then may still arrive late, and a machine whose clock
 * stood still with it goes on for a part of a lease, until its next beat. Neither breaks the order.
 * Invariant: every relay sends the rows of a key in order and without a hole, beginning at or below
 * the first that is not yet in the topic. So whatever a late relay adds are repeats, or come before
 * their successors: judged by the first record of each id, every key is in order.
 *
 * It holds because a row leaves the table in two ways only. It is deleted when it was acknowledged.
 * Or it is moved into the retry queue: when all before it in its key are acknowledged or moved, and
 * only while the lease is held at the COMMIT; the rows behind it are sent only after a question,
 * asked when the last moved one was committed, found no task of the key. Keys are known before the
 * first row is sent under a lease, and rows are taken from a snapshot only in which the lease was
 * held: what others moved after that is in our hands, too.
 *
 * That is why nothing may make a hole: no record has a time-out of its own, and after a failure the
 * producer is thrown away with all that it holds; and when rows on their way into the retry queue
 * are given up, everything is given up and read again from the first row on. The sender's
 * thread. */
#ifndef OUTBOX_RELAY_SENDER_H
#define OUTBOX_RELAY_SENDER_H

#include "common/backoff.h"
#include "common/err.h"
#include "outbox/relay/flight.h"
#include "outbox/relay/lane.h"
#include "outbox/relay/relay_ops.h"
#include "outbox/relay/topics.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SENDER_NAME_SIZE 65
#define SUSPECTS_MAX 1024

struct suspects {
    int64_t seqs[SUSPECTS_MAX]; /* ascending */
    size_t count;
};

struct sender {
    struct lane *lane;
    struct broker broker;
    struct topics topics;
    struct suspects suspects;
    struct flight flight;
    struct breaker breaker;
    uint64_t rng;

    struct relay_batch *batch; /* in hand, or NULL */
    struct seqs *acks;         /* being filled, or NULL */
    struct seqs *drops;
    int64_t epoch;       /* of the batches it sends; 0: none yet */
    uint64_t generation; /* of the diverted keys; 0: not known under this lease yet */
    uint64_t scan;
    int64_t pause_until_ms;

    size_t open;                       /* rows in flight without a report */
    size_t failed;                     /* reported with trouble */
    size_t refused;                    /* reported as refused */
    bool alone;                        /* what is in flight was sent alone */
    char alone_name[SENDER_NAME_SIZE]; /* its key, for people */
    struct relay_move alone_move;      /* and what it is handed over as, if it is refused */
    struct relay_move move;            /* the one at hand */
    bool handed;                       /* some were handed over in this step */
    bool finished;                     /* the producer is */
    struct err report;                 /* why it drains */
    struct err hint; /* what the producer told of trouble that may explain a silence */

    bool draining;
    bool purged;
    bool penalty;   /* the drain ends with a wait */
    bool keys_full; /* the drain was caused by too many diverted keys */
    bool anew;      /* or by rows that did not get into the retry queue */
    int64_t drain_until_ms;
};

/* RC_FATAL: no memory. lane is borrowed. seed: 64 random bits. */
enum rc sender_init(struct sender *sender, struct lane *lane, const struct broker *broker,
                    uint64_t seed, struct err *err);
void sender_done(struct sender *sender);

/* A loop_step. */
int64_t sender_step(void *sender, int64_t now_ms);

/* Rows of a batch that the broker refused: one of them is bad, the others may be good. Each is sent
 * alone once. Bounded: what finds no room is sent as before and, if it is refused again, suspected
 * then. Pure; for sender.c and its tests. */
void suspects_add(struct suspects *suspects, int64_t seq);
bool suspects_has(const struct suspects *suspects, int64_t seq);
void suspects_remove(struct suspects *suspects, int64_t seq);

#endif
