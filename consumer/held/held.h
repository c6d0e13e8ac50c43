/* SPDX-License-Identifier: MIT */
/* Which votes of a batch are kept in dead_record for a cause that may pass, and why: those that the
 * database refuses, and, because order is per key, those of their contents that follow. Decides
 * what follows, and finds out which votes are refused. One thread at a time.
 *
 * Such a vote is not like a record that can never be applied, which its successors pass: it is
 * expected to be applied, so its content's votes stay in the order in which they were made. The
 * total does not depend on that (it is a sum), but the log does, the total of every row in it, and
 * where events need not be changes, which of a voter's votes is the last. */
#ifndef CONSUMER_HELD_HELD_H
#define CONSUMER_HELD_HELD_H

#include "common/buf.h"
#include "common/err.h"
#include "consumer/apply/apply_row.h"
#include "consumer/apply/sink_ops.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct held {
    int64_t *contents; /* that are held, sorted */
    size_t count;
    size_t size;
    struct buf reasons; /* of the refused votes of the batch in hand, each ended by a zero byte */
    bool failed;        /* no memory */
};

/* A zeroed held is empty. */
void held_done(struct held *held);

/* Reads which contents of place are held, in the sink's transaction. */
enum rc held_read(struct held *held, const struct sink *sink, const struct place *place,
                  struct err *err);

/* Marks votes that are not `skip` as refused: those which the log does not take, one by one. In a
 * transaction that is rolled back afterwards. *found: how many. */
enum rc held_probe(struct held *held, const struct sink *sink, struct vote_row *rows, size_t count,
                   size_t *found, struct err *err);

/* Makes `skip` of what is refused, and of what follows it or is of a held content. *kept: how many.
 * RC_FATAL: no memory. */
enum rc held_mark(struct held *held, struct vote_row *rows, size_t count, size_t *kept,
                  struct err *err);

/* Why a vote is kept: the class of its reason (static), and a sentence. */
const char *held_class(const struct vote_row *row);
const char *held_reason(const struct held *held, const struct vote_row *row);

#endif
