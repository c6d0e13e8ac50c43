/* SPDX-License-Identifier: MIT */
/* A person at the command line of the retry queue: runs, unparks and cancels tasks, pauses scenes,
 * corrects policies. Each action is one transaction, as `tallybox retry` makes it. */
#include "tests/sim/roles.h"
#include "tests/sim/tasks.h"

/* Runs a task that would wait for longer. */
#define PATIENCE_MS 5000

struct operator_process {
    struct proc *proc;
    size_t number;
    struct link link;
};

enum action { ACTION_CANCEL, ACTION_UNPARK, ACTION_RUN_NOW, ACTIONS };

/* A parked one comes back from the history, or gives way where its idempotency key is in use. */
static void unpark(struct link *link, struct sim_task *task)
{
    struct task_tables *tables = tasks_of(link);
    bool parked = task->now.state == TASK_PARKED;

    for (int64_t id = tables->first_live; parked && id < tables->id_next; id++) {
        const struct sim_task *other = &tables->tasks[id];

        if (other != task && other->number == task->number &&
            (other->row.owner || other->now.found)) {
            task_end(link, task, TASK_CANCELLED, true);
            return;
        }
    }
    task->now.kept = task->now.kept && !parked;
    task->now.state = TASK_WAITING;
    task->now.next_ms = db_clock(link->db);
    task->now.age_from_ms = db_clock(link->db);
    task_write(link, task);
}

static void change(struct link *link, struct sim_task *task, enum action action)
{
    sim_tell(link->db->sim, link->proc->name, STORY_ALL,
             "works on task %lld, which has state %lld: %lld", task->id, (int64_t)task->now.state,
             (int64_t)action);
    switch (action) {
    case ACTION_CANCEL:
        task_end(link, task, TASK_CANCELLED, true);
        break;
    case ACTION_UNPARK:
        if (task->now.state == TASK_BLOCKED || task->now.state == TASK_PARKED)
            unpark(link, task);
        break;
    case ACTION_RUN_NOW:
        if (task->now.state != TASK_WAITING)
            break;
        task->now.next_ms = db_clock(link->db);
        task_write(link, task);
        break;
    case ACTIONS:
        break;
    }
}

static enum rc act(struct operator_process *person, struct sim_task *task, enum action action,
                   struct err *err)
{
    struct link *link = &person->link;
    enum rc rc = link_begin(link, err);

    if (rc == RC_OK)
        rc = link_call(link, err);
    if (rc == RC_OK)
        rc = link_lock(link, &task->row, err);
    if (rc == RC_OK)
        rc = link_answer(link, err);
    if (rc == RC_OK)
        rc = link_call(link, err);
    if (rc == RC_OK && task->now.found)
        change(link, task, action);
    if (rc == RC_OK)
        rc = link_answer(link, err);
    if (rc == RC_OK)
        rc = task_wake(link, task->key, err);
    if (rc == RC_OK)
        rc = link_commit(link, err);
    if (rc != RC_OK)
        link_rollback(link);
    return rc;
}

static void scenes_toggle(struct sim *sim)
{
    struct sim_scene_row *scene = &sim->tasks->scenes[sim_below(sim, SCENE_THIRD + 1)];

    scene->paused = !scene->paused;
    scene->paused_ms = sim_now(sim);
    scene->version++;
    scene->paused_change = ++sim->tasks->scene_change;
    sim_tell(sim, "operator", STORY_ALL, "makes the pause of scene %lld %lld",
             scene - sim->tasks->scenes, scene->paused, 0);
}

/* A waiting task of a key whose busy one another transaction has locked; NULL: there is none. */
static struct sim_task *find_waiting_behind_locked(struct task_tables *tables)
{
    for (int64_t id = tables->first_live; id < tables->id_next; id++) {
        const struct sim_task *busy = &tables->tasks[id];

        if (!busy->row.owner || busy->key == 0 || busy->old.state != TASK_RUNNING)
            continue;
        for (int64_t i = tables->first_live; i < tables->id_next; i++)
            if (tables->tasks[i].key == busy->key && !tables->tasks[i].row.owner &&
                tables->tasks[i].old.found && tables->tasks[i].old.state == TASK_WAITING)
                return &tables->tasks[i];
    }
    return NULL;
}

/* Any task, or, because most depends on it, the head of a key. */
static struct sim_task *choose(struct sim *sim)
{
    struct task_tables *tables = sim->tasks;
    int64_t live = tables->id_next - tables->first_live;
    struct order_ahead ahead;

    if (live == 0)
        return NULL;
    if (sim_chance(sim, 500))
        return &tables->tasks[tables->first_live + (int64_t)sim_below(sim, (uint64_t)live)];
    tasks_ahead(tables, NULL, sim_between(sim, 1, sim->plan.task_keys), &ahead);
    return order_head(&ahead).id > 0 ? &tables->tasks[order_head(&ahead).id] : NULL;
}

static void meddle(struct operator_process *person)
{
    struct sim *sim = person->proc->sim;
    struct sim_task *task;
    struct err err;

    if (sim_chance(sim, 100)) {
        scenes_toggle(sim);
        return;
    }
    task = sim_chance(sim, 500) ? find_waiting_behind_locked(sim->tasks) : NULL;
    if (task) {
        act(person, task, ACTION_CANCEL, &err);
        return;
    }
    task = choose(sim);
    if (task)
        act(person, task, (enum action)sim_below(sim, ACTIONS), &err);
}

/* Sees that nothing waits for a person. */
static void tidy(struct operator_process *person)
{
    struct sim *sim = person->proc->sim;
    struct task_tables *tables = sim->tasks;
    struct err err;

    task_scene_mend(sim);
    for (int i = 0; i < SIM_SCENES; i++) {
        if (tables->scenes[i].paused)
            tables->scenes[i].version++;
        tables->scenes[i].paused = false;
        tables->scene_change++;
    }
    for (int64_t id = tables->first_live; id < tables->id_next; id++) {
        struct sim_task *task = &tables->tasks[id];

        if (!task->old.found)
            continue;
        if (!sim->plan.tasks_left &&
            (task->old.state == TASK_BLOCKED || task->old.state == TASK_PARKED))
            act(person, task, task->poison ? ACTION_CANCEL : ACTION_UNPARK, &err);
        else if (task->old.state == TASK_WAITING && task->scene != SCENE_STRANGE &&
                 task->old.next_ms > db_clock(sim->main_db) + PATIENCE_MS)
            act(person, task, ACTION_RUN_NOW, &err);
    }
}

static void thread(void *arg)
{
    struct operator_process *person = arg;
    struct sim *sim = person->proc->sim;

    while (!person->proc->stopping) {
        sched_pause(&sim->sched, sim_between(sim, 1, sim->plan.operator_ms));
        if (sim->healed)
            tidy(person);
        else
            meddle(person);
    }
    proc_exit(person->proc);
}

static void start(struct proc *proc)
{
    struct operator_process *person = proc->role;

    proc_start(proc, "operator", person->number);
    link_init(&person->link, proc, proc->sim->main_db);
    proc_thread(proc, thread, person);
}

static void end(struct proc *proc)
{
    struct operator_process *person = proc->role;

    link_close(&person->link);
}

size_t operator_bytes(void)
{
    return sizeof(struct operator_process);
}

void operator_add(void *memory, struct sim *sim, size_t number)
{
    struct operator_process *person = memory;

    person->number = number;
    person->proc = proc_add(sim, person, start, end);
}
