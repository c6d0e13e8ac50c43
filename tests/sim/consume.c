/* SPDX-License-Identifier: MIT */
#include "common/loop.h"
#include "consumer/apply/applier.h"
#include "consumer/held/submitter.h"
#include "consumer/ingest/fetch.h"
#include "tests/sim/group.h"
#include "tests/sim/replays.h"
#include "tests/sim/roles.h"
#include "tests/sim/sink.h"

#include <stdlib.h>

#define APPLIERS_MAX 2

struct consumer_process;

struct apply_thread {
    struct consumer_process *consumer;
    struct sink_adapter adapter;
    struct applier applier;
    struct fiber *fiber;
    int64_t late_ms; /* it waits for the processor at most so long: jobs gather meanwhile */
    bool busy;
};

struct consumer_process {
    struct proc *proc;
    size_t number;
    struct member member;
    struct apply_thread appliers[APPLIERS_MAX];
    struct fetch_link links[APPLIERS_MAX];
    size_t applier_count;
    struct fetch fetch;
    struct held_adapter held_adapter;
    struct submitter submitter;
    struct fiber *submit_fiber;
    bool submits; /* the log of this run refuses votes now and then */
    bool submit_busy;
    struct fiber *fiber;
    bool busy;
    bool failed; /* a step has ended: the supervisor starts a new process */
};

static void wake(void *fiber)
{
    struct fiber **to = fiber;

    if (*to)
        sched_wake(&sim_running->sched, *to);
}

static void loop(struct consumer_process *consumer, loop_step step, void *engine)
{
    struct proc *proc = consumer->proc;
    struct sim *sim = proc->sim;

    while (!proc->stopping) {
        int64_t wait_ms = step(engine, proc_clock(proc));

        if (wait_ms == LOOP_END) {
            consumer->failed = true;
            proc->stopping = true;
        }
        if (!proc->stopping)
            sched_idle(&sim->sched, wait_ms + (sim_chance(sim, 30) ? 5 : 0));
    }
}

static void fetch_thread(void *arg)
{
    struct consumer_process *consumer = arg;

    loop(consumer, fetch_step, &consumer->fetch);
    consumer->busy = false;
}

static int64_t late_step(void *arg, int64_t now_ms)
{
    struct apply_thread *thread = arg;
    struct proc *proc = thread->consumer->proc;

    if (thread->late_ms > 0 && !proc->sim->healed) {
        sched_pause(&proc->sim->sched, sim_between(proc->sim, 0, thread->late_ms));
        now_ms = proc_clock(proc);
    }
    return applier_step(&thread->applier, now_ms);
}

static void apply_main(void *arg)
{
    struct apply_thread *thread = arg;

    loop(thread->consumer, late_step, thread);
    thread->busy = false;
}

static void submit_main(void *arg)
{
    struct consumer_process *consumer = arg;

    loop(consumer, submitter_step, &consumer->submitter);
    consumer->submit_busy = false;
}

static void on_held(void *ctx)
{
    struct consumer_process *consumer = ctx;

    submitter_request(&consumer->submitter);
    wake(&consumer->submit_fiber);
}

static void submitter_start(struct consumer_process *consumer)
{
    struct proc *proc = consumer->proc;

    held_adapter_init(&consumer->held_adapter, proc);
    if (submitter_init(&consumer->submitter, &consumer->held_adapter.store, "tallybox", sim_rng,
                       NULL) != RC_OK)
        abort(); /* no memory */
    consumer->submit_busy = true;
    consumer->submit_fiber = proc_thread(proc, submit_main, consumer);
}

static bool threads_run(const struct consumer_process *consumer)
{
    bool run = consumer->busy || consumer->submit_busy;

    for (size_t i = 0; i < consumer->applier_count; i++)
        run = run || consumer->appliers[i].busy;
    return run;
}

static void main_thread(void *arg)
{
    struct consumer_process *consumer = arg;
    struct sched *sched = &consumer->proc->sim->sched;

    while (!consumer->proc->stopping)
        sched_idle(sched, 50);
    wake(&consumer->fiber);
    wake(&consumer->submit_fiber);
    for (size_t i = 0; i < consumer->applier_count; i++)
        wake(&consumer->appliers[i].fiber);
    while (threads_run(consumer))
        sched_pause(sched, 1);
    fetch_finish(&consumer->fetch, proc_clock(consumer->proc));
    member_leave(&consumer->member);
    proc_exit(consumer->proc);
}

static void applier_start(struct consumer_process *consumer, size_t number, size_t rows_max)
{
    struct apply_thread *thread = &consumer->appliers[number];
    struct applier_config config = {
        .sink = &thread->adapter.ops,
        .owner = consumer->proc->name,
        .batch_rows_max = rows_max,
        .keep_lasts = consumer->proc->sim->plan.anyone,
        .jobs_max = 4, /* small, so that rings are full now and then */
        .rng = sim_rng,
        .clock_us = sim_clock_us,
        .on_held = consumer->submits ? on_held : NULL,
        .held_ctx = consumer,
        .wake_fetch = wake,
        .wake_ctx = &consumer->fiber,
    };

    thread->consumer = consumer;
    thread->busy = true;
    thread->late_ms =
        sim_chance(consumer->proc->sim, 400) ? sim_between(consumer->proc->sim, 1, 600) : 0;
    sink_adapter_init(&thread->adapter, consumer->proc);
    if (applier_init(&thread->applier, &config, NULL) != RC_OK)
        abort(); /* no memory */
    consumer->links[number] = (struct fetch_link){.given = &thread->applier.given,
                                                  .done = &thread->applier.done,
                                                  .wake = wake,
                                                  .wake_ctx = &thread->fiber,
                                                  .reconnects = &thread->applier.reconnects};
    thread->fiber = proc_thread(consumer->proc, apply_main, thread);
}

static void start(struct proc *proc)
{
    struct consumer_process *consumer = proc->role;
    struct sim *sim = proc->sim;
    size_t rows_max = (size_t)sim_between(sim, 1, 12);
    size_t appliers = (size_t)sim_between(sim, 1, APPLIERS_MAX);
    struct fetch_config config = {
        .stream = &consumer->member.ops,
        .links = consumer->links,
        .link_count = appliers,
        .batch_rows_max = rows_max,
        .batch_bytes_max = 100000,
        .batches_max = (size_t)sim_between(sim, 1, 12),
        .batch_wait_ms = sim_between(sim, 0, 20),
        .rng = sim_rng,
        .wall_ms = sim_wall_ms,
    };

    proc_start(proc, "consume", consumer->number);
    consumer->failed = false;
    consumer->submit_busy = false;
    consumer->submits = sim->plan.replayers > 0;
    if (consumer->submits)
        submitter_start(consumer);
    consumer->applier_count = appliers;
    member_init(&consumer->member, proc, (int)consumer->number);
    for (size_t i = 0; i < consumer->applier_count; i++)
        applier_start(consumer, i, rows_max);
    if (fetch_init(&consumer->fetch, &config, NULL) != RC_OK)
        abort(); /* no memory */
    consumer->busy = true;
    consumer->fiber = proc_thread(proc, fetch_thread, consumer);
    consumer->member.fetch = consumer->fiber;
    proc_thread(proc, main_thread, consumer);
}

static void end(struct proc *proc)
{
    struct consumer_process *consumer = proc->role;

    if (proc->sim->group->members[consumer->number] == &consumer->member)
        member_gone(&consumer->member);
    for (size_t i = 0; i < consumer->applier_count; i++) {
        link_close(&consumer->appliers[i].adapter.link);
        applier_done(&consumer->appliers[i].applier);
        consumer->appliers[i].fiber = NULL;
    }
    fetch_done(&consumer->fetch);
    consumer->fiber = NULL;
    if (consumer->submits) {
        held_adapter_close(&consumer->held_adapter);
        submitter_done(&consumer->submitter);
        consumer->submit_fiber = NULL;
    }
}

size_t consumer_bytes(void)
{
    return sizeof(struct consumer_process);
}

void consumer_add(void *memory, struct sim *sim, size_t number)
{
    struct consumer_process *consumer = memory;

    consumer->number = number;
    consumer->proc = proc_add(sim, consumer, start, end);
}
