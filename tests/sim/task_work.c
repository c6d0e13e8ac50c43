/* SPDX-License-Identifier: MIT */
#include "tests/sim/task_work.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#define STEPS 2

/* A run of a task. */
struct task_run {
    struct proc *proc;
    const struct retry_job *job;
    struct sim_task *task;
    int64_t epoch; /* that the database knew as it began */
};

/* The end of the lease, as it is believed now, as true time. */
static int64_t until_true_ms(const struct task_run *run)
{
    return atomic_load(run->job->lease_until_ms) - run->proc->clock_offset_ms;
}

/* No other process may hold the task now, except after the database clock jumped ahead: then the
 * lease ended before its holder could know. */
static bool is_held(const struct task_run *run)
{
    const struct fake_task_version *old = &run->task->base.old;

    return old->found && old->state == TASK_RUNNING && old->epoch == run->epoch &&
           old->owner == run->proc && old->lease_until_ms >= db_clock(run->proc->sim->main_db);
}

static void check_job(const struct task_run *run)
{
    struct sim *sim = run->proc->sim;
    const struct sim_task *task = run->task;
    const struct retry_job *job = run->job;
    char key[32];
    char idempotency[48];

    task_key_text(&task->base, key);
    task_idempotency_text(task, idempotency);
    if (until_true_ms(run) <= sim_now(sim))
        sim_fail(sim, STORY_ALL, "fence: %s runs task %lld %lld ms behind its lease",
                 run->proc->name, (long long)task->base.id,
                 (long long)(sim_now(sim) - until_true_ms(run)));
    else if (until_true_ms(run) > task->base.old.believed_ms)
        sim_fail(sim, STORY_ALL, "fence: %s believes in task %lld for %lld ms too long",
                 run->proc->name, (long long)task->base.id,
                 (long long)(until_true_ms(run) - task->base.old.believed_ms));
    else if (strcmp(job->idempotency_key, idempotency) != 0)
        sim_fail(sim, STORY_ALL, "twice: task %lld runs under the key %s instead of %s",
                 (long long)task->base.id, job->idempotency_key, idempotency);
    else if ((task->base.key > 0) != (job->ordering_key != NULL) ||
             (job->ordering_key && strcmp(job->ordering_key, key) != 0))
        sim_fail(sim, STORY_ALL, "order: task %lld runs under another key than its own",
                 (long long)task->base.id);
    else if (is_held(run) && job->attempt != task->base.old.attempts + 1)
        sim_fail(sim, STORY_ALL, "attempts: task %lld has %lld, and runs as number %lld",
                 (long long)task->base.id, (long long)task->base.old.attempts,
                 (long long)job->attempt);
}

/* A scene's rate is that of each process; its bucket is full when the process begins. */
static void check_rate(const struct task_run *run)
{
    struct sim *sim = run->proc->sim;
    const struct policy *policy = &sim->tasks->scenes[run->task->scene].policy;
    struct sim_rate *rate = &sim->tasks->rates[run->proc - sim->procs][run->task->scene];
    int64_t allowed;

    if (policy->rate_per_s == 0)
        return;
    if (rate->life != run->proc->lives)
        *rate = (struct sim_rate){.life = run->proc->lives, .began_ms = run->proc->began_ms};
    allowed = policy->rate_burst + policy->rate_per_s * (sim_now(sim) - rate->began_ms) / 1000 + 1;
    if (++rate->runs > allowed)
        sim_fail(sim, STORY_ALL,
                 "rate: %s has run %lld tasks of a scene in %lld ms, %lld "
                 "were allowed",
                 run->proc->name, (long long)rate->runs, (long long)(sim_now(sim) - rate->began_ms),
                 (long long)allowed);
}

/* A clock that was set may have been ahead. */
static void check_first_wait(const struct task_run *run)
{
    struct sim *sim = run->proc->sim;
    const struct sim_task *task = run->task;
    int64_t age_ms = db_clock(sim->main_db) - task->base.old.age_from_ms;

    if (run->job->attempt > 1 || run->job->step > 0 || task->hurried || sim->main_db->clock_ms != 0)
        return;
    if (age_ms < sim->tasks->scenes[task->scene].policy.first_wait_low_ms)
        sim_fail(sim, STORY_ALL, "first wait: task %lld runs for the first time after %lld ms",
                 (long long)task->base.id, (long long)age_ms);
}

/* While the key of an ended task is refused, no other task runs under it: the history has the ended
 * task until the database's clock has shown the end of that time, whether or not the clock is set
 * back afterwards, and while the history has it, a task made within that time does not run. */
static void check_duplicate(const struct task_run *run)
{
    const struct sim *sim = run->proc->sim;
    const struct sim_task *task = run->task;
    int64_t ended = 0;

    if (!task->hurried)
        ended = task_duplicate_of(sim->tasks, task, db_clock_latest(sim->main_db));
    if (ended > 0)
        sim_fail(run->proc->sim, STORY_ALL, "dedup: task %lld runs under the number of task %lld",
                 (long long)task->base.id, (long long)ended);
}

/* The called system wants a task for later, and submits it with the headers of the call. */
static void submit_from_attempt(const struct task_run *run)
{
    struct sim *sim = run->proc->sim;
    struct sim_traffic *traffic = &sim->tasks->traffic;

    if (traffic->waits || !sim_chance(sim, 60))
        return;
    traffic->waits = true;
    traffic->no_retry = !run->job->receiver_retries;
    traffic->scene = (int)sim_below(sim, SCENE_THIRD + 1);
    snprintf(traffic->from, sizeof(traffic->from), "%s/%s", run->job->group, run->job->scene);
}

/* Changes the called system, which accepts each idempotency key once. */
static void effect(struct task_run *run)
{
    struct sim *sim = run->proc->sim;
    struct sim_task *task = run->task;
    int64_t *last = &sim->tasks->last_effect[task->base.key];

    sim_tell(sim, run->proc->name, STORY_ALL, "task %lld has its effect, number %lld of it",
             task->base.id, ++task->effects, 0);
    submit_from_attempt(run);
    if (task->base.key == 0 || !task->in_order || task->effects > 1)
        return;
    if (task->base.id < *last && is_held(run))
        sim_fail(sim, STORY_ALL,
                 "order: the effect of task %lld of key %lld comes behind that of task %lld",
                 (long long)task->base.id, (long long)task->base.key, (long long)*last);
    if (task->base.id > *last)
        *last = task->base.id;
}

static void fail_as(struct task_run *run, struct attempt_result *attempt, enum fault_class fault)
{
    run->task->failures++;
    attempt->end = ATTEMPT_FAILED;
    attempt->source = FAULT_SOURCE_PLAIN;
    attempt->fault = fault;
    attempt->delay_ms = ATTEMPT_NO_DELAY;
    err_set(&attempt->err, "it did not work");
}

static void meet(struct sim *sim, struct sim_task *task)
{
    if (task->met)
        return;
    task->met = true;
    task->poison = task->parent == 0 && sim_chance(sim, sim->plan.task_poison);
    while (sim_chance(sim, sim->plan.task_fails))
        task->fails_left++;
}

static void poison(struct task_run *run, struct attempt_result *attempt)
{
    if (sim_chance(run->proc->sim, 200)) {
        run->task->failures++;
        attempt->end = ATTEMPT_REJECTED;
        err_set(&attempt->err, "never again");
        return;
    }
    fail_as(run, attempt, sim_chance(run->proc->sim, 800) ? FAULT_CLASS_REFUSED : FAULT_CLASS_OURS);
}

/* The answer of the called system. */
static void answer(struct task_run *run, struct attempt_result *attempt)
{
    struct sim *sim = run->proc->sim;
    struct sim_task *task = run->task;

    if (task->poison) {
        poison(run, attempt);
        return;
    }
    if (task->fails_left > 0 && !sim->healed) {
        task->fails_left--;
        if (sim_chance(sim, 200))
            effect(run); /* but its answer is lost */
        fail_as(run, attempt, FAULT_CLASS_TRANSIENT);
        return;
    }
    if (!sim->healed && sim_chance(sim, sim->plan.task_fails / 4)) {
        task->snoozes++;
        attempt->end = ATTEMPT_SNOOZED;
        attempt->delay_ms = sim_between(sim, 0, 500);
        return;
    }
    if (task->scene == SCENE_THIRD && run->job->step < STEPS) {
        attempt->more_steps = true;
        return;
    }
    effect(run);
}

/* The answer of a client of the group, as the http handler calls it. */
static void call_client(struct task_run *run, struct attempt_result *attempt)
{
    struct proc *proc = run->proc;
    struct sim_rate *rate = &proc->sim->tasks->rates[proc - proc->sim->procs][run->task->scene];
    struct clients_attempt call;
    int64_t wait_ms;

    switch (task_clients_pick(proc, run->job, &call, &wait_ms)) {
    case TASK_CLIENT_REACHED:
        answer(run, attempt);
        task_clients_report(proc, &call, attempt->end == ATTEMPT_FAILED);
        break;
    case TASK_CLIENT_UNREACHED:
        fail_as(run, attempt, FAULT_CLASS_TRANSIENT);
        break;
    case TASK_CLIENT_NONE:
        /* Nothing was called: the attempt gives its token of the scene's rate back. */
        rate->runs--;
        attempt->end = ATTEMPT_SNOOZED;
        attempt->waits = true;
        attempt->delay_ms = wait_ms;
        err_set(&attempt->err, RETRY_CLIENT_NONE);
        break;
    }
}

static void work(struct task_run *run, struct attempt_result *attempt)
{
    struct proc *proc = run->proc;
    struct sim *sim = proc->sim;
    bool deaf = !sim->healed && sim_chance(sim, sim->plan.task_deaf);

    proc_pass(proc);
    if (!sim->healed && sim_chance(sim, sim->plan.task_slow))
        sched_pause(&sim->sched, sim_between(sim, 1, sim_chance(sim, 100) ? 3000 : 60));
    if (!deaf && (sim_now(sim) >= until_true_ms(run) || (proc->stopping && !run->job->step))) {
        attempt->end = ATTEMPT_CUT;
        return;
    }
    if (task_clients_take(sim, run->task->scene))
        call_client(run, attempt);
    else
        answer(run, attempt);
    proc_pass(proc);
}

static void handler_run(void *handler, size_t worker, const struct retry_job *job,
                        struct attempt_result *attempt)
{
    struct proc *proc = handler;
    struct sim *sim = proc->sim;
    struct task_run run = {.proc = proc, .job = job, .task = &sim->tasks->tasks[job->id]};

    (void)worker;
    assert(job->id > 0 && job->id < sim->tasks->fake.id_next);
    run.epoch = run.task->base.old.epoch;
    meet(sim, run.task);
    check_job(&run);
    check_rate(&run);
    check_first_wait(&run);
    check_duplicate(&run);
    sim_tell(sim, proc->name, STORY_ALL, "runs task %lld, attempt %lld, step %lld", job->id,
             job->attempt, job->step);
    work(&run, attempt);
    sim_tell(sim, proc->name, STORY_ALL, "has run task %lld: %lld", job->id, (int64_t)attempt->end,
             0);
}

static bool tries_first(const struct retry_job *job, struct err *err)
{
    (void)job;
    (void)err;
    return true;
}

static const struct retry_handler work_handler = {
    .name = "work", .tries_first = tries_first, .run = handler_run};
static const struct retry_handler steps_handler = {.name = "steps", .run = handler_run};

const struct retry_handler *const task_handlers[TASK_HANDLERS] = {&work_handler, &steps_handler};
