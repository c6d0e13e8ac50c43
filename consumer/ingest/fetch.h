/* SPDX-License-Identifier: MIT */
/* The fetching step: follows the assignments of the consumer group, has partitions claimed, reads
 * their records into batches and gives these to the applying steps. Decides which partition is
 * read, when a batch is ready, and when a partition stops until an operator acts. fetch_step() is
 * the loop of one thread (common/loop.h); it never waits for the database.
 *
 * Small batches of several partitions are given to an applier together, so that they share a
 * transaction (applier.h).
 *
 * Invariant: the records of one claim of a partition reach its applier in consecutive batches
 * without gaps, each beginning where the one before ended. */
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
    STREAM_NOTHING, /* no event */
    /* places are assigned to this process; nothing is read from them before a seek */
    STREAM_ASSIGNED,
    STREAM_REVOKED, /* places are revoked, and their handles are no longer valid */
    STREAM_FAILURE, /* see rc and err */
};

/* handle identifies an assigned partition, from its STREAM_ASSIGNED to its STREAM_REVOKED. */
struct stream_place {
    struct place place;
    void *handle;
};

/* Borrowed until the next call of the stream. */
struct stream_event {
    enum stream_event_kind kind;
    const struct stream_place *places;
    size_t count;
    bool lost; /* STREAM_REVOKED: the group has already assigned the places to other members */
    /* of a failure. RC_RETRY: the broker fails, and the stream reconnects. RC_REJECT: one topic
     * fails (it does not exist, or its ACLs forbid reading it). RC_FATAL: the stream has ended. */
    enum rc rc;
    bool denied; /* of a failure: the account lacks a privilege; the stream waits until it has it */
    struct err err;
};

/* What the step needs of a broker. No call blocks for more than a fraction of a second. */
struct stream {
    void *ctx;

    /* Returns the next event without waiting. The stream has answered the group before it
     * returns. */
    void (*poll)(void *ctx, struct stream_event *event);

    /* Continues reading at offset (or OFFSET_BEGINNING): no record that was fetched before is
     * returned afterwards. leader_epoch is that of the preceding record, -1 if unknown; if the log
     * was truncated below it, the next read fails. RC_RETRY: not possible yet. RC_REJECT: not
     * possible at all. */
    enum rc (*seek)(void *ctx, void *handle, int64_t offset, int32_t leader_epoch, struct err *err);

    /* Reads the next records of one partition, at most records_max; *count may be 0. RC_REJECT: the
     * partition cannot continue (its offset or its topic no longer exists). RC_FATAL: the stream
     * has ended. Records that were read before a failure are returned first. */
    enum rc (*read)(void *ctx, void *handle, struct record *records, size_t records_max,
                    size_t *count, struct err *err);

    /* Appends the headers of a record of the last read in the format of struct dead_row. */
    void (*headers)(void *ctx, const struct record *record, struct buf *out);

    /* Commits the offset to the group at some later time, for lag tools only. */
    void (*store_offset)(void *ctx, void *handle, int64_t next_offset);

    /* Returns the offset after the newest record, as last reported; -1: not reported yet. */
    int64_t (*high_watermark)(void *ctx, void *handle);

    /* Returns the offset at which reads reached the end of the partition: no readable record lies
     * between the last record (or the offset of the seek) and it. -1: records have arrived since,
     * or no end was reached since the seek. */
    int64_t (*end)(void *ctx, void *handle);

    /* Returns the id of the topic, which changes when the topic is deleted and created again; "" if
     * it cannot be known. RC_RETRY: the broker has not answered yet. */
    enum rc (*topic_id)(void *ctx, const char *topic, char id[TOPIC_ID_SIZE]);

    /* RC_REJECT: a topic's configuration lets Kafka remove records before they are read; err names
     * the first topic and the reason. RC_OK: none does, or it is not known yet. */
    enum rc (*check_topics)(void *ctx, struct err *err);

    /* RC_REJECT: the consumer group has a member that belongs to another installation; err names
     * both. The stream does not join, or has left, until that member has left, unless this
     * installation has the lower id. RC_OK: there is none, or it is not known. May be NULL. */
    enum rc (*check_group)(void *ctx, struct err *err);

    /* Checks whether a broker answers within a short time. */
    enum rc (*probe)(void *ctx, struct err *err);
};

/* The rings to and from one applier. A partition always uses the same applier. */
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
    size_t batches_max; /* of all partitions, filling and pending */
    int64_t batch_wait_ms;
    uint64_t (*rng)(void);
    int64_t (*wall_ms)(void);
};

struct fetch {
    struct fetch_config config;
    struct record *records; /* scratch memory for one read */
    struct part **parts;    /* every partition ever assigned; their addresses do not change */
    size_t part_count;
    size_t part_size;
    unsigned *reconnects; /* of each link, the last value */
    size_t *small_rows;   /* of each link, in pending batches that are not full */
    size_t first_part;    /* index of the partition that is read first */
    bool starved;         /* the last partition got no batch to fill */
    struct job **jobs;    /* every batch ever allocated */
    size_t job_count;
    struct job *pool; /* unused jobs */
    int64_t probe_ms;
    int64_t heard_ms;    /* when the broker last answered */
    unsigned unanswered; /* probes since then */
    int64_t tick_ms;
    struct condition broker;
    struct condition partitions; /* the first stopped partition */
    struct condition topics;     /* a topic's configuration may lose records; a warning */
    struct condition group;      /* members of another installation are in the group */
    struct condition access;     /* a privilege is missing; ends when partitions are assigned */
    bool failed;                 /* RC_FATAL: the step has ended; err is the reason */
    struct err err;
};

/* RC_FATAL: no memory. config's pointers are borrowed for the life of fetch. */
enum rc fetch_init(struct fetch *fetch, const struct fetch_config *config, struct err *err);

/* Releases all jobs, including those in the rings. No step may run any more. */
void fetch_done(struct fetch *fetch);

/* A loop_step. */
int64_t fetch_step(void *fetch, int64_t now_ms);

/* Call after the last applying step: takes back its jobs and commits their offsets for lag
 * tools. */
void fetch_finish(struct fetch *fetch, int64_t now_ms);

#endif
