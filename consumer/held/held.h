/* SPDX-License-Identifier: MIT */
/* Decides which votes of a batch are stored in dead_record for a cause that may pass: the votes
 * that the database refuses and, because order is per key, the later votes of the same contents.
 * Such a content is held. Also finds out which votes of a batch are refused. One thread at a time.
 *
 * A held vote differs from a record that can never be applied, which later records pass. It is
 * expected to be applied, so the votes of its content keep their order. The total of a content does
 * not depend on that order (it is a sum), but three things do: the log, the total in each of its
 * rows and, if events need not be changes, which vote of a voter is the last one. */
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
    int64_t *contents; /* the held contents, sorted */
    size_t count;
    size_t size;
    struct buf reasons; /* of the refused votes of the current batch, each ended by a zero byte */
    bool failed;        /* memory ran out */
};

/* A zeroed held is empty. */
void held_done(struct held *held);

/* Reads which contents of the place are held, in the sink's transaction. */
enum rc held_read(struct held *held, const struct sink *sink, const struct place *place,
                  struct err *err);

/* Inserts the votes that are not `skip`, down to one by one, and marks those that the database
 * refuses. The caller rolls the transaction back. *found: how many were refused. */
enum rc held_probe(struct held *held, const struct sink *sink, struct vote_row *rows, size_t count,
                   size_t *found, struct err *err);

/* Marks as `skip` the refused votes, the votes that follow them and all votes of held contents. A
 * tombstone is not held: it ends the tally at once, and a held vote of the content is stale when it
 * is replayed.
 * *marked: how many. RC_FATAL: no memory. */
enum rc held_mark(struct held *held, struct vote_row *rows, size_t count, size_t *marked,
                  struct err *err);

/* The reason for which a vote is stored in dead_record: its class (static) and a sentence. */
const char *held_class(const struct vote_row *row);
const char *held_reason(const struct held *held, const struct vote_row *row);

#endif
