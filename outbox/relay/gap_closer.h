/* SPDX-License-Identifier: MIT */
/* Decides when a missing seq will not come any more. A locking read has to find neither a row nor
 * an open writer in the gap, and
 * - where the account may see them: every transaction that was open one second after the gap was
 *   first seen has ended (by then whoever reserved the seq has written a row, or is not going to);
 * - where other nodes of a cluster write, too: the gap is as old as such a transaction may become;
 * - else, or when some transaction of others stays open for very long: the gap is old enough.
 * Closing one wrongly only delays its row until the next sweep. Pure but for its seam; the reader's
 * thread. */
#ifndef OUTBOX_RELAY_GAP_CLOSER_H
#define OUTBOX_RELAY_GAP_CLOSER_H

#include "common/err.h"
#include "outbox/relay/gaps.h"
#include "outbox/relay/relay_seam.h"

#include <stddef.h>
#include <stdint.h>

struct gap_closer {
    int64_t gap_wait_ms;
    int64_t gap_wait_multi_ms;
    bool several_nodes;      /* other servers write, whose transactions cannot be seen */
    int64_t writers_at_ms;   /* when to ask for open transactions again */
    int64_t writers_seen_ms; /* when the newest answer was asked for */
    int64_t probe_at_ms;     /* when the next probe may be made */
    size_t probe_count;      /* gaps probed with one statement: grows while all goes well */
    bool writers_known;
};

void gap_closer_init(struct gap_closer *closer, int64_t gap_wait_ms, int64_t gap_wait_multi_ms);

/* Makes at most one question and one probe and closes what may be closed; *closed counts gaps. */
enum rc gap_closer_step(struct gap_closer *closer, struct gaps *gaps, const struct source *source,
                        int64_t now_ms, size_t *closed, struct err *err);

#endif
