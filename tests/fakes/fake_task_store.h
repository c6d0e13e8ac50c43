/* SPDX-License-Identifier: MIT */
/* The store of the retry queue on fake tables: the transactions of outbox/retry/store/, statement
 * by statement. Rows are skipped when they are locked, or compared when they are taken
 * (retry.claim). */
#ifndef TESTS_FAKES_FAKE_TASK_STORE_H
#define TESTS_FAKES_FAKE_TASK_STORE_H

#include "tests/fakes/fake_tasks.h"

/* The op that runs, for the hooks of a session. */
enum fake_task_op {
    FAKE_TASKS_LOOK,
    FAKE_TASKS_SCENES,
    FAKE_TASKS_RECORD,
    FAKE_TASKS_CLAIM,
    FAKE_TASKS_CLAIM_EXPIRED,
    FAKE_TASKS_FINISH,
    FAKE_TASKS_RENEW,
    FAKE_TASKS_RESCUE,
    FAKE_TASKS_FORGET,
    FAKE_TASKS_HANDLERS,
    FAKE_TASKS_DEPTHS,
    FAKE_TASKS_GROUPS,
    FAKE_TASKS_MAKE,
    FAKE_TASKS_OPS
};

/* A claim on its way: the candidates, and what is ahead of them in each of their keys. */
struct fake_task_claim {
    struct fake_task *tasks[RETRY_CLAIM_ROWS_MAX];
    int64_t epochs[RETRY_CLAIM_ROWS_MAX]; /* as they were found */
    struct order_candidate candidates[RETRY_CLAIM_ROWS_MAX];
    size_t count;
    int64_t keys[RETRY_CLAIM_ROWS_MAX]; /* in ascending order */
    struct order_ahead ahead[RETRY_CLAIM_ROWS_MAX];
    size_t key_count;
    int64_t lease_ms;
    const struct task_class *class; /* claims the due tasks of this class, */
    const struct task_age *age;     /* or those that are too old of a scene */
};

/* One connection. The user fills all fields but op and claim. */
struct fake_task_store {
    struct fake_session session;
    struct fake_task_tables *tables;
    enum fake_task_op op;
    const void *owner; /* of claimed tasks */
    bool compare_and_set;
    int64_t *recorded; /* the change of the scenes that the process has in force */
    struct fake_task_claim claim;

    void *ctx;
    /* Adds the texts to the row of a claimed task. They stay valid until the next call. */
    void (*show)(void *ctx, const struct fake_task *task, struct task_row *row);
    void (*each_handler)(void *ctx, int64_t lease_ms, retry_on_handler on_handler,
                         void *on_handler_ctx);

    /* Each of these may be NULL. */

    /* The transaction has given the task a lease, or a longer one. */
    void (*on_lease)(void *ctx, struct fake_task *task);
    /* The transaction is about to write the result. */
    void (*on_update)(void *ctx, struct fake_task *task, const struct task_update *update);
    /* It makes the callback of the result. */
    enum rc (*make_callback)(void *ctx, struct fake_task *task, const struct task_update *update,
                             struct err *err);
    /* It has written all results, and is about to commit. */
    void (*on_finish)(void *ctx);
    void (*on_rescue)(void *ctx, struct fake_task *task);
};

/* The ops of the connection, which must not move, without groups(); their ctx is the struct
 * fake_task_store. */
struct retry_store fake_task_store_ops(struct fake_task_store *fake);

/* In a transaction that has made the task: claims it if it is first of its key, as
 * claim_made_task() of outbox/retry/store/claim_mysql.h. */
enum rc fake_task_claim_made(struct fake_task_store *fake, struct fake_task *task, int64_t lease_ms,
                             retry_on_task on_task, void *on_task_ctx, struct err *err);

#endif
