/* SPDX-License-Identifier: MIT */
/* The parts of serve that delete remarks and keep recommended lists: the remover on fakes of its
 * stores, and clients that delete and check the answers. */
#include "common/loop.h"
#include "producer/remark/remover.h"
#include "tests/sim/rankings.h"
#include "tests/sim/removals.h"
#include "tests/sim/roles.h"

#include <assert.h>
#include <stddef.h>
#include <stdlib.h>

#define TIMEOUT_MS 5000

struct serve_process {
    struct proc *proc;
    size_t number;
    struct removal_adapter adapter;
    struct page_cache *pages; /* empty: it tells the lists of a deletion */
    struct ranking_process ranking;
    struct queue *queue;
    struct remover *remover;
    struct fiber *remover_fiber;
    struct stop stop; /* never requested: a process is killed, or its threads end */
    struct removal_request request;
    enum queue_end end;
    bool answered;
    bool released;
};

static void wake_remover(void *ctx, size_t shard)
{
    struct serve_process *serve = ctx;

    (void)shard;
    if (serve->remover_fiber)
        sched_wake(&serve->proc->sim->sched, serve->remover_fiber);
}

static struct serve_process *serve_of(struct queue_entry *entry)
{
    return (struct serve_process *)((char *)entry - offsetof(struct serve_process, request));
}

static void answer(struct queue_entry *entry, enum queue_end end)
{
    serve_of(entry)->answered = true;
    serve_of(entry)->end = end;
}

static void release(struct queue_entry *entry)
{
    serve_of(entry)->released = true;
}

/* The promise: a deletion is answered when the remark is marked and its content closed. Known:
 * there was the remark when the request was made. If not, a content that an application has deleted
 * is answered as a remark that was removed before. */
static void check_answer(struct serve_process *serve, bool known)
{
    struct sim *sim = serve->proc->sim;
    int64_t content = serve->request.id;
    const struct fake_removal_version *remark = &sim->removals->remarks[content].old;
    const struct fake_deletion_version *deletion = &sim->removals->deletions[content].old;

    if (serve->end != QUEUE_DONE || (!known && deletion->found))
        return;
    if (serve->request.end == REMOVAL_NOT_FOUND && known)
        sim_fail(sim, content, "accepted: %s does not find the remark of content %lld",
                 serve->proc->name, (long long)content);
    if (serve->request.end == REMOVAL_DONE &&
        ((remark->found && !remark->deleted) || !deletion->closed))
        sim_fail(sim, content,
                 "accepted: %s answered the deletion of content %lld, which is not committed",
                 serve->proc->name, (long long)content);
}

static void request_removal(struct serve_process *serve)
{
    struct proc *proc = serve->proc;
    struct sim *sim = proc->sim;
    int64_t content = sim_between(sim, 1, SIM_CONTENTS);
    bool known = sim->removals->remarks[content].old.found || removals_was_removed(sim, content);
    int64_t wait_ms;

    serve->request = (struct removal_request){
        .entry = {.weight = 1, .answer = answer, .release = release}, .id = content};
    serve->answered = serve->released = false;
    if (queue_put(serve->queue, 0, &serve->request.entry, proc_clock(proc), &wait_ms) !=
        QUEUE_TAKEN)
        return;
    while (!serve->answered) {
        sched_pause(&sim->sched, sim_between(sim, 1, 20));
        queue_expire(serve->queue, proc_clock(proc));
    }
    check_answer(serve, known);
    while (!serve->released)
        sched_pause(&sim->sched, 20);
}

static void client_thread(void *arg)
{
    struct serve_process *serve = arg;
    struct sim *sim = serve->proc->sim;

    while (sim->writing && !serve->proc->stopping) {
        sched_pause(&sim->sched, sim_between(sim, 20, sim_chance(sim, 500) ? 300 : 3000));
        request_removal(serve);
    }
}

static void remover_thread(void *arg)
{
    struct serve_process *serve = arg;
    struct proc *proc = serve->proc;

    while (!proc->stopping) {
        int64_t wait_ms = remover_step(serve->remover, proc_clock(proc));

        if (wait_ms == LOOP_END)
            break;
        if (!proc->stopping)
            sched_idle(&proc->sim->sched, wait_ms);
    }
    proc_exit(proc);
}

static void start(struct proc *proc)
{
    struct serve_process *serve = proc->role;
    const struct queue_config queue = {.shards = 1,
                                       .weight_max = 10,
                                       .timeout_ms = TIMEOUT_MS,
                                       .breaker_base_ms = 100,
                                       .breaker_cap_ms = 2000,
                                       .wake = wake_remover,
                                       .wake_ctx = serve,
                                       .name = "removals",
                                       .dep = "sink",
                                       .dep_more = "mysql"};
    struct remover_config config = {
        .store = &serve->adapter.ops,
        .marks = {[REMOVAL_REMARKS] = &serve->adapter.marks},
        .close = {.store = &serve->adapter.votes_ops,
                  .lane_count = proc->sim->plan.lanes,
                  .rng_bytes = removals_rng_bytes},
        .rng = sim_rng,
        .stop = &serve->stop,
    };
    const struct page_cache_config pages = {.dropped = ranking_written,
                                            .dropped_ctx = &serve->ranking};

    proc_start(proc, "serve", serve->number);
    removal_adapter_init(&serve->adapter, proc);
    if (queue_open(&serve->queue, &queue, NULL) != RC_OK)
        abort(); /* no memory */
    if (page_cache_open(&serve->pages, &pages, NULL) != RC_OK)
        abort(); /* no memory */
    config.queue = serve->queue;
    config.pages = serve->pages;
    if (remover_open(&serve->remover, &config, NULL) != RC_OK)
        abort(); /* no memory */
    serve->remover_fiber = proc_thread(proc, remover_thread, serve);
    proc_thread(proc, client_thread, serve);
    ranking_start(&serve->ranking, proc);
}

static void end(struct proc *proc)
{
    struct serve_process *serve = proc->role;

    serve->remover_fiber = NULL;
    removal_adapter_close(&serve->adapter);
    remover_close(serve->remover);
    queue_drop(serve->queue);
    queue_free(serve->queue);
    page_cache_free(serve->pages);
    ranking_end(&serve->ranking);
}

size_t serve_bytes(void)
{
    return sizeof(struct serve_process);
}

void serve_add(void *memory, struct sim *sim, size_t number)
{
    struct serve_process *serve = memory;

    serve->number = number;
    serve->proc = proc_add(sim, serve, start, end);
}
