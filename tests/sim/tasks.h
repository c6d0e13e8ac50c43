/* SPDX-License-Identifier: MIT */
/* The tables of the retry queue, with the shared fake of its tasks (tests/fakes/fake_tasks.h):
 * tasks that applications make, scenes, and the promises that each COMMIT has to keep. */
#ifndef TESTS_SIM_TASKS_H
#define TESTS_SIM_TASKS_H

#include "outbox/retry/policy/policy.h"
#include "outbox/retry/retry_ops.h"
#include "tests/fakes/fake_task_store.h"
#include "tests/sim/db.h"
#include "tests/sim/group_shards.h"
#include "tests/sim/task_clients.h"

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

struct sim_task {
    struct fake_task base; /* first */
    int scene;
    size_t number; /* of its idempotency key */
    int64_t parent;
    enum fake_task_ended parent_ended;
    bool hurried;  /* an operator had it run at once */
    bool in_order; /* its key was locked when it was made: ids are the order of the commits */
    int64_t scene_version; /* as the last claim read it */

    /* The state of the called system. */
    bool met; /* it was run, and its fate is known */
    bool poison;
    int64_t fails_left;
    int64_t failures; /* runs that reported a failure */
    int64_t snoozes;  /* runs that asked for a later one */
    int64_t effects;
};

struct sim_scene_row {
    char name[TASK_NAME_SIZE];
    char json[768];
    bool found;
    bool paused;
    int64_t paused_ms;     /* since when */
    int64_t paused_change; /* the number of the newest change then */
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

/* A request of a called system to submit a task, made during an attempt; one waits at most. */
struct sim_traffic {
    bool waits;
    bool no_retry; /* the headers of the attempt, which it passes on */
    char from[2 * RETRY_NAME_BYTES_MAX + 2];
    int scene; /* of the task to submit */
};

struct pool;

struct task_tables {
    struct fake_task_tables fake;
    struct sim_task tasks[SIM_TASKS_MAX]; /* by id, from 1 */
    size_t numbers;                       /* of idempotency keys */
    struct sim_scene_row scenes[SIM_SCENES];
    int64_t scene_change;                    /* changes of scenes so far */
    struct fake_row keys[SIM_TASK_KEYS + 1]; /* rows that submitters lock for their order */
    int64_t last_effect[SIM_TASK_KEYS + 1];  /* id of the newest task that had its effect */
    struct sim_rate rates[SIM_PROCS_MAX][SIM_SCENES];
    struct sim_traffic traffic;
    struct group_shards shards;
    struct task_clients clients;
};

/* One thread's connection. */
struct task_adapter {
    struct link link;
    struct fake_task_store fake;
    struct retry_store ops;
    int64_t recorded; /* the change of the scenes that its process has in force */
    /* Of the dispatcher's. */
    const struct pool *pool;
    int64_t step_ms;    /* when its step began, by the clock of its process */
    size_t list_read;   /* the list of shards that the process has read last, */
    size_t list_looked; /* and that it had when it looked for classes */
    char key[32];       /* of the row that was shown last */
    char idempotency[48];
    char hash[65];
};

void task_scene_mend(struct sim *sim);

void tasks_begin_run(struct task_tables *tables, struct sim *sim);
/* Checks now and then that no queued task was forgotten. */
void tasks_tend(struct sim *sim);
void tasks_done(struct task_tables *tables);
/* The adapter must not move afterwards. */
void task_adapter_init(struct task_adapter *adapter, struct proc *proc);

struct task_tables *tasks_of(const struct link *link);
const char *task_scene_handler(int scene);
struct sim_task *sim_task_of(struct task_tables *tables, const struct fake_task *task);
void task_key_text(const struct fake_task *task, char text[32]);
void task_idempotency_text(const struct sim_task *task, char text[48]);

/* An ended task whose number was still refused when the task was made, and which is in the history
 * or must be: its number is refused until later than past_ms (INT64_MAX: only one that is in the
 * history); 0: none. */
int64_t task_duplicate_of(const struct task_tables *tables, const struct sim_task *task,
                          int64_t past_ms);

/* Inside a transaction. */

/* Makes a task; NULL: another one with this idempotency key is active. RC_RETRY as link_lock(). */
struct task_new {
    int scene;
    int64_t key;
    size_t number;
    int64_t delay_ms;
    int64_t parent;
    enum fake_task_ended parent_ended;
    bool in_order;
};
enum rc task_insert(struct link *link, const struct task_new *new_task, struct sim_task **task,
                    struct err *err);
/* The callback that its scene's policy asks for. */
enum rc task_call_back(struct link *link, const struct fake_task *task, enum fake_task_ended ended,
                       struct err *err);

#endif
