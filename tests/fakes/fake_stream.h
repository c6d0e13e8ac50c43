/* SPDX-License-Identifier: MIT */
/* A fake of a member of a consumer group, for the fetching engine: the partitions as the member has
 * them. The user keeps the records, and decides which member owns a partition and when the member
 * learns of it. One topic; one thread. */
#ifndef TESTS_FAKES_FAKE_STREAM_H
#define TESTS_FAKES_FAKE_STREAM_H

#include "consumer/ingest/fetch.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FAKE_STREAM_PARTITIONS_MAX 4

/* A partition as the member has it; the handle of the ops. */
struct fake_hold {
    int32_t number;
    bool held;
    int64_t assignment;
    int64_t position;
    int64_t end; /* of the partition, when the last read came to it; else -1 */
};

/* One member. The user fills all fields but the last two. */
struct fake_stream {
    const char *topic;
    const int32_t *partition_count; /* it may grow */
    void *ctx;
    /* False: the member hears nothing of the group now; the event may be set to a failure. */
    bool (*hear)(void *ctx, struct stream_event *event);
    /* Changes whenever the partition is given to a member; -1: it is not this member's. *owned:
     * some member has it. */
    int64_t (*assignment)(void *ctx, int32_t partition, bool *owned);
    /* The broker is asked to seek: any result but RC_OK is returned. *position: where the next read
     * begins; the answer to an older question may set it to another one. */
    enum rc (*seek)(void *ctx, int32_t partition, int64_t *position, struct err *err);
    /* The broker is asked for records: any result but RC_OK is returned. *answers: it does. */
    enum rc (*fetch)(void *ctx, int32_t partition, bool *answers, struct err *err);
    /* The offsets of the first record and behind the last one. */
    int64_t (*begin)(void *ctx, int32_t partition);
    int64_t (*end)(void *ctx, int32_t partition);
    /* Fills record n of a read, apart from its offset. False: the offset has none, as a
     * transaction's mark. */
    bool (*show)(void *ctx, int32_t partition, int64_t offset, size_t n, struct record *record);

    struct fake_hold holds[FAKE_STREAM_PARTITIONS_MAX];
    struct stream_place places[FAKE_STREAM_PARTITIONS_MAX];
};

/* The ops of the member, which must not move, without store_offset(), topic_id(), check_topics(),
 * check_group() and probe(); their ctx is the struct fake_stream. */
struct stream fake_stream_ops(struct fake_stream *fake);

#endif
