/* SPDX-License-Identifier: MIT */
/* What the task intake needs of a database. One thread at a time. */
#ifndef PRODUCER_TASK_TASK_OPS_H
#define PRODUCER_TASK_TASK_OPS_H

#include "common/buf.h"
#include "common/err.h"
#include "outbox/retry/group.h"
#include "outbox/retry/retry.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct task_store {
    void *ctx;

    enum rc (*ping)(void *ctx, struct err *err);

    /* As retry_room(). */
    enum rc (*room)(void *ctx, const char *group, const char *scene, const char *const *handlers,
                    size_t handler_count, struct retry_room *room, struct buf *options,
                    struct err *err);

    /* Reads the group of this name; *found: whether there is one. */
    enum rc (*group)(void *ctx, const char *name, struct retry_group *group, bool *found,
                     struct err *err);

    /* retry_append() in a transaction of its own: all of them, or none. */
    enum rc (*append)(void *ctx, const struct retry_new_task *tasks, size_t count,
                      struct retry_ticket *tickets, struct err *err);

    /* As retry_find() and retry_attempts(). */
    enum rc (*find)(void *ctx, bool ended, const struct retry_filter *filter, bool whole,
                    size_t rows_max, retry_on_view on_view, void *view_ctx, struct retry_page *page,
                    struct err *err);
    enum rc (*attempts)(void *ctx, int64_t task_id,
                        enum rc (*on_attempt)(void *attempt_ctx,
                                              const struct retry_attempt_view *attempt,
                                              struct err *err),
                        void *attempt_ctx, struct err *err);

    /* After RC_RETRY. True: a collision with another transaction. False: the database cannot be
     * reached. */
    bool (*collided)(void *ctx, const struct err *err);
};

#endif
