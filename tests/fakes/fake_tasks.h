/* SPDX-License-Identifier: MIT */
/* A fake of the tables of the retry queue: retry_task with its history and attempts, and
 * retry_scene, with the parts of transactions that all writers of tasks share. fake_task_store.h
 * has the statements of the store's ops. Texts that no statement compares are the user's. */
#ifndef TESTS_FAKES_FAKE_TASKS_H
#define TESTS_FAKES_FAKE_TASKS_H

#include "outbox/retry/policy/order.h"
#include "outbox/retry/retry_ops.h"
#include "tests/fakes/fake_session.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum fake_task_ended {
    FAKE_TASK_LIVE,
    FAKE_TASK_DONE,
    FAKE_TASK_EXHAUSTED,
    FAKE_TASK_CANCELLED,
    FAKE_TASK_DUPLICATE
};

/* A row as a transaction sees it. Times are those of the database's clock. */
struct fake_task_version {
    int64_t writes;
    bool found; /* in retry_task */
    enum task_state state;
    int64_t attempts;
    int64_t next_ms;
    int64_t epoch;
    int64_t lease_until_ms;
    int64_t lease_ms;
    const void *owner;
    int64_t believed_ms; /* for the user: until when the owner may believe in the lease */
    int64_t step;
    bool waited;         /* for first_wait of its scene, or an operator had it run */
    int64_t first_waits; /* for the user: how often it was put off for it */
    int64_t age_from_ms;
    bool expired; /* it was claimed for its deadline, not to be run */
    enum fake_task_ended ended;
    bool kept;             /* in retry_task_history, */
    int64_t keep_until_ms; /* until this time; 0: until housekeeping deletes it */
    int64_t made_ms;
    int64_t dedup_until_ms; /* its idempotency key is refused until then */
    int64_t failed_rows;    /* of retry_attempt for this step that count, */
    int64_t snoozed_rows;   /* and that do not */
};

struct fake_task {
    struct fake_row row; /* first */
    struct fake_task_version now;
    struct fake_task_version old;
    int64_t id;
    struct task_class class;
    int64_t key; /* 0: none */
};

/* Faults of the adapter. */
struct fake_task_faults {
    bool blockers_ignored; /* a claim takes what is due, whatever is ahead of it in its key, */
    bool claim_unlocked;   /* rows that another transaction has locked, */
    bool claim_uncompared; /* and by compare-and-set what has changed since it was found */
    bool queue_unlocked;   /* tasks are queued without a lock on what is ahead of them */
    bool busy_twice;       /* there is no unique key of running tasks */
    bool finish_unfenced;  /* results are written whatever the epoch is */
    bool rescue_counts;    /* a rescue counts as an attempt */
    bool no_wake;          /* the next task of a key is not woken, */
    bool head_unlocked;    /* or the head that was read is believed when it waits */
    bool cancel_silent;    /* a cancelled task has no callback */
    bool made_unordered;   /* a task that is made to be tried first is claimed whatever is ahead */
    bool wait_unmarked;    /* a task that is put off is not marked as having waited */
};

struct fake_task_tables {
    void *rows;      /* by id, from 1 on; each begins with a struct fake_task */
    size_t row_size; /* of the user's rows */
    int64_t id_next;
    int64_t first_live;   /* no smaller id is in retry_task any more */
    int64_t scene_change; /* the number of the newest change of the scenes */
    struct fake_task_faults faults;

    void *ctx;
    /* Reads row n of retry_scene. False: there are only n. */
    bool (*read_scene)(void *ctx, size_t n, struct scene_row *row);
    /* The version of a row of retry_group, 0 without one; may be NULL: no group has a row. */
    int64_t (*group_version)(void *ctx, const char *group);
    /* May be NULL: a transaction that has written the row commits; `old` is what it was before. */
    void (*on_commit)(void *ctx, struct fake_task *task);
};

struct fake_task *fake_task_at(const struct fake_task_tables *tables, int64_t id);

/* The version of the scene's row, or that of its group below zero; 0: neither has a row. */
int64_t fake_task_scene_version(const struct fake_task_tables *tables,
                                const struct fake_task *task);

/* The tasks ahead in a key, as the session's transaction sees them, or, without one (NULL), as they
 * are committed. */
void fake_tasks_ahead(const struct fake_task_tables *tables, const struct fake_session *session,
                      int64_t key, struct order_ahead *ahead);

/* The parts of a transaction. */

/* It changes a row that it has locked. */
void fake_task_write(struct fake_task_tables *tables, const struct fake_session *session,
                     struct fake_task *task);

/* Ends a task: out of retry_task, into the history with keep. */
void fake_task_end(struct fake_task_tables *tables, const struct fake_session *session,
                   struct fake_task *task, enum fake_task_ended ended, bool keep);

/* A task of the key has ended, or does not block the key any more: wakes the next one, as
 * wake_keys(). */
enum rc fake_task_wake(struct fake_task_tables *tables, const struct fake_session *session,
                       int64_t key, struct err *err);

#endif
