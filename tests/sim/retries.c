/* SPDX-License-Identifier: MIT */
#include "common/loop.h"
#include "outbox/retry/dispatcher.h"
#include "outbox/retry/lease_renewer.h"
#include "outbox/retry/pool.h"
#include "outbox/retry/shard_leases.h"
#include "tests/sim/group_shards.h"
#include "tests/sim/roles.h"
#include "tests/sim/tables.h"
#include "tests/sim/task_work.h"

#include <assert.h>
#include <string.h>

#define STOP_MS 800
#define WORKERS_MAX 3

struct retry_process;

struct work_thread {
    struct retry_process *retry;
    struct pool_worker worker;
    struct fiber *fiber;
};

struct retry_process {
    struct proc *proc;
    size_t number;
    struct settings settings;
    struct task_adapter dispatcher_adapter;
    struct task_adapter renewer_adapter;
    struct lease_adapter lease_adapters[TASK_HANDLERS];
    struct shard_leases leases;
    void *opened[TASK_HANDLERS];
    struct retry_handlers handlers;
    struct pool pool;
    struct dispatcher dispatcher;
    struct lease_renewer renewer;
    struct work_thread workers[WORKERS_MAX];
    struct fiber *dispatcher_fiber;
};

static void wake_dispatcher(void *ctx)
{
    struct retry_process *retry = ctx;

    if (retry->dispatcher_fiber)
        sched_wake(&retry->proc->sim->sched, retry->dispatcher_fiber);
}

static void wake_worker(void *ctx, size_t worker)
{
    struct retry_process *retry = ctx;

    if (retry->workers[worker].fiber)
        sched_wake(&retry->proc->sim->sched, retry->workers[worker].fiber);
}

static int64_t time_ms(void *ctx)
{
    const struct retry_process *retry = ctx;

    return proc_clock(retry->proc);
}

/* A loop of common/loop.h, which also runs while the process stops. */
static void loop(struct proc *proc, loop_step step, void *engine)
{
    for (;;) {
        int64_t wait_ms = step(engine, proc_clock(proc));

        assert(wait_ms >= 0);
        sched_idle(&proc->sim->sched, wait_ms + (sim_chance(proc->sim, 30) ? 5 : 0));
    }
}

static int64_t step_dispatcher(void *arg, int64_t now_ms)
{
    struct retry_process *retry = arg;

    retry->dispatcher_adapter.step_ms = now_ms;
    return dispatcher_step(&retry->dispatcher, now_ms);
}

static void dispatcher_thread(void *arg)
{
    struct retry_process *retry = arg;

    loop(retry->proc, step_dispatcher, retry);
}

static void renewer_thread(void *arg)
{
    struct retry_process *retry = arg;

    loop(retry->proc, lease_renewer_step, &retry->renewer);
}

static void leases_thread(void *arg)
{
    struct retry_process *retry = arg;
    struct proc *proc = retry->proc;

    while (!proc->stopping)
        sched_idle(&proc->sim->sched, shard_leases_step(&retry->leases, proc_clock(proc)));
}

static void worker_thread(void *arg)
{
    struct work_thread *thread = arg;

    struct proc *proc = thread->retry->proc;

    /* The dispatcher gives back the tasks that have not begun when the process stops. */
    while (!proc->stopping)
        sched_idle(&proc->sim->sched, pool_worker_step(&thread->worker, proc_clock(proc)));
}

static void main_thread(void *arg)
{
    struct retry_process *retry = arg;
    struct sim *sim = retry->proc->sim;
    int64_t until_ms;

    while (!retry->proc->stopping)
        sched_pause(&sim->sched, 20);
    dispatcher_leave(&retry->dispatcher);
    wake_dispatcher(retry);
    until_ms = sim_now(sim) + STOP_MS;
    while (sim_now(sim) < until_ms && !dispatcher_left(&retry->dispatcher))
        sched_pause(&sim->sched, 2);
    shard_leases_release(&retry->leases);
    proc_exit(retry->proc);
}

static void threads_start(struct retry_process *retry)
{
    struct proc *proc = retry->proc;

    for (size_t i = 0; i < retry->pool.workers; i++) {
        struct work_thread *thread = &retry->workers[i];

        *thread = (struct work_thread){.retry = retry, .worker = {&retry->pool, i}};
        thread->fiber = proc_thread(proc, worker_thread, thread);
    }
    retry->dispatcher_fiber = proc_thread(proc, dispatcher_thread, retry);
    proc_thread(proc, renewer_thread, retry);
    proc_thread(proc, leases_thread, retry);
    proc_thread(proc, main_thread, retry);
}

static void leases_start(struct retry_process *retry)
{
    struct lease_store stores[TASK_HANDLERS];
    enum rc rc;

    for (size_t i = 0; i < TASK_HANDLERS; i++) {
        struct lease_adapter *adapter = &retry->lease_adapters[i];

        *adapter =
            (struct lease_adapter){.of_shards = true,
                                   .handler = i,
                                   .lane_count = pool_shares(&retry->pool) ? TASK_SHARDS : 0};
        link_init(&adapter->link, retry->proc, retry->proc->sim->main_db);
        stores[i] = tables_leases(adapter);
    }
    rc =
        shard_leases_init(&retry->leases, &retry->pool, retry->proc->name, stores, sim_rng(), NULL);
    assert(rc == RC_OK);
}

/* The first process runs all handlers; each life of another one may lack some. */
static void handlers_choose(struct retry_process *retry)
{
    struct sim *sim = retry->proc->sim;

    for (size_t i = 0; i < TASK_HANDLERS; i++)
        retry->opened[i] =
            retry->number == 0 || !sim_chance(sim, sim->plan.task_lacking) ? retry->proc : NULL;
    retry->handlers =
        (struct retry_handlers){task_handlers, TASK_HANDLERS, retry->opened, NULL, NULL};
}

/* Where a group has shards, a process that leases none has its own part of them. */
static void settings_choose(struct retry_process *retry)
{
    struct sim *sim = retry->proc->sim;

    retry->settings = sim->settings;
    if (sim->plan.shard_lists_ms > 0 && strcmp(sim->settings.retry.shards, "auto") != 0)
        group_shards_fix(sim, retry->number, retry->settings.retry.shards,
                         sizeof(retry->settings.retry.shards));
}

static void start(struct proc *proc)
{
    struct retry_process *retry = proc->role;
    enum rc rc;

    proc_start(proc, "retry", retry->number);
    task_adapter_init(&retry->dispatcher_adapter, proc);
    task_adapter_init(&retry->renewer_adapter, proc);
    retry->dispatcher_adapter.fake.compare_and_set =
        sim_chance(proc->sim, proc->sim->plan.task_compared);
    handlers_choose(retry);
    memset(retry->workers, 0, sizeof(retry->workers));
    settings_choose(retry);
    rc = pool_init(&retry->pool, &retry->settings, &retry->handlers, NULL);
    assert(rc == RC_OK);
    assert(retry->pool.workers <= WORKERS_MAX);
    retry->dispatcher_adapter.pool = &retry->pool;
    retry->pool.wake_dispatcher = wake_dispatcher;
    retry->pool.wake_worker = wake_worker;
    retry->pool.wake_ctx = retry->pool.time_ctx = retry;
    retry->pool.time_ms = time_ms;
    rc = dispatcher_init(&retry->dispatcher, &retry->pool, &retry->dispatcher_adapter.ops,
                         sim_rng(), NULL);
    assert(rc == RC_OK);
    rc = lease_renewer_init(&retry->renewer, &retry->pool, &retry->renewer_adapter.ops, sim_rng(),
                            NULL);
    assert(rc == RC_OK);
    leases_start(retry);
    threads_start(retry);
    task_clients_open(proc);
}

static void end(struct proc *proc)
{
    struct retry_process *retry = proc->role;

    link_close(&retry->dispatcher_adapter.link);
    link_close(&retry->renewer_adapter.link);
    for (size_t i = 0; i < TASK_HANDLERS; i++)
        link_close(&retry->lease_adapters[i].link);
    task_clients_close(proc);
    shard_leases_done(&retry->leases);
    lease_renewer_done(&retry->renewer);
    dispatcher_done(&retry->dispatcher);
    pool_done(&retry->pool);
    retry->dispatcher_fiber = NULL;
    memset(retry->workers, 0, sizeof(retry->workers));
}

size_t retry_bytes(void)
{
    return sizeof(struct retry_process);
}

void retry_add(void *memory, struct sim *sim, size_t number)
{
    struct retry_process *retry = memory;

    retry->number = number;
    retry->proc = proc_add(sim, retry, start, end);
}
