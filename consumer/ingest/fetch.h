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

#include "common/err.h"
#include "common/ring.h"
#include "consumer/ingest/job.h"
#include "consumer/ingest/part.h"
#include "consumer/ingest/stream_seam.h"
#include "consumer/ingest/trouble.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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
    uint64_t (*dice)(void);
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
    struct trouble broker;
    struct trouble partitions; /* the first of those that are stopped */
    struct trouble topics;     /* their configuration loses records: a warning */
    struct trouble access;     /* a right is missing: over when partitions are assigned */
    bool failed;               /* RC_FATAL: the step has ended */
    struct err err;            /* why */
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
