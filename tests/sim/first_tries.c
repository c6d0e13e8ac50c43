/* SPDX-License-Identifier: MIT */
/* The part of serve that tries tasks first: the engine on the fake of the store, its workers and
 * its lease renewer, and clients that submit tasks, repeat requests and check the answers. */
#include "outbox/retry/first_tries.h"

#include "common/loop.h"
#include "outbox/retry/lease_renewer.h"
#include "tests/sim/roles.h"
#include "tests/sim/tables.h"
#include "tests/sim/task_work.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STOP_MS 800
#define WORKERS 2
#define CLIENTS 3
#define SUBMITTED_MAX 400
#define REPEAT_MS 50

enum client_state { CLIENT_RESTS, CLIENT_ASKS, CLIENT_WAITS };

struct try_process;

/* A client and its request. */
struct client {
    struct try_process *serve;
    enum client_state state;
    int64_t from_ms; /* the request is made, or repeated, from then on */
    struct retry_new_task task;
    char scene[TASK_NAME_SIZE];
    char key[32];
    char idempotency[48];
};

struct work_thread {
    struct try_process *serve;
    struct pool_worker worker;
    struct fiber *fiber;
};

struct try_process {
    struct proc *proc;
    size_t number;
    struct settings settings;
    struct task_adapter tries_adapter;
    struct task_adapter renewer_adapter;
    void *opened[TASK_HANDLERS];
    struct retry_handlers handlers;
    struct pool pool;
    struct first_tries tries;
    struct lease_renewer renewer;
    struct work_thread workers[WORKERS];
    struct client clients[CLIENTS];
    struct fiber *tries_fiber;
};

static int scene_of(const struct sim *sim, const char *name)
{
    int scene = 0;

    while (strcmp(sim->tasks->scenes[scene].name, name) != 0)
        scene++;
    assert(scene < SIM_SCENES);
    return scene;
}

/* As retry_append_once(): the active task with the number, or one that has ended and whose number
 * is still refused; 0: there is none. */
static int64_t find_number(struct task_adapter *adapter, size_t number, bool *ended)
{
    const struct task_tables *tables = adapter->link.db->sim->tasks;
    int64_t refused = 0;

    for (int64_t id = 1; id < tables->fake.id_next; id++) {
        const struct sim_task *task = &tables->tasks[id];

        if (task->number != number || task->parent != 0)
            continue;
        if (task->base.old.found && task->base.old.state != TASK_PARKED) {
            *ended = false;
            return id;
        }
        if (task->base.old.kept && task->base.old.dedup_until_ms > db_clock(adapter->link.db))
            refused = id;
    }
    *ended = true;
    return refused;
}

static enum rc insert(struct task_adapter *adapter, const struct task_new *new_task,
                      struct sim_task **task, struct retry_ticket *ticket, struct err *err)
{
    bool ended = false;
    enum rc rc = link_call(&adapter->link, err);

    *task = NULL;
    *ticket = (struct retry_ticket){0};
    if (rc != RC_OK)
        return rc;
    ticket->id = find_number(adapter, new_task->number, &ended);
    if (ticket->id == 0)
        rc = task_insert(&adapter->link, new_task, task, err);
    if (rc == RC_OK && ticket->id == 0 && !*task)
        ticket->id = find_number(adapter, new_task->number, &ended);
    if (rc == RC_OK && !*task && ticket->id == 0)
        rc = err_fail(err, RC_RETRY, DB_DUPLICATE_CODE, "made and ended by another transaction");
    ticket->existed = !*task;
    if (*task)
        ticket->id = (*task)->base.id;
    else if (ended)
        snprintf(ticket->outcome, sizeof(ticket->outcome), "done");
    return rc == RC_OK ? link_answer(&adapter->link, err) : rc;
}

static enum rc lock_key(struct task_adapter *adapter, const struct task_new *new_task,
                        struct err *err)
{
    enum rc rc = RC_OK;

    if (!new_task->in_order)
        return RC_OK;
    rc = link_call(&adapter->link, err);
    if (rc == RC_OK)
        rc = link_lock(&adapter->link, &tasks_of(&adapter->link)->keys[new_task->key], err);
    return rc == RC_OK ? link_answer(&adapter->link, err) : rc;
}

/* The op of the store: the INSERT and the claim in one transaction. */
static enum rc make_task(void *ctx, const struct retry_new_task *wanted, int64_t lease_ms,
                         retry_on_task on_task, void *on_task_ctx, struct retry_ticket *ticket,
                         struct err *err)
{
    struct fake_task_store *fake = ctx;
    struct task_adapter *adapter = fake->ctx;
    struct sim *sim = adapter->link.db->sim;
    struct task_new new_task = {.scene = scene_of(sim, wanted->scene),
                                .delay_ms = wanted->delay_ms};
    struct sim_task *task = NULL;
    enum rc rc;

    new_task.number = strtoul(wanted->idempotency_key + strlen("number-"), NULL, 10);
    if (wanted->ordering_key)
        new_task.key = (int64_t)strtoul(wanted->ordering_key + strlen("key-"), NULL, 10);
    new_task.in_order = new_task.key > 0 && !sim_chance(sim, sim->plan.task_unlocked);
    rc = link_begin(&adapter->link, err);
    if (rc == RC_OK)
        rc = lock_key(adapter, &new_task, err);
    if (rc == RC_OK)
        rc = insert(adapter, &new_task, &task, ticket, err);
    if (rc == RC_OK && task && lease_ms > 0 && new_task.delay_ms == 0)
        rc = fake_task_claim_made(fake, &task->base, lease_ms, on_task, on_task_ctx, err);
    if (rc == RC_OK && sim_chance(sim, sim->plan.hold))
        sched_pause(&sim->sched, sim_between(sim, 1, 500));
    if (rc == RC_OK)
        rc = link_commit(&adapter->link, err);
    if (rc != RC_OK)
        link_rollback(&adapter->link);
    return rc;
}

/* The promise: no answer comes before its COMMIT. */
static void check_answer(const struct client *client, const struct first_try_result *result)
{
    const struct proc *proc = client->serve->proc;
    struct sim *sim = proc->sim;
    const struct fake_task_version *old = &sim->tasks->tasks[result->ticket.id].base.old;

    sim_tell(sim, proc->name, STORY_ALL, "answers with task %lld, tried %lld, failures %lld",
             result->ticket.id, result->tried, result->attempts);
    if (old->writes == 0)
        sim_fail(sim, STORY_ALL, "accepted: %s answers with task %lld, which is not committed",
                 proc->name, (long long)result->ticket.id);
    else if (!result->ticket.existed && strcmp(result->outcome, "done") == 0 &&
             old->ended != FAKE_TASK_DONE)
        sim_fail(sim, STORY_ALL, "accepted: %s answers that task %lld is done, and it is not",
                 proc->name, (long long)result->ticket.id);
    else if (result->state_known && !result->outcome[0] && old->found &&
             old->attempts < result->attempts)
        sim_fail(sim, STORY_ALL,
                 "accepted: %s answers that task %lld has failed %lld times, "
                 "and %lld are written",
                 proc->name, (long long)result->ticket.id, (long long)result->attempts,
                 (long long)old->attempts);
}

static void on_end(void *ctx, void *owner, const struct first_try_result *result)
{
    struct client *client = owner;

    (void)ctx;
    assert(client->state == CLIENT_WAITS);
    check_answer(client, result);
    client->state = CLIENT_RESTS;
}

static void wake_tries(void *ctx)
{
    struct try_process *serve = ctx;

    if (serve->tries_fiber)
        sched_wake(&serve->proc->sim->sched, serve->tries_fiber);
}

static void wake_worker(void *ctx, size_t worker)
{
    struct try_process *serve = ctx;

    if (serve->workers[worker].fiber)
        sched_wake(&serve->proc->sim->sched, serve->workers[worker].fiber);
}

static int64_t time_ms(void *ctx)
{
    const struct try_process *serve = ctx;

    return proc_clock(serve->proc);
}

/* A request, or a repeated one, as a worker of the queue makes it. */
static void make_request(struct client *client)
{
    struct try_process *serve = client->serve;
    struct sim *sim = serve->proc->sim;
    struct first_try_result result;
    struct err err = {0};
    enum rc rc;

    client->state = CLIENT_WAITS;
    rc = first_tries_make(&serve->tries, &client->task, client, &result, proc_clock(serve->proc),
                          &err);
    if (rc != RC_OK) {
        client->state = sim_chance(sim, 700) ? CLIENT_ASKS : CLIENT_RESTS;
        client->from_ms = sim_now(sim) + sim_between(sim, 1, REPEAT_MS);
        return;
    }
    if (result.begun)
        return;
    check_answer(client, &result);
    client->state = CLIENT_RESTS;
}

static void tries_thread(void *arg)
{
    struct try_process *serve = arg;
    struct sim *sim = serve->proc->sim;

    for (;;) {
        int64_t wait_ms;

        for (size_t i = 0; i < CLIENTS && !serve->proc->stopping; i++)
            if (serve->clients[i].state == CLIENT_ASKS && sim_now(sim) >= serve->clients[i].from_ms)
                make_request(&serve->clients[i]);
        wait_ms = first_tries_step(&serve->tries, proc_clock(serve->proc));
        assert(wait_ms >= 0);
        sched_idle(&sim->sched, wait_ms < REPEAT_MS ? wait_ms : REPEAT_MS);
    }
}

static void renewer_thread(void *arg)
{
    struct try_process *serve = arg;

    for (;;) {
        int64_t wait_ms = lease_renewer_step(&serve->renewer, proc_clock(serve->proc));

        assert(wait_ms >= 0);
        sched_idle(&serve->proc->sim->sched, wait_ms);
    }
}

static void worker_thread(void *arg)
{
    struct work_thread *thread = arg;
    struct proc *proc = thread->serve->proc;

    while (!proc->stopping)
        sched_idle(&proc->sim->sched, pool_worker_step(&thread->worker, proc_clock(proc)));
}

/* Most of the tasks are new; their scenes are not those whose tasks call clients of the group. */
static bool choose_task(struct client *client)
{
    struct sim *sim = client->serve->proc->sim;
    struct task_tables *tables = sim->tasks;
    int scene = (int)sim_below(sim, SCENE_THIRD + 1);
    int64_t key = sim_chance(sim, 500) ? sim_between(sim, 1, sim->plan.task_keys) : 0;
    size_t number;

    if (sim_chance(sim, 100))
        scene = sim_chance(sim, 500) ? SCENE_BROKEN : SCENE_BARE;
    if (task_clients_take(sim, scene) || tables->fake.id_next >= SUBMITTED_MAX)
        return false;
    number = tables->numbers > 0 && sim_chance(sim, 80)
                 ? 1 + (size_t)sim_below(sim, tables->numbers)
                 : ++tables->numbers;
    snprintf(client->scene, sizeof(client->scene), "%s", tables->scenes[scene].name);
    snprintf(client->key, sizeof(client->key), "key-%lld", (long long)key);
    snprintf(client->idempotency, sizeof(client->idempotency), "number-%zu", number);
    client->task = (struct retry_new_task){
        .scene = client->scene,
        .handler = task_scene_handler(scene),
        .ordering_key = key > 0 ? client->key : NULL,
        .idempotency_key = client->idempotency,
        .delay_ms = sim_chance(sim, 50) ? sim_between(sim, 1, 500) : 0,
    };
    return true;
}

static void client_thread(void *arg)
{
    struct client *client = arg;
    struct proc *proc = client->serve->proc;
    struct sim *sim = proc->sim;

    while (sim->writing && !proc->stopping) {
        sched_pause(&sim->sched, sim_between(sim, 1, sim->plan.submit_ms));
        if (client->state != CLIENT_RESTS || !sim->writing || !choose_task(client))
            continue;
        client->from_ms = 0;
        client->state = CLIENT_ASKS;
        wake_tries(client->serve);
    }
}

static void main_thread(void *arg)
{
    struct try_process *serve = arg;
    struct sim *sim = serve->proc->sim;
    int64_t until_ms;

    while (!serve->proc->stopping)
        sched_pause(&sim->sched, 20);
    first_tries_leave(&serve->tries);
    wake_tries(serve);
    until_ms = sim_now(sim) + STOP_MS;
    while (sim_now(sim) < until_ms && !first_tries_left(&serve->tries))
        sched_pause(&sim->sched, 2);
    proc_exit(serve->proc);
}

static void start_engines(struct try_process *serve)
{
    const struct first_tries_config config = {.pool = &serve->pool,
                                              .store = &serve->tries_adapter.ops,
                                              .on_end = on_end,
                                              .ctx = serve,
                                              .seed = sim_rng()};
    enum rc rc = pool_init(&serve->pool, &serve->settings, &serve->handlers, NULL);

    assert(rc == RC_OK);
    serve->pool.wake_dispatcher = wake_tries;
    serve->pool.wake_worker = wake_worker;
    serve->pool.wake_ctx = serve->pool.time_ctx = serve;
    serve->pool.time_ms = time_ms;
    rc = first_tries_init(&serve->tries, &config, NULL);
    assert(rc == RC_OK);
    rc = lease_renewer_init(&serve->renewer, &serve->pool, &serve->renewer_adapter.ops, sim_rng(),
                            NULL);
    assert(rc == RC_OK);
}

static void start_threads(struct try_process *serve)
{
    struct proc *proc = serve->proc;

    for (size_t i = 0; i < WORKERS; i++) {
        serve->workers[i] = (struct work_thread){.serve = serve, .worker = {&serve->pool, i}};
        serve->workers[i].fiber = proc_thread(proc, worker_thread, &serve->workers[i]);
    }
    serve->tries_fiber = proc_thread(proc, tries_thread, serve);
    proc_thread(proc, renewer_thread, serve);
    for (size_t i = 0; i < CLIENTS; i++) {
        serve->clients[i] = (struct client){.serve = serve};
        proc_thread(proc, client_thread, &serve->clients[i]);
    }
    proc_thread(proc, main_thread, serve);
}

static void start(struct proc *proc)
{
    struct try_process *serve = proc->role;

    proc_start(proc, "serve", serve->number);
    task_adapter_init(&serve->tries_adapter, proc);
    task_adapter_init(&serve->renewer_adapter, proc);
    serve->tries_adapter.ops.make = make_task;
    serve->tries_adapter.fake.compare_and_set =
        sim_chance(proc->sim, proc->sim->plan.task_compared);
    serve->settings = proc->sim->settings;
    serve->settings.retry.threads = WORKERS;
    serve->settings.retry.in_flight_max = WORKERS;
    for (size_t i = 0; i < TASK_HANDLERS; i++)
        serve->opened[i] = proc;
    serve->handlers =
        (struct retry_handlers){task_handlers, TASK_HANDLERS, serve->opened, NULL, NULL};
    start_engines(serve);
    start_threads(serve);
}

static void end(struct proc *proc)
{
    struct try_process *serve = proc->role;

    link_close(&serve->tries_adapter.link);
    link_close(&serve->renewer_adapter.link);
    lease_renewer_done(&serve->renewer);
    first_tries_done(&serve->tries);
    pool_done(&serve->pool);
    serve->tries_fiber = NULL;
    memset(serve->workers, 0, sizeof(serve->workers));
}

size_t try_bytes(void)
{
    return sizeof(struct try_process);
}

void try_add(void *memory, struct sim *sim, size_t number)
{
    struct try_process *serve = memory;

    serve->number = number;
    serve->proc = proc_add(sim, serve, start, end);
}
