/* SPDX-License-Identifier: MIT */
/* A job that the fetching step gives to an applying step and takes back: claim a partition, or
 * apply a batch. The step that has the job owns all of it; rings between the steps pass it on. */
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
    JOB_FENCED,  /* see APPLY_FENCED: claim the partition again */
    JOB_AGAIN,   /* see APPLY_AGAIN: read the records again, into whole batches */
    JOB_DROPPED, /* the partition was revoked or restarted before the job was done */
    JOB_STOPPED, /* the database refuses it; err tells why */
};

/* The part of a partition that both steps use. */
struct holding {
    struct place place;
    /* changes when earlier jobs become void; written by the fetching step */
    atomic_uint generation;
};

struct job {
    enum job_kind kind;
    struct holding *holding;
    unsigned generation; /* of the holding, when the job was made */
    /* apply: the claimed row; claim: topic_id, and afterwards the claimed row */
    struct progress_row progress;
    struct batch batch; /* apply only */
    enum job_end end;
    bool clear; /* of JOB_DONE: see struct apply_result */
    struct err err;
    struct job *next; /* in the pool */
};

#endif
