/* SPDX-License-Identifier: MIT */
/* The tables of the retry queue: tasks, their history and attempts, and the scenes, with the
 * statements of the adapter's transactions, so that the transactions of several processes
 * interleave in any order. The end of a transaction checks that no state is forbidden. */
#ifndef TESTS_SIM_TASKS_H
#define TESTS_SIM_TASKS_H

#include "outbox/retry/policy/order.h"
#include "outbox/retry/policy/policy.h"
#include "outbox/retry/retry_ops.h"
#include "tests/sim/db.h"

#define SIM_TASKS_MAX 2048
#define SIM_TASK_KEYS 6 /* 1..SIM_TASK_KEYS; 0 is no key */
#define SIM_SCENES 7

/* The scenes of a run. */
enum sim_scene {
    SCENE_FIRST, /* three of any policy */
    SCENE_THIRD = 2,
    SCENE_CALLBACK, /* of callbacks */
    SCENE_BROKEN,   /* has an unreadable policy, until an operator repairs it */
    SCENE_STRANGE,  /* of a handler that no process has */
    SCENE_BARE,     /* without a row in retry_scene */
};

enum task_ended { TASK_LIVE, TASK_DONE, TASK_EXHAUSTED, TASK_CANCELLED };

/* One row as a transaction sees it. */
struct task_version {
    int64_t writes;
    bool found; /* in retry_task */
    enum task_state state;
    int64_t attempts;
    int64_t next_ms;
    int64_t epoch;
    int64_t lease_until_ms; /* by the database's clock */
    int64_t lease_ms;       /* its length */
    const struct proc *holder;
    int64_t believed_ms; /* true time up to which its holder may believe in it */
    int64_t step;
    int64_t age_from_ms;
    bool expired; /* it was claimed for its deadline, not to be run */
    enum task_ended ended;
    bool kept;           /* in retry_task_history */
    int64_t failed_rows; /* of retry_attempt that count, and that do not */
    int64_t snoozed_rows;
};

struct sim_task {
    struct fake_row row; /* first */
    struct task_version now;
    struct task_version old;
    int64_t id;
    int scene;
    int64_t key;
    size_t number; /* of its idempotency key */
    int64_t parent;
    enum task_ended parent_ended;
    unsigned shard;
    bool in_order; /* its key was locked when it was made: ids are the order of the commits */
    int64_t scene_version; /* as the last claim read it */

    /* The state of the called system. */
    bool met; /* it was run, and its fate is known */
    bool poison;
    int64_t fails_left;
    int64_t failures; /* runs that reported a failure */
    int64_t effects;
};

struct sim_scene_row {
    char name[TASK_NAME_SIZE];
    char json[400];
    bool found;
    bool paused;
    int64_t paused_ms;     /* since when */
    int64_t paused_change; /* task_tables.scene_change then */
    int64_t version;
    struct policy policy; /* of json, as the promises see it */
    bool parsed;
};

/* Runs of a scene in one life of a process. */
struct sim_rate {
    int life;
    int64_t began_ms;
    int64_t runs;
};

struct task_tables {
    struct sim_task tasks[SIM_TASKS_MAX]; /* by id, from 1 */
    int64_t id_next;
    size_t numbers; /* of idempotency keys */
    struct sim_scene_row scenes[SIM_SCENES];
    int64_t scene_change;                    /* changes of scenes so far */
    struct fake_row keys[SIM_TASK_KEYS + 1]; /* rows that submitters lock for their order */
    int64_t last_effect[SIM_TASK_KEYS + 1];  /* id of the newest task that had its effect */
    struct sim_rate rates[SIM_PROCS_MAX][SIM_SCENES];
    int64_t first_live; /* no smaller id is in retry_task any more */
};

/* One thread's connection. */
struct task_adapter {
    struct link link;
    bool compare_and_set; /* retry.claim */
    struct retry_store ops;
    int64_t recorded; /* the change of the scenes that its process has in force */
};

void task_scene_mend(struct sim *sim);

void tasks_begin_run(struct task_tables *tables, struct sim *sim);
/* Checks now and then that no queued task was forgotten. */
void tasks_tend(struct sim *sim);
void tasks_done(struct task_tables *tables);
void task_adapter_init(struct task_adapter *adapter, struct proc *proc);

struct task_tables *tasks_of(const struct link *link);
const char *task_scene_handler(int scene);
void task_key_text(const struct sim_task *task, char text[32]);
void task_idempotency_text(const struct sim_task *task, char text[48]);
/* The tasks ahead in a key, as the transaction of link sees them, or, without one, as they are
 * committed. */
void tasks_ahead(const struct task_tables *tables, const struct link *link, int64_t key,
                 struct order_ahead *ahead);

/* Inside a transaction. */

/* Makes a task; NULL: another one with this idempotency key is active. RC_RETRY as link_lock(). */
struct task_new {
    int scene;
    int64_t key;
    size_t number;
    int64_t delay_ms;
    int64_t parent;
    enum task_ended parent_ended;
    bool in_order;
};
enum rc task_insert(struct link *link, const struct task_new *new_task, struct sim_task **task,
                    struct err *err);
/* The transaction changes a row that it has locked. */
void task_write(struct link *link, struct sim_task *task);
/* A task of the key has ended, or does not block the key any more: wakes the next one. The
 * transaction has the former locked. */
enum rc task_wake(struct link *link, int64_t key, struct err *err);
/* Ends it: out of retry_task, into the history with keep. */
void task_end(struct link *link, struct sim_task *task, enum task_ended ended, bool keep);
/* The callback that its scene's policy asks for. */
enum rc task_call_back(struct link *link, const struct sim_task *task, enum task_ended ended,
                       struct err *err);

#endif
