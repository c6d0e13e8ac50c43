/* SPDX-License-Identifier: MIT */
/* The rows of the producer's two tables, and a vote with its answer. Pure data. */
#ifndef PRODUCER_VOTE_VOTE_ROW_H
#define PRODUCER_VOTE_VOTE_ROW_H

#include "common/id.h"

#include <stdbool.h>
#include <stdint.h>

/* A row of vote_count. */
struct vote_count_row {
    int64_t content_id;
    int64_t votes; /* 0 when not found */
    bool found;
    bool wanted;  /* must exist: the batch holds a vote for it */
    bool changed; /* by this batch, and must be written */
};

/* A row of vote_state. */
struct vote_state_row {
    int64_t voter_id;
    int64_t content_id;
    int64_t version;    /* changes so far */
    struct id event_id; /* of the last change */
    uint8_t voting;     /* 1 votes for it, 0 took the vote back */
    bool found;
    bool changed;
};

enum vote_outcome {
    VOTE_OPEN,    /* nothing is known to be committed */
    VOTE_DONE,    /* committed; the answer is final */
    VOTE_REFUSED, /* the database refuses this vote; nothing of it was written */
};

/* One vote and its answer. */
struct vote_item {
    int64_t voter_id;    /* 1..2^63-1, as content_id */
    int64_t content_id;  /* the event's key */
    const char *headers; /* of the event: JSON object or NULL; borrowed until the end */
    uint8_t voting;      /* 0 or 1 */

    /* The answer, once the outcome is VOTE_DONE. */
    enum vote_outcome outcome;
    bool changed;       /* false: the vote was the same already, and there is no new event */
    bool has_event;     /* false: a vote that never existed was taken back */
    struct id event_id; /* the event of the last change */
    int64_t votes;      /* exact total of the content right after this vote */

    /* Not 0: the transaction of this number should have committed the answer above, and its outcome
     * is unknown. Only for the engine. */
    uint64_t unknown;
};

#endif
