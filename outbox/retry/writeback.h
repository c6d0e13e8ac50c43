/* SPDX-License-Identifier: MIT */
/* Decides what becomes of a task after its attempt (done, waiting again, put off, exhausted), tells
 * the circuit breaker of its destination, and writes the results to the table in batches. The rules
 * of the decision are in policy/policy.h. The dispatcher's thread. */
#ifndef OUTBOX_RETRY_WRITEBACK_H
#define OUTBOX_RETRY_WRITEBACK_H

#include "common/condition.h"
#include "common/err.h"
#include "outbox/retry/pool.h"
#include "outbox/retry/retry_ops.h"
#include "outbox/retry/store_calls.h"
#include "outbox/retry/task_slots.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct writeback {
    struct pool *pool;
    struct task_slots *slots;
    const struct retry_store *store; /* only its finish */
    struct store_calls *calls;
    uint64_t *rng;
    struct slot **decided; /* to be written */
    size_t decided_count;
    size_t write_alone; /* so many are written one by one: one of them is refused */
    struct task_update *updates;
    bool *lost;
    bool more_due; /* a result made another task due; the dispatcher clears it */
    struct reasons logged;
};

/* RC_FATAL: no memory. All is borrowed; rng: the state of rng_next(). */
enum rc writeback_init(struct writeback *writeback, struct task_slots *slots,
                       const struct retry_store *store, struct store_calls *calls, uint64_t *rng,
                       struct err *err);
/* A zeroed struct may be passed, too. */
void writeback_done(struct writeback *writeback);

/* Decides what becomes of the task in the slot, by the result of its attempt, and adds it to those
 * to be written. */
void writeback_add(struct writeback *writeback, struct slot *slot, int64_t now_ms);

/* Writes what is decided, and frees its slots. False: something is left to write, not before
 * calls->at_ms[POOL_FINISH]. */
bool writeback_write(struct writeback *writeback, int64_t now_ms);

#endif
