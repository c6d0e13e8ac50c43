/* SPDX-License-Identifier: MIT */
/* What the fetching step hands to an applying step and gets back: claim a partition, apply a batch.
 * Whoever holds a job owns all of it; the rings between the steps pass it on. */
#ifndef CONSUMER_INGEST_JOB_H
#define CONSUMER_INGEST_JOB_H

#include "common/err.h"
#include "consumer/apply/apply_row.h"
#include "consumer/ingest/batch.h"

#include <stdatomic.h>
#include <stddef.h>

enum job_kind { JOB_CLAIM, JOB_APPLY };

enum job_end {
    JOB_DONE,
    JOB_FENCED,  /* see APPLY_FENCED: it must be claimed again */
    JOB_AGAIN,   /* see APPLY_AGAIN: it must be read again, into whole batches */
    JOB_DROPPED, /* the partition was given up before the job was done */
    JOB_STOPPED, /* the database refuses it: see err */
};

/* What both steps know of a partition. */
struct holding {
    struct place place;
    atomic_uint generation; /* changes when it is given up; written by the fetching step alone */
};

struct job {
    enum job_kind kind;
    struct holding *holding;
    unsigned generation;          /* of the holding, when the job was made */
    struct progress_row progress; /* apply: epoch; claim: topic_id, and then all of it */
    struct batch batch;           /* apply only */
    enum job_end end;
    bool clear; /* of JOB_DONE: see struct apply_result */
    struct err err;
    struct job *next; /* in the pool */
};

#endif
