/* SPDX-License-Identifier: MIT */
#include "producer/vote/close_content.h"

#include "common/id.h"
#include "outbox/lanes.h"
#include "outbox/outbox.h"
#include "producer/vote/vote.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

#define RANDOM_BYTES 10  /* of one event id */
#define KEY_TEXT_SIZE 21 /* a BIGINT in decimal, and the end */

static enum rc append_tombstone(const struct close_content *close, int64_t content_id,
                                int64_t now_ms, struct err *err)
{
    const struct vote_store *store = close->store;
    uint8_t random_bytes[RANDOM_BYTES];
    char lane[OUTBOX_LANE_NAME_SIZE];
    char key[KEY_TEXT_SIZE];
    struct outbox_event event = {
        .aggregate_type = VOTE_AGGREGATE_TYPE,
        .aggregate_id = key,
        .type = CONTENT_DELETED_TYPE,
    };

    close->rng_bytes(random_bytes, sizeof(random_bytes));
    id_make(&event.id, now_ms, random_bytes);
    snprintf(key, sizeof(key), "%" PRId64, content_id);
    outbox_lane_name(lane, outbox_lane_of(key, close->lane_count));
    return store->append(store->ctx, lane, &event, 1, err);
}

/* Invariant P5: the row of vote_count is locked, and made if there is none, before the content is
 * marked. A vote that had the lock before is in the outbox before the tombstone; a vote that gets
 * it later finds the mark. The mark and the tombstone are one transaction. */
static enum rc close_in_transaction(const struct close_content *close, int64_t content_id,
                                    bool *now, struct err *err)
{
    const struct vote_store *store = close->store;
    struct vote_count_row count = {.content_id = content_id, .wanted = true};
    int64_t now_ms = 0;
    enum rc rc = store->make_counts(store->ctx, &count, 1, err);

    if (rc == RC_OK)
        rc = store->mark_closed(store->ctx, content_id, now, &now_ms, err);
    if (rc != RC_OK || !*now)
        return rc;
    rc = append_tombstone(close, content_id, now_ms, err);
    return rc == RC_OK ? store->commit(store->ctx, err) : rc;
}

enum rc close_content(const struct close_content *close, int64_t content_id, bool *now,
                      struct err *err)
{
    const struct vote_store *store = close->store;
    enum rc rc;

    assert(close->lane_count > 0);
    *now = false;
    /* A row of deleted_content that an application has inserted. */
    if (content_id <= 0)
        return err_fail(err, RC_REJECT, 0,
                        "content %" PRId64
                        " cannot be closed: contents have numbers from 1; delete "
                        "its row in deleted_content or remark",
                        content_id);
    rc = store->begin(store->ctx, err);
    if (rc != RC_OK)
        return rc;
    rc = close_in_transaction(close, content_id, now, err);
    if (rc != RC_OK || !*now)
        store->rollback(store->ctx);
    return rc;
}
