/* SPDX-License-Identifier: MIT */
/* What the replaying engine needs of a database beside a sink (sink_seam.h). Where a call belongs
 * to a transaction it is the sink's, and RC_RETRY and RC_FATAL end it. One thread at a time. */
#ifndef CONSUMER_DEAD_DEAD_SEAM_H
#define CONSUMER_DEAD_DEAD_SEAM_H

#include "common/err.h"
#include "consumer/dead/dead_row.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct dead_store {
    void *ctx;

    /* Locks the next records behind `after`, in the order of topic, partition and offset, at most
     * rows_max, and calls on_item for each. Those that the filter does not select are among them
     * when `others` is set, at least where they stand before a selected one with their key. In a
     * transaction. */
    enum rc (*lock_page)(void *ctx, const struct dead_filter *filter,
                         const struct dead_cursor *after, size_t rows_max, bool others,
                         enum rc (*on_item)(void *item_ctx, const struct dead_item *item,
                                            struct err *err),
                         void *item_ctx, struct err *err);

    /* Writes why a record is dead now. In a transaction. */
    enum rc (*write_reason)(void *ctx, int64_t id, const char *reason_class, const char *reason,
                            size_t reason_len, struct err *err);

    /* Moves the records into dead_history. value, if not NULL, is what was applied instead of the
     * payload. In a transaction. */
    enum rc (*decide)(void *ctx, const int64_t *ids, size_t count, enum dead_decision decision,
                      const void *value, size_t value_len, struct err *err);

    /* How many of the ids are dead. Outside of a transaction. */
    enum rc (*count_ids)(void *ctx, const int64_t *ids, size_t count, size_t *left,
                         struct err *err);
};

#endif
