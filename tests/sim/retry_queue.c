/* SPDX-License-Identifier: MIT */
#include "tests/sim/retry_queue.h"

#include "tests/sim/broker.h"
#include "tests/sim/roles.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct publisher_process {
    struct proc *proc;
    size_t number;
    struct link link;
};

void retry_begin_run(struct retry_tables *retry, struct sim *sim)
{
    (void)sim;
    if (!retry->tasks)
        retry->tasks = calloc(LANE_TASKS_MAX, sizeof(*retry->tasks));
    assert(retry->tasks);
    retry->count = 0;
}

void retry_done(struct retry_tables *retry)
{
    free(retry->tasks);
}

size_t retry_left(const struct sim *sim)
{
    size_t left = 0;

    for (size_t i = 0; i < sim->retry->count; i++)
        left += sim->retry->tasks[i].state == LANE_TASK_WAITING;
    return left;
}

static void task_settle(void *ctx, struct fake_row *base, bool commit)
{
    struct sim *sim = ctx;
    struct lane_task *task = (struct lane_task *)base;

    if (task->state == LANE_TASK_WRITTEN)
        task->state = commit ? LANE_TASK_WAITING : LANE_TASK_NONE;
    if (commit)
        sim_tell(sim, "database", sim->events[task->event].key,
                 "event %lld is in the retry queue of lane %lld", (int64_t)task->event,
                 (int64_t)task->lane, 0);
}

void retry_insert(struct link *link, struct outbox_row *row, const char *ordering_key)
{
    struct retry_tables *retry = link->db->sim->retry;
    struct lane_task *task = &retry->tasks[retry->count++];

    assert(retry->count < LANE_TASKS_MAX);
    *task = (struct lane_task){.state = LANE_TASK_WRITTEN,
                               .lane = row->lane,
                               .event = row->event,
                               .refused = row->refused || row->oversize || row->unsendable};
    snprintf(task->ordering_key, sizeof(task->ordering_key), "%s", ordering_key);
    link_wrote(link, &task->row, task_settle);
}

bool retry_has_key(const struct sim *sim, size_t lane, const char *ordering_key)
{
    for (size_t i = 0; i < sim->retry->count; i++) {
        const struct lane_task *task = &sim->retry->tasks[i];

        if (task->state == LANE_TASK_WAITING && task->lane == lane &&
            strcmp(task->ordering_key, ordering_key) == 0)
            return true;
    }
    return false;
}

bool retry_has_event(const struct sim *sim, size_t event)
{
    for (size_t i = 0; i < sim->retry->count; i++)
        if (sim->retry->tasks[i].state == LANE_TASK_WAITING && sim->retry->tasks[i].event == event)
            return true;
    return false;
}

enum rc retry_load_keys(struct lane_adapter *adapter, size_t keys_max, diverter_on_key on_key,
                        void *on_key_ctx, struct err *err)
{
    const struct retry_tables *retry = adapter->link.db->sim->retry;
    size_t count = 0;

    for (size_t i = 0; i < retry->count && count < keys_max; i++) {
        const struct lane_task *task = &retry->tasks[i];
        bool known = false;
        enum rc rc;

        if (task->state != LANE_TASK_WAITING || task->lane != adapter->lane)
            continue;
        for (size_t j = 0; j < i && !known; j++)
            known = retry->tasks[j].state == LANE_TASK_WAITING &&
                    retry->tasks[j].lane == adapter->lane &&
                    strcmp(retry->tasks[j].ordering_key, task->ordering_key) == 0;
        if (known)
            continue;
        count++;
        rc = on_key(on_key_ctx, task->ordering_key, err);
        if (rc != RC_OK)
            return rc;
    }
    return link_answer(&adapter->link, err);
}

/* The lane's engine */

/* One of those that are the first of their key. */
static struct lane_task *choose(struct sim *sim)
{
    struct lane_task *chosen = NULL;
    size_t seen = 0;

    for (size_t i = 0; i < sim->retry->count; i++) {
        struct lane_task *task = &sim->retry->tasks[i];
        bool first = task->state == LANE_TASK_WAITING;

        for (size_t j = 0; j < i && first; j++)
            first = sim->retry->tasks[j].state != LANE_TASK_WAITING ||
                    sim->retry->tasks[j].lane != task->lane ||
                    strcmp(sim->retry->tasks[j].ordering_key, task->ordering_key) != 0;
        if (first && sim_below(sim, ++seen) == 0)
            chosen = task;
    }
    return chosen;
}

static void end_settle(void *ctx, struct fake_row *base, bool commit)
{
    struct sim *sim = ctx;
    struct lane_task *task = (struct lane_task *)base;

    if (!commit)
        return;
    task->state = LANE_TASK_ENDED;
    sim_tell(sim, "database", sim->events[task->event].key, "the task of event %lld is over",
             (int64_t)task->event, 0, 0);
}

static void task_end(struct publisher_process *retry, struct lane_task *task)
{
    enum rc rc = link_begin(&retry->link, NULL);

    if (rc == RC_OK)
        rc = link_lock(&retry->link, &task->row, NULL);
    if (rc == RC_OK)
        rc = link_call(&retry->link, NULL);
    if (rc == RC_OK && task->state == LANE_TASK_WAITING) {
        link_wrote(&retry->link, &task->row, end_settle);
        rc = link_answer(&retry->link, NULL);
    }
    if (rc == RC_OK)
        rc = link_commit(&retry->link, NULL);
    if (rc != RC_OK)
        link_rollback(&retry->link);
}

/* An attempt may fail, or work and have its answer lost; then there is another one. */
static bool publish(struct publisher_process *retry, const struct lane_task *task)
{
    struct sim *sim = retry->proc->sim;
    const struct event *event = &sim->events[task->event];

    proc_pass(retry->proc);
    if (!sim->healed && sim_chance(sim, task->refused ? 700 : 100))
        return false;
    broker_append(sim, event->kind == EVENT_STEP ? BROKER_STEPS : BROKER_VOTES,
                  broker_partition_of(sim, event->key), task->event);
    proc_pass(retry->proc);
    return sim->healed || !sim_chance(sim, sim->plan.ack_lost);
}

static void work(struct publisher_process *retry)
{
    struct sim *sim = retry->proc->sim;
    struct lane_task *task = choose(sim);

    if (!task)
        return;
    /* An event that other events depend on must not be skipped. */
    if (sim->events[task->event].kind == EVENT_STEP && sim_chance(sim, sim->plan.tasks_skipped)) {
        sim->events[task->event].skipped = true;
        sim_tell(sim, "operator", sim->events[task->event].key, "skips event %lld",
                 (int64_t)task->event, 0, 0);
        task_end(retry, task);
        return;
    }
    if (publish(retry, task))
        task_end(retry, task);
}

static void thread(void *arg)
{
    struct publisher_process *retry = arg;
    struct sim *sim = retry->proc->sim;

    while (!retry->proc->stopping) {
        sched_pause(&sim->sched, sim_between(sim, 1, sim->healed ? 20 : 200));
        work(retry);
    }
    proc_exit(retry->proc);
}

static void start(struct proc *proc)
{
    struct publisher_process *retry = proc->role;

    proc_start(proc, "publisher", retry->number);
    link_init(&retry->link, proc, proc->sim->main_db);
    proc_thread(proc, thread, retry);
}

static void end(struct proc *proc)
{
    struct publisher_process *retry = proc->role;

    link_close(&retry->link);
}

size_t publisher_bytes(void)
{
    return sizeof(struct publisher_process);
}

void publisher_add(void *memory, struct sim *sim, size_t number)
{
    struct publisher_process *retry = memory;

    retry->number = number;
    retry->proc = proc_add(sim, retry, start, end);
}
