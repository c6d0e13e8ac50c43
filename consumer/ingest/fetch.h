/* SPDX-License-Identifier: MIT */
/* The fetching step: follows the group's assignment, has partitions claimed, reads their records
 * into batches and hands these to the applying steps. Decides which partition is read, when a batch
 * is ready, and when a partition must stop and wait for a person. fetch_step() is the loop of one
 * thread (common/loop.h); it never waits for the database.
 *
 * Invariant: the records of one claim of a partition reach its applier in batches that follow one
 * another without a hole, each beginning where the one before ended. */
#ifndef CONSUMER_INGEST_FETCH_H
#define CONSUMER_INGEST_FETCH_H

#include "common/buf.h"
#include "common/condition.h"
#include "common/err.h"
#include "common/ring.h"
#include "consumer/apply/apply_row.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct job;
struct part;

enum stream_event_kind {
    STREAM_NOTHING,  /* no news */
    STREAM_ASSIGNED, /* places are ours now; nothing is read from them before a seek */
    STREAM_REVOKED,  /* places are not ours any more, and their handles are gone */
    STREAM_TROUBLE,  /* see rc and err */
};

/* handle stands for an assigned partition, from its STREAM_ASSIGNED to its STREAM_REVOKED. */
struct stream_place {
    struct place place;
    void *handle;
};

/* Borrowed until the next call. */
struct stream_event {
    enum stream_event_kind kind;
    const struct stream_place *places;
    size_t count;
    bool lost; /* STREAM_REVOKED: the group has already given the places to others */
    /* STREAM_TROUBLE: RC_RETRY: with the broker, and the stream helps itself. RC_REJECT: with one
     * topic (it does not exist, we may not read it). RC_FATAL: the stream is finished. */
    enum rc rc;
    bool denied; /* STREAM_TROUBLE: our account lacks a right; until somebody gives it, we wait */
    struct err err;
};

/* What the step needs of a broker. Nothing waits longer than a moment. */
struct stream {
    void *ctx;

    /* The next piece of news, at once. The broker has been answered when this returns. */
    void (*poll)(void *ctx, struct stream_event *event);

    /* Reading goes on at offset (or OFFSET_BEGINNING): no record from before the call is read after
     * it. leader_epoch: of the record before, -1 unknown; a log that was cut below it is an error
     * of the next read. RC_RETRY: not yet. RC_REJECT: this cannot be. */
    enum rc (*seek)(void *ctx, void *handle, int64_t offset, int32_t leader_epoch, struct err *err);

    /* What has come from one partition, in order, at most records_max; *count may be 0. RC_REJECT:
     * this partition cannot go on by itself (its offset or its topic is gone). RC_FATAL: the stream
     * is finished. Records read before a failure are handed out first. */
    enum rc (*read)(void *ctx, void *handle, struct record *records, size_t records_max,
                    size_t *count, struct err *err);

    /* Appends the headers of a record of the last read, as struct dead_row wants them. */
    void (*headers)(void *ctx, const struct record *record, struct buf *out);

    /* Tells the broker, some time, that the group is here: for lag tools only. */
    void (*store_offset)(void *ctx, void *handle, int64_t next_offset);

    /* The offset behind the newest record, as last heard; -1: never heard. */
    int64_t (*high_watermark)(void *ctx, void *handle);

    /* The offset at which the reads came to the end of the partition: it holds no record between
     * the last one that was read (or the offset sought) and this one, as far as this group may read
     * it. -1: records have come since, or no end was reached since the seek. */
    int64_t (*end)(void *ctx, void *handle);

    /* The id of the topic: changes when it is deleted and made again. "" where nobody can tell.
     * RC_RETRY: the broker was asked and has not answered yet. */
    enum rc (*topic_id)(void *ctx, const char *topic, char id[TOPIC_ID_SIZE]);

    /* Are the topics configured such that no record is lost before it is read? RC_REJECT: not so,
     * and err names the first topic and why. RC_OK: they are, or it is not known (yet). */
    enum rc (*check_topics)(void *ctx, struct err *err);

    /* Does the broker answer? Waits a moment for it. */
    enum rc (*probe)(void *ctx, struct err *err);
};

/* The way to one applier and back; a partition always takes the same. */
struct fetch_link {
    struct ring *given;
    struct ring *done;
    void (*wake)(void *ctx);
    void *wake_ctx;
    const atomic_uint *reconnects; /* of the applier */
};

struct fetch_config {
    const struct stream *stream;
    const struct fetch_link *links;
    size_t link_count;
    size_t batch_rows_max;
    size_t batch_bytes_max;
    size_t batches_max; /* of all partitions, filling and under way */
    int64_t batch_wait_ms;
    uint64_t (*rng)(void);
    int64_t (*wall_ms)(void);
};

struct fetch {
    struct fetch_config config;
    struct record *records; /* of one read */
    struct part **parts;    /* every partition ever held; they stay where they are */
    size_t part_count;
    size_t part_size;
    unsigned *reconnects; /* of each link, as last seen */
    size_t turn;          /* the partition that is read first next time */
    bool hungry;          /* a partition found no batch to fill */
    struct job **jobs;    /* every batch ever made */
    size_t job_count;
    struct job *pool; /* those not in use */
    int64_t probe_ms;
    int64_t heard_ms;    /* when the broker last showed that it is there */
    unsigned unanswered; /* questions to it, since then */
    int64_t tick_ms;
    struct condition broker;
    struct condition partitions; /* the first of those that are stopped */
    struct condition topics;     /* their configuration loses records: a warning */
    struct condition access;     /* a right is missing: over when partitions are assigned */
    bool failed;                 /* RC_FATAL: the step has ended */
    struct err err;              /* why */
};

/* RC_FATAL: no memory. config's pointers are borrowed for the life of fetch. */
enum rc fetch_init(struct fetch *fetch, const struct fetch_config *config, struct err *err);

/* Releases every job, also those in the rings: no step may run any more. */
void fetch_done(struct fetch *fetch);

/* A loop_step. */
int64_t fetch_step(void *fetch, int64_t now_ms);

/* After the last applying step: takes in what they have done, for the lag tools' offsets. */
void fetch_finish(struct fetch *fetch, int64_t now_ms);

#endif
