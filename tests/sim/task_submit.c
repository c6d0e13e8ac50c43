/* SPDX-License-Identifier: MIT */
/* Applications that make tasks in transactions of their own: some lock a row that orders their
 * tasks; all of them may hang, conflict and roll back. */
#include "producer/task/retry_traffic.h"
#include "tests/sim/roles.h"
#include "tests/sim/tasks.h"

#include <stdio.h>
#include <string.h>

#define SCENE_TEXT_SIZE (2 * RETRY_NAME_BYTES_MAX + 2)

#define TASKS_MAX 4
#define SUBMITTED_MAX 300

struct submitter_process {
    struct proc *proc;
    size_t number;
    struct link link;
};

static enum rc key_lock(struct submitter_process *submitter, int64_t key, struct err *err)
{
    enum rc rc = link_call(&submitter->link, err);

    if (rc == RC_OK)
        rc = link_lock(&submitter->link, &submitter->proc->sim->tasks->keys[key], err);
    return rc == RC_OK ? link_answer(&submitter->link, err) : rc;
}

static enum rc insert(struct submitter_process *submitter, int64_t key, bool in_order,
                      struct err *err)
{
    struct sim *sim = submitter->proc->sim;
    struct task_tables *tables = sim->tasks;
    struct task_new new_task = {
        .scene = (int)sim_below(sim, SCENE_THIRD + 1),
        .key = key,
        .in_order = in_order,
        .delay_ms = sim_chance(sim, 200) ? sim_between(sim, 0, 1500) : 0,
    };
    struct sim_task *task;
    enum rc rc = link_call(&submitter->link, err);

    if (sim_chance(sim, 60))
        new_task.scene = sim_chance(sim, 500) ? SCENE_BROKEN : SCENE_BARE;
    if (key == 0 && sim_chance(sim, 30))
        new_task.scene = SCENE_STRANGE;
    /* Now and then one that was submitted before. */
    new_task.number = tables->numbers > 0 && sim_chance(sim, 80)
                          ? 1 + (size_t)sim_below(sim, tables->numbers)
                          : ++tables->numbers;
    if (rc == RC_OK)
        rc = task_insert(&submitter->link, &new_task, &task, err);
    return rc == RC_OK ? link_answer(&submitter->link, err) : rc;
}

/* A task that a called system submits during an attempt. A task of the attempt's own scene, or of
 * an attempt that asks for no retry, must be refused: it would multiply the calls. */
static enum rc insert_traffic(struct submitter_process *submitter, struct err *err)
{
    struct sim *sim = submitter->proc->sim;
    const struct sim_traffic traffic = sim->tasks->traffic;
    const struct retry_traffic headers = {.no_retry = traffic.no_retry, .scene = traffic.from};
    const char *scene = sim->tasks->scenes[traffic.scene].name;
    const struct task_new new_task = {.scene = traffic.scene, .number = ++sim->tasks->numbers};
    char own[SCENE_TEXT_SIZE];
    struct request_fault fault;
    struct sim_task *task;
    enum rc rc;

    sim->tasks->traffic.waits = false;
    if (retry_traffic_refuses(&headers, RETRY_GROUP_DEFAULT, scene, &fault))
        return RC_OK;
    snprintf(own, sizeof(own), "%s/%s", RETRY_GROUP_DEFAULT, scene);
    if (traffic.no_retry || strcmp(traffic.from, own) == 0)
        sim_fail(sim, STORY_ALL, "traffic: an attempt of %s makes a task of %s", traffic.from, own);
    rc = link_call(&submitter->link, err);
    if (rc == RC_OK)
        rc = task_insert(&submitter->link, &new_task, &task, err);
    return rc == RC_OK ? link_answer(&submitter->link, err) : rc;
}

static enum rc transaction(struct submitter_process *submitter, struct err *err)
{
    struct sim *sim = submitter->proc->sim;
    int64_t key = sim_chance(sim, 700) ? sim_between(sim, 1, sim->plan.task_keys) : 0;
    bool in_order = key > 0 && !sim_chance(sim, sim->plan.task_unlocked);
    size_t count = (size_t)sim_between(sim, 1, TASKS_MAX);
    enum rc rc = link_begin(&submitter->link, err);

    if (rc == RC_OK && in_order)
        rc = key_lock(submitter, key, err);
    for (size_t i = 0; rc == RC_OK && i < count; i++)
        rc = insert(submitter, key, in_order, err);
    if (rc == RC_OK && sim->tasks->traffic.waits)
        rc = insert_traffic(submitter, err);
    if (rc == RC_OK && sim_chance(sim, sim->plan.hold))
        sched_pause(&sim->sched, sim_between(sim, 1, 2000));
    if (rc != RC_OK)
        return rc;
    if (sim_chance(sim, sim->plan.roll_back)) {
        link_rollback(&submitter->link);
        return RC_OK;
    }
    return link_commit(&submitter->link, err);
}

static void thread(void *arg)
{
    struct submitter_process *submitter = arg;
    struct sim *sim = submitter->proc->sim;
    struct err err;

    while (sim->writing && !submitter->proc->stopping) {
        sched_pause(&sim->sched, sim_between(sim, 1, sim->plan.submit_ms));
        if (sim->writing && sim->tasks->fake.id_next < SUBMITTED_MAX &&
            transaction(submitter, &err) != RC_OK)
            link_rollback(&submitter->link);
    }
    proc_exit(submitter->proc);
}

static void start(struct proc *proc)
{
    struct submitter_process *submitter = proc->role;

    proc_start(proc, "submitter", submitter->number);
    link_init(&submitter->link, proc, proc->sim->main_db);
    proc_thread(proc, thread, submitter);
}

static void end(struct proc *proc)
{
    struct submitter_process *submitter = proc->role;

    link_close(&submitter->link);
}

size_t submitter_bytes(void)
{
    return sizeof(struct submitter_process);
}

void submitter_add(void *memory, struct sim *sim, size_t number)
{
    struct submitter_process *submitter = memory;

    submitter->number = number;
    submitter->proc = proc_add(sim, submitter, start, end);
}
