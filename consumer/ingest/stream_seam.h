/* SPDX-License-Identifier: MIT */
/* What the fetching engine needs of a broker. One thread; nothing waits longer than a moment. */
#ifndef CONSUMER_INGEST_STREAM_SEAM_H
#define CONSUMER_INGEST_STREAM_SEAM_H

#include "common/buf.h"
#include "common/err.h"
#include "consumer/apply/apply_row.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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

    /* The offset at which the reads came to the end of the partition: it holds no record between the
     * last one that was read (or the offset sought) and this one, as far as this group may read it.
     * -1: records have come since, or no end was reached since the seek. */
    int64_t (*end)(void *ctx, void *handle);

    /* The id of the topic: changes when it is deleted and made again. "" where nobody can tell.
     * RC_RETRY: the broker was asked and has not answered yet. */
    enum rc (*topic_id)(void *ctx, const char *topic, char id[TOPIC_ID_SIZE]);

    /* Are the topics configured such that no record is lost before it is read? RC_REJECT: not so, and
     * err names the first topic and why. RC_OK: they are, or it is not known (yet). */
    enum rc (*check_topics)(void *ctx, struct err *err);

    /* Does the broker answer? Waits a moment for it. */
    enum rc (*probe)(void *ctx, struct err *err);
};

#endif
