/* SPDX-License-Identifier: MIT */
#include "tests/sim/task_promises.h"

#include "tests/sim/tasks.h"

#include <stdio.h>
#include <string.h>

/* It may stay as it is for ever. */
static bool rests(const struct sim *sim, const struct sim_task *task)
{
    struct order_ahead ahead;

    switch (task->base.old.state) {
    case TASK_WAITING:
        return task->scene == SCENE_STRANGE;
    case TASK_BLOCKED:
    case TASK_PARKED:
        return sim->plan.tasks_left;
    case TASK_QUEUED:
        fake_tasks_ahead(&sim->tasks->fake, NULL, task->base.key, &ahead);
        return ahead.busy.id > 0 && ahead.busy.state != TASK_RUNNING;
    case TASK_RUNNING:
        break;
    }
    return false;
}

bool task_promises_rest(const struct sim *sim, struct waiting *waiting)
{
    const struct task_tables *tables = sim->tasks;

    if (sim->plan.retries == 0)
        return true;
    for (int64_t id = tables->fake.first_live; id < tables->fake.id_next; id++) {
        const struct sim_task *task = &tables->tasks[id];

        if (task->base.row.owner)
            return snprintf(waiting->text, sizeof(waiting->text), "task %lld is locked",
                            (long long)id) < 0;
        if (!task->base.old.found || rests(sim, task))
            continue;
        return snprintf(waiting->text, sizeof(waiting->text),
                        "task %lld of key %lld has state %d, epoch %lld, %lld attempts",
                        (long long)id, (long long)task->base.key, (int)task->base.old.state,
                        (long long)task->base.old.epoch, (long long)task->base.old.attempts) < 0;
    }
    return true;
}

/* For a task that has ended; a parked task has ended, too. */
static void check_callback(struct sim *sim, const struct sim_task *task)
{
    const struct task_tables *tables = sim->tasks;
    const struct sim_scene_row *scene = &tables->scenes[task->scene];
    const struct callback_target *wanted =
        task->base.old.ended == FAKE_TASK_DONE        ? &scene->policy.on_done
        : task->base.old.ended == FAKE_TASK_CANCELLED ? &scene->policy.on_cancelled
                                                      : &scene->policy.on_exhausted;
    int64_t count = 0;

    if (task->base.old.ended != FAKE_TASK_DONE && task->base.old.ended != FAKE_TASK_EXHAUSTED &&
        task->base.old.ended != FAKE_TASK_CANCELLED)
        return;
    for (int64_t id = task->base.id + 1; id < tables->fake.id_next; id++)
        count += tables->tasks[id].parent == task->base.id &&
                 tables->tasks[id].base.old.writes > 0 &&
                 tables->tasks[id].parent_ended == task->base.old.ended;
    if ((count > 0) != (wanted->scene[0] != '\0') && task->scene != SCENE_BROKEN)
        sim_fail(sim, STORY_ALL, "callback: task %lld has %lld of them", (long long)task->base.id,
                 (long long)count);
}

void task_promises_check(struct sim *sim)
{
    const struct task_tables *tables = sim->tasks;

    for (int64_t id = 1; id < tables->fake.id_next && !sim->failed; id++)
        if (tables->tasks[id].base.old.writes > 0)
            check_callback(sim, &tables->tasks[id]);
}

void task_promise_recorded(const struct task_adapter *adapter, const char *name)
{
    struct proc *proc = adapter->link.proc;

    for (int i = 0; i < SIM_SCENES; i++) {
        const struct sim_scene_row *scene = &proc->sim->tasks->scenes[i];

        if (scene->paused && scene->paused_change <= adapter->recorded &&
            strcmp(scene->name, name) == 0)
            sim_fail(proc->sim, STORY_ALL,
                     "pause: %s claims of scene %s, and has recorded its pause, change %lld",
                     proc->name, name, (long long)scene->paused_change);
    }
}
