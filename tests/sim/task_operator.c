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
    struct fake_session session; /* of the link */
};

enum action { ACTION_CANCEL, ACTION_UNPARK, ACTION_RUN_NOW, ACTIONS };

static void write_task(struct operator_process *person, struct sim_task *task)
{
    fake_task_write(&person->proc->sim->tasks->fake, &person->session, &task->base);
}

static enum rc cancel_task(struct operator_process *person, struct sim_task *task, struct err *err)
{
    struct task_tables *tables = tasks_of(&person->link);
    const struct policy *policy = &tables->scenes[task->scene].policy;

    task->base.now.dedup_until_ms = 0;
    fake_task_end(&tables->fake, &person->session, &task->base, FAKE_TASK_CANCELLED, true);
    if (!policy->on_cancelled.scene[0] || tables->fake.faults.cancel_silent)
        return RC_OK;
    return task_call_back(&person->link, &task->base, FAKE_TASK_CANCELLED, err);
}

/* A parked one comes back from the history, or gives way where its idempotency key is in use. */
static enum rc unpark(struct operator_process *person, struct sim_task *task, struct err *err)
{
    struct task_tables *tables = tasks_of(&person->link);
    int64_t now_ms = fake_now_ms(&person->session);
    bool parked = task->base.now.state == TASK_PARKED;

    for (int64_t id = tables->fake.first_live; parked && id < tables->fake.id_next; id++) {
        const struct sim_task *other = &tables->tasks[id];

        if (other != task && other->number == task->number &&
            (other->base.row.owner || other->base.now.found)) {
            return cancel_task(person, task, err);
        }
    }
    task->base.now.kept = task->base.now.kept && !parked;
    task->base.now.state = TASK_WAITING;
    task->base.now.waited = task->hurried = true;
    task->base.now.dedup_until_ms = 0;
    task->base.now.next_ms = task->base.now.age_from_ms = now_ms;
    write_task(person, task);
    return RC_OK;
}

static enum rc change(struct operator_process *person, struct sim_task *task, enum action action,
                      struct err *err)
{
    sim_tell(person->proc->sim, person->proc->name, STORY_ALL,
             "works on task %lld, which has state %lld: %lld", task->base.id,
             (int64_t)task->base.now.state, (int64_t)action);
    switch (action) {
    case ACTION_CANCEL:
        return cancel_task(person, task, err);
    case ACTION_UNPARK:
        if (task->base.now.state == TASK_BLOCKED || task->base.now.state == TASK_PARKED)
            return unpark(person, task, err);
        break;
    case ACTION_RUN_NOW:
        if (task->base.now.state != TASK_WAITING)
            break;
        task->base.now.next_ms = fake_now_ms(&person->session);
        task->base.now.waited = task->hurried = true;
        write_task(person, task);
        break;
    case ACTIONS:
        break;
    }
    return RC_OK;
}

static enum rc act(struct operator_process *person, struct sim_task *task, enum action action,
                   struct err *err)
{
    struct link *link = &person->link;
    enum rc rc = link_begin(link, err);

    if (rc == RC_OK)
        rc = link_call(link, err);
    if (rc == RC_OK)
        rc = link_lock(link, &task->base.row, err);
    if (rc == RC_OK)
        rc = link_answer(link, err);
    if (rc == RC_OK)
        rc = link_call(link, err);
    if (rc == RC_OK && task->base.now.found)
        rc = change(person, task, action, err);
    if (rc == RC_OK)
        rc = link_answer(link, err);
    if (rc == RC_OK)
        rc = fake_task_wake(&person->proc->sim->tasks->fake, &person->session, task->base.key, err);
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
    scene->paused_change = ++sim->tasks->fake.scene_change;
    sim_tell(sim, "operator", STORY_ALL, "makes the pause of scene %lld %lld",
             scene - sim->tasks->scenes, scene->paused, 0);
}

/* A waiting task of a key whose busy one another transaction has locked; NULL: there is none. */
static struct sim_task *find_waiting_behind_locked(struct task_tables *tables)
{
    for (int64_t id = tables->fake.first_live; id < tables->fake.id_next; id++) {
        const struct sim_task *busy = &tables->tasks[id];

        if (!busy->base.row.owner || busy->base.key == 0 || busy->base.old.state != TASK_RUNNING)
            continue;
        for (int64_t i = tables->fake.first_live; i < tables->fake.id_next; i++)
            if (tables->tasks[i].base.key == busy->base.key && !tables->tasks[i].base.row.owner &&
                tables->tasks[i].base.old.found && tables->tasks[i].base.old.state == TASK_WAITING)
                return &tables->tasks[i];
    }
    return NULL;
}

/* Any task, or, because most depends on it, the head of a key. */
static struct sim_task *choose(struct sim *sim)
{
    struct task_tables *tables = sim->tasks;
    int64_t live = tables->fake.id_next - tables->fake.first_live;
    struct order_ahead ahead;

    if (live == 0)
        return NULL;
    if (sim_chance(sim, 500))
        return &tables->tasks[tables->fake.first_live + (int64_t)sim_below(sim, (uint64_t)live)];
    fake_tasks_ahead(&tables->fake, NULL, sim_between(sim, 1, sim->plan.task_keys), &ahead);
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
        tables->fake.scene_change++;
    }
    for (int64_t id = tables->fake.first_live; id < tables->fake.id_next; id++) {
        struct sim_task *task = &tables->tasks[id];

        if (!task->base.old.found)
            continue;
        if (!sim->plan.tasks_left &&
            (task->base.old.state == TASK_BLOCKED || task->base.old.state == TASK_PARKED))
            act(person, task, task->poison ? ACTION_CANCEL : ACTION_UNPARK, &err);
        else if (task->base.old.state == TASK_WAITING && task->scene != SCENE_STRANGE &&
                 !task_clients_take(sim, task->scene) &&
                 task->base.old.next_ms > db_clock(sim->main_db) + PATIENCE_MS)
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
    person->session = link_session(&person->link);
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
