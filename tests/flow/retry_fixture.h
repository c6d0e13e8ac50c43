/* SPDX-License-Identifier: MIT */
/* The retry queue's engines of several processes on one fake task table, with a handler that does
 * as its task says, in virtual time; one thread calls all steps. Each op of the store is one step
 * here; the simulation's fake (tests/sim/task_store.c) runs the statements of an op one by one,
 * with row locks, so the two share no code. */
#ifndef TESTS_FLOW_RETRY_FIXTURE_H
#define TESTS_FLOW_RETRY_FIXTURE_H

#include "common/config/settings.h"
#include "outbox/retry/dispatcher.h"
#include "outbox/retry/lease_renewer.h"
#include "outbox/retry/pool.h"
#include "outbox/retry/retry_ops.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FIXTURE_TASKS_MAX 12000
#define FIXTURE_SCENES_MAX (RETRY_SCENES_MAX + 1)
#define FIXTURE_GROUPS_MAX 8
#define FIXTURE_HOSTS 3
#define FIXTURE_WORKERS_MAX 4

enum call {
    CALL_LOOK,
    CALL_SCENES,
    CALL_RECORD,
    CALL_CLAIM,
    CALL_EXPIRE,
    CALL_FINISH,
    CALL_BEAT,
    CALL_RESCUE,
    CALL_FORGET,
    CALL_HANDLERS,
    CALL_DEPTHS,
    CALL_GROUPS,
    CALLS
};

/* A row of retry_task, or of the history. */
struct task {
    int64_t id;
    char handler[TASK_HANDLER_SIZE];
    char group[TASK_NAME_SIZE];
    char scene[TASK_NAME_SIZE];
    char key[32]; /* "": none */
    char options[128];
    char result[64];
    enum retry_owner origin;
    unsigned shard;
    int state;           /* enum task_state; -1: ended */
    const char *outcome; /* of an ended task: deleted, done, exhausted */
    int64_t keep_ms;     /* until when a done task is kept; 0: for ever */
    int64_t attempts;
    int64_t made_ms;
    int64_t next_ms;
    int64_t until_ms;
    int64_t epoch;
    int64_t step;
    char reason[TASK_REASON_SIZE];
    char reason_class[32];
    char callback[512];
    size_t claims;
    size_t finishes;

    /* The results of the handler, and its next one. */
    size_t runs;
    size_t done;      /* effects */
    size_t fail_runs; /* so many runs fail before the first that works */
    int64_t takes_ms; /* length of a run, on a host whose workers are timed */
    int64_t began_ms; /* of its last run */
    enum attempt_end end;
    enum fault_class fault;
    int64_t delay_ms;
    int64_t steps;                        /* more of them */
    void (*meanwhile)(struct task *task); /* called while it runs */
    char seen_options[192];
    char seen_result[64];
    int64_t seen_attempt;
    const atomic_llong *lease_until_ms; /* of the last run */
};

struct retry_fixture;

/* One process. */
struct host {
    struct retry_fixture *fixture;
    size_t number;
    struct settings settings;
    struct retry_handlers handlers;
    void *opened[2]; /* the handler "test" only, unless a test opens another one */
    struct pool pool;
    struct dispatcher dispatcher;
    struct lease_renewer renewer;
    struct pool_worker workers[FIXTURE_WORKERS_MAX];
    int64_t dispatcher_due_ms;
    int64_t lease_renewer_due_ms;
    int64_t worker_due_ms[FIXTURE_WORKERS_MAX];
    bool lives;
    bool frozen;  /* the lease renewer cannot reach the database */
    bool slow;    /* its workers are not called */
    bool cut_off; /* no call reaches the database */
    bool timed;   /* a task occupies its worker for takes_ms */
    struct slot *occupied[FIXTURE_WORKERS_MAX];
    bool runs_other;
    bool lacks_test;
};

struct retry_fixture {
    int64_t now_ms;
    uint64_t rng;
    struct task tasks[FIXTURE_TASKS_MAX];
    size_t count;
    struct scene_row scenes[FIXTURE_SCENES_MAX];
    size_t scene_count;
    int64_t scene_change;
    int64_t recorded[FIXTURE_HOSTS]; /* the change that each has in force */
    struct retry_group
        groups[FIXTURE_GROUPS_MAX]; /* the first: "default", which allows everything */
    size_t group_count;
    struct host hosts[FIXTURE_HOSTS];

    size_t calls[CALLS];
    size_t call_count;
    size_t fail_from; /* calls of this kind fail from this one on, so many; CALLS: of any kind */
    size_t fail_count;
    enum call fail_kind;
    enum rc fail_rc;
    bool answers_lost; /* they fail, but only after they were done */
    int64_t refuse_id; /* finish refuses a batch with this task in it */
    bool refuse_always;
    size_t finish_rows_max; /* of one finish */
    size_t claim_rows_max;
    size_t renewals;
    char last_claims[4096]; /* scenes in the order of their claims */
};

extern struct retry_fixture fixture;

/* Resets all state; no host is started. */
void retry_fixture_reset(uint64_t seed);
void host_start(size_t number);
/* A kill. */
void host_kill(size_t number);
/* A clean stop, within ms. */
bool host_stop(size_t number, int64_t ms);

struct task *retry_fixture_task(const char *scene, const char *key);
void retry_fixture_scene(const char *scene, const char *policy, const char *options, bool paused);
/* One with this name, made when it is new: enabled, of clients, and allowing everything. */
struct retry_group *retry_fixture_group(const char *name);
struct task *retry_fixture_find(int64_t id);
/* The number of tasks in this state; -1: ended. */
size_t retry_fixture_count(int state);

/* The next count calls of this kind fail. */
void retry_fixture_fail_next(enum call kind, size_t count);

/* Lets ms milliseconds pass. */
void retry_fixture_run(int64_t ms);
/* Runs until all tasks have ended; false when ms have passed. */
bool retry_fixture_drain(int64_t ms);

#endif
