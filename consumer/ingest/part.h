/* SPDX-License-Identifier: MIT */
/* The state of one partition in the fetching step. Kafka assigns the partition, an applier claims
 * it in the database, the stream seeks to the claimed offset, and then records are read. Decides
 * when the next of these steps is due. A batch is `whole` if it keeps the bytes of the votes'
 * records (batch.h). Only the fetching step uses this module, except for the fields that struct
 * holding shares. */
#ifndef CONSUMER_INGEST_PART_H
#define CONSUMER_INGEST_PART_H

#include "common/err.h"
#include "consumer/ingest/batch.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum part_state {
    PART_IDLE,     /* not assigned to this process */
    PART_WAITING,  /* assigned; to be claimed at retry_ms */
    PART_CLAIMING, /* the claim is with the applier */
    PART_CLAIMED,  /* claimed; the stream must seek to position at retry_ms */
    PART_RUNNING,  /* records are read and applied */
};

#define PART_SENT_MAX 2

struct part {
    struct holding holding; /* must be first: see part_of() */
    char topic[TOPIC_SIZE];
    enum part_state state;
    void *handle; /* of the stream */
    size_t link;  /* index of the applier */
    int64_t retry_ms;
    int64_t since_ms;   /* when the state began */
    int64_t position;   /* the next record to read */
    int32_t last_epoch; /* leader epoch of the record before it; -1: unknown */
    int64_t quiet_ms;   /* when reads began to return no records; 0: the last one returned some */
    bool arrived;       /* a record has arrived since the seek */
    /* offset of a record after a gap; another seek decides whether the gap is real */
    int64_t doubted;
    int64_t end;                  /* the end that reads reached without a record since the seek */
    unsigned end_seeks;           /* seeks since then */
    char topic_id[TOPIC_ID_SIZE]; /* the broker's id at the claim; "": unknown */
    /* of the last claim; next_offset moves with the applied batches */
    struct progress_row row;
    /* The batches of this claim are whole, because a content is held, or because a vote below
     * whole_until may become held. Constant until the next claim, because all pending batches must
     * be whole or none. */
    bool whole;
    int64_t whole_until;
    struct job claim;
    bool claim_out; /* with the applier; must return before the next claim */
    struct job *filling;
    int64_t filling_ms;             /* when its first record was added */
    unsigned sent;                  /* number of batches with the applier */
    int64_t sent_ms[PART_SENT_MAX]; /* record time of the first record in each, oldest first */
    /* an operator must act; meanwhile the partition is claimed again every 10 s */
    bool stopped;
    struct err reason; /* why it is stopped */
    int64_t paused_ms; /* since when a rebalance keeps its records from being read; 0: none does */
    int64_t well_ms;   /* when it last moved or had no lag */
};

/* Returns the partition of a job. */
struct part *part_of(struct holding *holding);

/* Returns NULL if memory runs out. */
struct part *part_make(const struct place *place, size_t link);
void part_free(struct part *part);

/* The group assigned or revoked the partition. Earlier jobs become void. */
void part_assign(struct part *part, void *handle, int64_t now_ms);
void part_revoke(struct part *part, int64_t now_ms);

/* The records are read again after a rebalance: returns how long they were not, in ms; -1: no
 * rebalance has ended for this partition. */
int64_t part_end_pause(struct part *part, int64_t now_ms);

/* After a rebalance, whose events were passed to part_assign() and part_revoke(): a partition that
 * was not assigned to this process again has another owner, and its pause is no longer known. */
void part_forget_pause(struct part *part);

/* Enters a state. */
void part_enter(struct part *part, enum part_state state, int64_t now_ms);

/* Starts again with a claim after wait_ms. Earlier jobs become void. */
void part_restart(struct part *part, int64_t now_ms, int64_t wait_ms);

/* Stops the partition because of err and claims it again every 10 s until a claim succeeds. Returns
 * true if err differs from the reason before. */
bool part_stop(struct part *part, const struct err *err, int64_t now_ms);

/* Records that the partition works. Returns whether it was stopped before. */
bool part_recovered(struct part *part);

/* Records the result of a claim. Invariant C4: reading begins at the offset in row. RC_REJECT: the
 * row belongs to a deleted topic of the same name. */
enum rc part_claimed(struct part *part, const struct progress_row *row, int64_t now_ms,
                     struct err *err);

/* Reads the records below next_offset again, into whole batches. */
void part_read_whole(struct part *part, int64_t next_offset, int64_t now_ms);

/* Returns whether all records below whole_until are applied. */
bool part_is_past(const struct part *part);

/* part_hear() records whether a read returned records; part_is_quiet() tells whether reads have
 * returned none for long. */
void part_hear(struct part *part, bool records, int64_t now_ms);
bool part_is_quiet(const struct part *part, int64_t now_ms);

/* Seeks to the current position again, because reads return nothing although the partition has
 * more. */
void part_seek_quiet(struct part *part, int64_t now_ms);

/* Whether the first record since the seek is the expected one. A gap before it is legal (compacted
 * records, transaction markers), but a lost seek looks the same. A record after a gap is therefore
 * accepted when a second seek returns it again (invariant C4). False: seek again. */
bool part_arrive(struct part *part, int64_t offset, int64_t now_ms);

/* Reads reached the end of the partition at `end`, with no record between the position and it, only
 * transaction markers and aborted or compacted records. True: the position was moved there. A lost
 * seek looks the same, so without a record since the seek the end is accepted only after several
 * more seeks by part_seek_quiet() reached the same end. */
bool part_reach_end(struct part *part, int64_t end);

/* RC_REJECT: a record with this leader epoch cannot follow, so the log is not the one that was read
 * before. */
enum rc part_check_epoch(const struct part *part, int32_t leader_epoch, struct err *err);

/* RC_REJECT: the topic no longer has the id of the claim. Unknown ids are accepted. */
enum rc part_check_topic(const struct part *part, const char *topic_id, struct err *err);

/* Record that a batch was passed to the applier, and that it returned. */
void part_sent(struct part *part, int64_t oldest_ms);
void part_returned(struct part *part);

/* Returns the age of the oldest record that is not applied. If no such record was read yet, or the
 * lag is unknown, returns the time since the partition last moved or had no lag. */
int64_t part_age_ms(struct part *part, int64_t lag, int64_t wall_ms, int64_t now_ms);

#endif
