/* SPDX-License-Identifier: MIT */
/* One partition as the fetching step sees it: from the assignment over the claim and the seek to
 * its records, and back. Decides in which order that goes and how long to wait in between. Belongs
 * to the fetching step, but for what job.h shares. */
#ifndef CONSUMER_INGEST_PART_H
#define CONSUMER_INGEST_PART_H

#include "common/err.h"
#include "consumer/ingest/job.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum part_state {
    PART_IDLE,     /* not ours */
    PART_WAITING,  /* ours; to be claimed at retry_ms */
    PART_CLAIMING, /* the claim is with the applier */
    PART_CLAIMED,  /* to be sought to position, at retry_ms */
    PART_RUNNING,  /* records are read and applied */
};

#define PART_SENT_MAX 2

struct part {
    struct holding holding; /* first: see part_of() */
    char topic[TOPIC_SIZE];
    enum part_state state;
    void *handle; /* of the stream */
    size_t link;
    int64_t retry_ms;
    int64_t since_ms;   /* of the state */
    int64_t position;   /* the next record to read */
    int32_t last_epoch; /* leader epoch of the record before it; -1: unknown */
    int64_t quiet_ms;   /* reads have brought nothing since then; 0: the last one did */
    bool arrived;       /* a record has come since the seek */
    int64_t doubted;    /* where another seek shall show whether records before are gone */
    int64_t end;        /* where reads came to the end without a record since the seek */
    unsigned end_seeks; /* repeated since then */
    char topic_id[TOPIC_ID_SIZE]; /* the broker's, when it was claimed; "": unknown */
    struct progress_row row;      /* as of the last claim; next_offset moves with what is applied */
    /* Of this claim: batches are whole, because something is held, or may have to be up to
     * whole_until. It stays so until the next claim: those under way must not be mixed. */
    bool whole;
    int64_t whole_until;
    struct job claim;
    bool claim_out; /* with the applier; it must come back before the next one */
    struct job *filling;
    int64_t filling_ms;             /* when it was begun */
    unsigned sent;                  /* batches with the applier */
    int64_t sent_ms[PART_SENT_MAX]; /* record time of the first in each, oldest first */
    bool stopped;                   /* a person must act; it is claimed again now and then */
    struct err reason;              /* why it stopped */
    int64_t well_ms;                /* it moved, or nothing waited in it */
};

/* The partition that a job is about. */
struct part *part_of(struct holding *holding);

/* NULL: no memory. */
struct part *part_make(const struct place *place, size_t link);
void part_free(struct part *part);

/* The group gave it to us, or took it back. Jobs made before are void. */
void part_assign(struct part *part, void *handle, int64_t now_ms);
void part_revoke(struct part *part, int64_t now_ms);

/* The next step has been taken. */
void part_enter(struct part *part, enum part_state state, int64_t now_ms);

/* Begins again with a claim after wait_ms; jobs made before are void. */
void part_restart(struct part *part, int64_t now_ms, int64_t wait_ms);

/* As part_restart(), because of err: rarely, until a person has acted. True when err is news. */
bool part_stop(struct part *part, const struct err *err, int64_t now_ms);

/* It works (again). True when it was stopped. */
bool part_recovered(struct part *part);

/* The claim has come back done. RC_REJECT: the row belongs to another topic of the same name. */
enum rc part_claimed(struct part *part, const struct progress_row *row, int64_t now_ms,
                     struct err *err);

/* A batch up to next_offset must be read again, into whole batches. */
void part_read_whole(struct part *part, int64_t next_offset, int64_t now_ms);

/* All that had to be read into whole batches is applied. */
bool part_is_past(const struct part *part);

/* A read has brought records, or none; and has it been none for long? */
void part_hear(struct part *part, bool records, int64_t now_ms);
bool part_is_quiet(const struct part *part, int64_t now_ms);

/* Goes to where it reads already, once more: reads bring nothing, though there is more. */
void part_seek_quiet(struct part *part, int64_t now_ms);

/* Is the first record since the seek the one that was looked for? A hole before it is legal (a
 * compacted topic, the marks of transactions), but a seek that got lost looks the same: such a
 * record is believed when a second seek brings it again. False: seek again. */
bool part_arrive(struct part *part, int64_t offset, int64_t now_ms);

/* The reads came to the end of the partition at `end`, and no record lies between its position and
 * that: only marks of transactions, aborted or compacted records. True: its position is moved
 * there. A seek that got lost looks the same; so, when no record has come since the seek, the end
 * is believed only after several more seeks, made by part_seek_quiet(), came to the same one. */
bool part_reach_end(struct part *part, int64_t end);

/* May a record with this leader epoch follow in this partition? RC_REJECT: no, the log is another
 * one than before. */
enum rc part_check_epoch(const struct part *part, int32_t leader_epoch, struct err *err);

/* Does the topic still have the id that was claimed? RC_REJECT: no. Unknown ids fit. */
enum rc part_check_topic(const struct part *part, const char *topic_id, struct err *err);

/* Books a batch as handed to the applier, and as come back. */
void part_sent(struct part *part, int64_t oldest_ms);
void part_returned(struct part *part);

/* Age of the oldest record that is not applied, as far as is known: while none of those that lag
 * behind is in hand, or it cannot be known what waits, as long as it has not moved. */
int64_t part_age_ms(struct part *part, int64_t lag, int64_t wall_ms, int64_t now_ms);

#endif
