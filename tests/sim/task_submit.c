/* SPDX-License-Identifier: MIT */
/* Applications that make tasks in transactions of their own: some lock what gives their tasks an
 * order, all of them may hang, collide and roll back. */
#include "tests/sim/roles.h"
#include "tests/sim/tasks.h"

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
        rc = link_lock(&submitter->link, &submitter->proc->world->tasks->keys[key], err);
    return rc == RC_OK ? link_answer(&submitter->link, err) : rc;
}

static enum rc insert(struct submitter_process *submitter, int64_t key, bool in_order,
                      struct err *err)
{
    struct world *world = submitter->proc->world;
    struct task_tables *tables = world->tasks;
    struct task_new new_task = {
        .scene = (int)world_below(world, SCENE_THIRD + 1),
        .key = key,
        .in_order = in_order,
        .delay_ms = world_chance(world, 200) ? world_between(world, 0, 1500) : 0,
    };
    struct sim_task *task;
    enum rc rc = link_call(&submitter->link, err);

    if (world_chance(world, 60))
        new_task.scene = world_chance(world, 500) ? SCENE_BROKEN : SCENE_BARE;
    if (key == 0 && world_chance(world, 30))
        new_task.scene = SCENE_STRANGE;
    /* Now and then one that was submitted before. */
    new_task.number = tables->numbers > 0 && world_chance(world, 80)
                          ? 1 + (size_t)world_below(world, tables->numbers)
                          : ++tables->numbers;
    if (rc == RC_OK)
        rc = task_insert(&submitter->link, &new_task, &task, err);
    return rc == RC_OK ? link_answer(&submitter->link, err) : rc;
}

static enum rc transaction(struct submitter_process *submitter, struct err *err)
{
    struct world *world = submitter->proc->world;
    int64_t key = world_chance(world, 700) ? world_between(world, 1, world->plan.task_keys) : 0;
    bool in_order = key > 0 && !world_chance(world, world->plan.task_unlocked);
    size_t count = (size_t)world_between(world, 1, TASKS_MAX);
    enum rc rc = link_begin(&submitter->link, err);

    if (rc == RC_OK && in_order)
        rc = key_lock(submitter, key, err);
    for (size_t i = 0; rc == RC_OK && i < count; i++)
        rc = insert(submitter, key, in_order, err);
    if (rc == RC_OK && world_chance(world, world->plan.hold))
        sched_pause(&world->sched, world_between(world, 1, 2000));
    if (rc != RC_OK)
        return rc;
    if (world_chance(world, world->plan.roll_back)) {
        link_rollback(&submitter->link);
        return RC_OK;
    }
    return link_commit(&submitter->link, err);
}

static void thread(void *arg)
{
    struct submitter_process *submitter = arg;
    struct world *world = submitter->proc->world;
    struct err err;

    while (world->writing && !submitter->proc->stopping) {
        sched_pause(&world->sched, world_between(world, 1, world->plan.submit_ms));
        if (world->writing && world->tasks->id_next < SUBMITTED_MAX &&
            transaction(submitter, &err) != RC_OK)
            link_rollback(&submitter->link);
    }
    proc_exit(submitter->proc);
}

static void start(struct proc *proc)
{
    struct submitter_process *submitter = proc->role;

    proc_start(proc, "submitter", submitter->number);
    link_init(&submitter->link, proc, proc->world->main_db);
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

void submitter_add(void *memory, struct world *world, size_t number)
{
    struct submitter_process *submitter = memory;

    submitter->number = number;
    submitter->proc = proc_add(world, submitter, start, end);
}
