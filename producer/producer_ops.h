/* SPDX-License-Identifier: MIT */
/* What the producer's engines need of a database: the rows of votes, and the ops of the vote
 * engine, of the totals reader and of the task intake. One thread at a time uses the ops of one
 * store. RC_RETRY: try again later; RC_FATAL: an operator must act. */
#ifndef PRODUCER_PRODUCER_OPS_H
#define PRODUCER_PRODUCER_OPS_H

#include "common/buf.h"
#include "common/err.h"
#include "common/id.h"
#include "outbox/outbox.h"
#include "outbox/retry/change.h"
#include "outbox/retry/clients/client.h"
#include "outbox/retry/operate.h"
#include "outbox/retry/retry.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Votes. */

/* A row of vote_count. */
struct vote_count_row {
    int64_t content_id;
    int64_t votes; /* 0 when not found */
    bool found;
    bool wanted;  /* must exist: the batch holds a vote for it */
    bool deleted; /* the content is deleted */
    bool changed; /* by this batch, and must be written */
};

/* A row of vote_state. */
struct vote_state_row {
    int64_t voter_id;
    int64_t content_id;
    int64_t version;    /* changes so far */
    struct id event_id; /* of the last change */
    uint8_t voting;     /* 1 votes for it, 0 took the vote back */
    bool found;
    bool changed;
    bool deleted; /* the content is deleted */
};

enum vote_outcome {
    VOTE_OPEN,    /* nothing is known to be committed */
    VOTE_DONE,    /* committed; the answer is final */
    VOTE_REFUSED, /* the database refuses this vote; nothing of it was written */
    VOTE_DELETED, /* the content is deleted: the vote does not count, and nothing was written */
};

/* One vote and its answer. */
struct vote_item {
    int64_t voter_id;    /* 1..2^63-1, as content_id */
    int64_t content_id;  /* the event's key */
    const char *headers; /* of the event: JSON object or NULL; borrowed until the end */
    uint8_t voting;      /* 0 or 1 */

    /* The answer, once the outcome is VOTE_DONE. */
    enum vote_outcome outcome;
    bool changed;       /* false: the vote was the same already, and there is no new event */
    bool has_event;     /* false: a vote that never existed was taken back */
    struct id event_id; /* the event of the last change */
    int64_t votes;      /* exact total of the content right after this vote */

    bool deleted; /* the content is deleted: the outcome will be VOTE_DELETED. For the engine. */
    bool needs_count; /* its row of vote_count has to be locked, and made if need be. For the
                         engine. */

    /* Not 0: the transaction of this number should have committed the answer above, and its outcome
     * is unknown. Only for the engine. */
    uint64_t unknown;
};

/* Between begin() and commit() or rollback() all calls belong to one transaction; RC_RETRY and
 * RC_FATAL end it. */
struct vote_store {
    void *ctx;

    /* RC_OK: the database would accept a transaction now. Only outside of one. */
    enum rc (*ping)(void *ctx, struct err *err);

    enum rc (*begin)(void *ctx, struct err *err);

    /* Locks the rows of counts[] (sorted by content_id, each once) in that order until the end of
     * the transaction, and fills votes and found. */
    enum rc (*lock_counts)(void *ctx, struct vote_count_row *counts, size_t count, struct err *err);

    /* Locks, in the same order, the rows that are found or wanted, and makes the missing ones with
     * 0 votes. It is the first call of its transaction. */
    enum rc (*make_counts)(void *ctx, const struct vote_count_row *counts, size_t count,
                           struct err *err);

    /* Sets `deleted` of the counts whose content is deleted. */
    enum rc (*read_deleted)(void *ctx, struct vote_count_row *counts, size_t count,
                            struct err *err);

    /* Fills states[] (sorted by content_id, voter_id, each once) with the committed rows, and
     * *now_ms with the clock of the database, in ms since 1970. Sets `deleted` of the rows whose
     * content is deleted. */
    enum rc (*read_states)(void *ctx, struct vote_state_row *states, size_t count, int64_t *now_ms,
                           struct err *err);

    /* Write the rows that are `changed`; append events to the outbox table `lane`. */
    enum rc (*write_states)(void *ctx, const struct vote_state_row *states, size_t count,
                            struct err *err);
    enum rc (*write_counts)(void *ctx, const struct vote_count_row *counts, size_t count,
                            struct err *err);
    enum rc (*append)(void *ctx, const char *lane, const struct outbox_event *events, size_t count,
                      struct err *err);

    /* Records that the content is deleted and closed: its tombstone is appended in this
     * transaction. *marked: false if it was closed before, and nothing was written. *now_ms as
     * above; the number of lanes does not change before the end of the transaction. The row of
     * vote_count is locked. */
    enum rc (*mark_closed)(void *ctx, int64_t content_id, bool *marked, int64_t *now_ms,
                           struct err *err);

    /* Each a transaction of its own: deletes at most rows_max rows of vote_state of a deleted
     * content, in the order of the primary key, and *count tells how many; deletes its row of
     * vote_count, if there is one. */
    enum rc (*delete_states)(void *ctx, int64_t content_id, size_t rows_max, size_t *count,
                             struct err *err);
    enum rc (*delete_count)(void *ctx, int64_t content_id, struct err *err);

    /* RC_RETRY: it is unknown whether the transaction was committed. */
    enum rc (*commit)(void *ctx, struct err *err);
    void (*rollback)(void *ctx);

    /* After RC_RETRY. True: a collision with another transaction (deadlock, lock time-out). False:
     * the server cannot be reached or does not take writes. */
    bool (*collided)(void *ctx, const struct err *err);
};

/* Totals. */

struct totals_row {
    int64_t content_id;
    int64_t voter_id; /* 0: none */
    int64_t votes;    /* 0 for a content without votes */
    uint8_t voting;   /* 1: the voter votes for it */
};

/* Rows in one read. */
#define TOTALS_READ_ROWS_MAX 400

struct totals_store {
    void *ctx;

    /* RC_OK: the database can be read. RC_RETRY, RC_FATAL as read(). */
    enum rc (*ping)(void *ctx, struct err *err);

    /* Fills votes and voting of the rows, which may name a content twice, from one view of the
     * data, and puts the pointers in another order. RC_RETRY: try again later, RC_FATAL: an
     * operator must act; the rows are undefined then. */
    enum rc (*read)(void *ctx, struct totals_row **rows, size_t count, struct err *err);
};

/* Tasks. */

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

    /* As retry_operate(). */
    enum rc (*operate)(void *ctx, const struct retry_handlers *handlers,
                       struct retry_operation *operation, struct retry_operated_task *result,
                       struct err *err);

    /* As retry_change_make(), retry_scenes_find(), retry_scene_count() and retry_group_each(). */
    enum rc (*change)(void *ctx, struct retry_change *change, struct retry_changed *result,
                      struct err *err);
    enum rc (*find_scenes)(void *ctx, const struct retry_scene_filter *filter, size_t rows_max,
                           retry_on_scene_view on_scene, void *scene_ctx, struct err *err);
    enum rc (*count_scene)(void *ctx, const char *group, const char *scene,
                           struct retry_scene_counts *counts, struct err *err);
    enum rc (*each_group)(void *ctx, const char *name, retry_on_group on_group, void *group_ctx,
                          struct err *err);

    /* As retry_actions_find(). */
    enum rc (*actions)(void *ctx, const struct retry_action_filter *filter, size_t rows_max,
                       enum rc (*on_action)(void *action_ctx, const struct retry_action_view *view,
                                            struct err *err),
                       void *action_ctx, bool *more, int64_t *after, struct err *err);

    /* As retry_client_each(). */
    enum rc (*clients)(void *ctx, const char *group, const char *after, size_t rows_max,
                       enum rc (*on_client)(void *client_ctx, const struct retry_client_view *view,
                                            struct err *err),
                       void *client_ctx, struct err *err);

    /* As retry_client_beat() and retry_config_version(). */
    enum rc (*beat)(void *ctx, const struct retry_beat *beat,
                    char config_version[RETRY_CONFIG_VERSION_SIZE], struct err *err);
    enum rc (*config_version)(void *ctx, const char *group,
                              char config_version[RETRY_CONFIG_VERSION_SIZE], bool *found,
                              struct err *err);

    /* The scenes of a group that have a row, by name. policy may be NULL. */
    enum rc (*scenes)(void *ctx, const char *group,
                      enum rc (*on_scene)(void *scene_ctx, const char *scene, bool paused,
                                          const char *policy, struct err *err),
                      void *scene_ctx, struct err *err);

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
