/* SPDX-License-Identifier: MIT */
/* The retry queue's engines of several processes on one fake of its tables
 * (tests/fakes/fake_task_store.h), with a handler that does as its task says, in virtual time; one
 * thread calls all steps. An op of the store fails before its first statement, or its last answer
 * is lost. */
#ifndef TESTS_FLOW_RETRY_FIXTURE_H
#define TESTS_FLOW_RETRY_FIXTURE_H

#include "common/config/settings.h"
#include "outbox/retry/dispatcher.h"
#include "outbox/retry/first_tries.h"
#include "outbox/retry/lease_renewer.h"
#include "outbox/retry/pool.h"
#include "tests/fakes/fake_task_store.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FIXTURE_TASKS_MAX 12000
#define FIXTURE_SCENES_MAX (RETRY_SCENES_MAX + 1)
#define FIXTURE_GROUPS_MAX 8
#define FIXTURE_HOSTS 3
#define FIXTURE_WORKERS_MAX 4

/* A task, and the texts that the fake of the tables leaves to its user. Outside of an op `now` and
 * `old` of its row are the same: retry_fixture_save() makes them so after a test has changed
 * `now`. */
struct task {
    struct fake_task base; /* first */
    char key[32];          /* of base.key */
    char options[128];
    char result[64]; /* step_result */
    char reason[TASK_REASON_SIZE];
    char reason_class[32];
    char callback[512];
    int64_t duplicate_of; /* struct task_row */
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
    bool waits;                           /* of a snooze: nothing was called */
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
    struct fake_alone connection;
    struct fake_task_store fake;
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
    bool trying; /* it tries tasks first: no dispatcher */
    struct first_tries tries;
    struct first_try_result ended; /* of the last try that has ended */
    size_t ends;
};

struct retry_fixture {
    int64_t now_ms;
    uint64_t rng;
    struct task tasks[FIXTURE_TASKS_MAX]; /* by id, from 1 */
    size_t count;
    struct fake_task_tables tables;
    struct scene_row scenes[FIXTURE_SCENES_MAX];
    size_t scene_count;
    int64_t recorded[FIXTURE_HOSTS]; /* the change that each has in force */
    struct retry_group
        groups[FIXTURE_GROUPS_MAX]; /* the first: "default", which allows everything */
    size_t group_count;
    struct host hosts[FIXTURE_HOSTS];

    size_t calls[FAKE_TASKS_OPS];
    size_t call_count;
    /* Calls of this kind fail from this one on, so many; FAKE_TASKS_OPS: of any kind. */
    size_t fail_from;
    size_t fail_count;
    enum fake_task_op fail_kind;
    enum rc fail_rc;
    bool answers_lost; /* they fail, but only after they were done */
    int64_t refuse_id; /* finish refuses a batch with this task in it */
    bool refuse_always;
    size_t finish_rows_max; /* of one finish */
    size_t claim_rows_max;
    size_t renewals;
    char last_claims[4096]; /* scenes in the order of their claims */
    /* Of the next tasks that are tried first. */
    size_t make_fail_runs;
    int64_t make_takes_ms;
    int64_t make_duplicate_of;
};

extern struct retry_fixture fixture;

/* Resets all state; no host is started. */
void retry_fixture_reset(uint64_t seed);
void host_start(size_t number);
/* A process that tries tasks first, try_max at the same time. */
void host_start_trying(size_t number, int64_t try_max);
/* Makes a task there; its idempotency key is the id of the task that existed already, or NULL. */
enum rc retry_fixture_try(size_t number, const struct retry_new_task *task,
                          struct first_try_result *result);
/* A kill. */
void host_kill(size_t number);
/* A clean stop, within ms. */
bool host_stop(size_t number, int64_t ms);

struct task *retry_fixture_task(const char *scene, const char *key);
void retry_fixture_scene(const char *scene, const char *policy, const char *options, bool paused);
/* One with this name, made when it is new: enabled, of clients, and allowing everything. */
struct retry_group *retry_fixture_group(const char *name);
struct task *retry_fixture_find(int64_t id);
void retry_fixture_save(struct task *task);
/* An enum task_state; -1: ended. */
int retry_fixture_state(const struct task *task);
/* What became of a task that has ended: deleted, done, exhausted. */
const char *retry_fixture_outcome(const struct task *task);
/* The number of tasks in this state; -1: ended. */
size_t retry_fixture_count(int state);

/* The next count calls of this kind fail. */
void retry_fixture_fail_next(enum fake_task_op kind, size_t count);

/* Lets ms milliseconds pass. */
void retry_fixture_run(int64_t ms);
/* Runs until all tasks have ended; false when ms have passed. */
bool retry_fixture_drain(int64_t ms);

#endif
