/* SPDX-License-Identifier: MIT */
/* The records that Kafka delivers and the rows that they become. Pure data. */
#ifndef CONSUMER_APPLY_APPLY_ROW_H
#define CONSUMER_APPLY_APPLY_ROW_H

#include "schema/vote_event.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TOPIC_SIZE 250 /* Kafka's longest name and a zero byte */
#define TOPIC_ID_SIZE 37
#define OWNER_SIZE 129
#define VOTE_KEY_SIZE 25 /* the longest key of a vote and a zero byte */

/* The offset while nothing is applied: start at the beginning. */
#define OFFSET_BEGINNING (-1)

/* The two classes of dead records whose cause may pass; see held.h. A record of any other class can
 * never be applied unchanged. */
#define REASON_REFUSED "refused"
#define REASON_BEHIND "behind"

/* One partition. The consumer group is that of the process. */
struct place {
    const char *topic;
    int32_t partition;
};

/* One Kafka record. The pointers belong to the stream and are valid until its next call. */
struct record {
    int64_t offset;
    int64_t time_ms; /* ms since 1970; -1: the record has no time */
    /* of the leader that appended it; never falls in a partition; -1: unknown */
    int32_t leader_epoch;
    const void *key; /* NULL: none */
    size_t key_len;
    const void *value; /* NULL: a tombstone; see record_is_end() */
    size_t value_len;
    const void *message; /* for the stream */
};

/* Why a vote is stored in dead_record instead of the log; see held.h. */
enum vote_hold { HOLD_NONE, HOLD_REFUSED, HOLD_BEHIND };

/* A row for vote_document, or a tombstone. */
struct vote_row {
    struct vote_event event; /* of a tombstone: content_id only */
    int64_t offset;
    int64_t votes;
    int64_t content_seq;
    bool ends;  /* a tombstone: the tally of the content ends here */
    bool skip;  /* do not write it: it is in the log already, or stale, or held */
    bool stale; /* skip, because it changes nothing */
    enum vote_hold hold;
    size_t reason_at; /* of HOLD_REFUSED */
};

/* A row of vote_tally. */
struct tally_row {
    int64_t content_id;
    int64_t votes;
    int64_t seq;
    bool found;   /* the row exists, and is locked */
    bool changed; /* votes and seq are new */
    bool ended;   /* no further vote of the content counts */
    bool ends;    /* ended is new */
};

/* A row of vote_last. */
struct last_row {
    int64_t content_id;
    int64_t voter_id;
    int64_t occurred_ms; /* of the last vote, ms since 1970 */
    int voting;
    bool found;   /* the row exists */
    bool changed; /* voting and occurred_ms are new */
};

/* A row of dead_record. */
struct dead_row {
    int64_t offset;
    int64_t time_ms;
    const void *key; /* NULL: none */
    size_t key_len;
    const void *value; /* NULL: none */
    size_t value_len;
    const char *headers; /* JSON: [[name, base64 or null], ...], ASCII */
    size_t headers_len;
    const char *reason_class;
    const char *reason;
    size_t reason_len;
};

/* A row of consumer_progress. */
struct progress_row {
    int64_t next_offset; /* or OFFSET_BEGINNING */
    int32_t leader_epoch;
    int64_t epoch;
    char owner[OWNER_SIZE];
    char topic_id[TOPIC_ID_SIZE]; /* "": unknown */
    /* Not a column: the day since 1970 with which the log began when the row was locked. It does
     * not change before the end of the transaction. */
    int64_t begin_day;
    /* Not a column: the partition had held contents when it was claimed; see held.h. */
    bool holds;
    /* Not a column: the row exists and is locked. */
    bool found;
};

#endif
