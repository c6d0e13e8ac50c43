/* SPDX-License-Identifier: MIT */
/* An application that deletes by SQL: it inserts rows into deleted_content, some under the lock on
 * the total, and marks remarks. */
#include "tests/sim/removals.h"
#include "tests/sim/roles.h"

struct application_process {
    struct proc *proc;
    size_t number;
    struct removal_adapter adapter;
};

/* SELECT ... FOR UPDATE of the total, which orders the deletion only if there is one. */
static enum rc lock_total(struct removal_adapter *adapter, int64_t content, struct err *err)
{
    const struct vote_store *ops = &adapter->votes_ops;
    struct vote_count_row count = {.content_id = content};
    enum rc rc = ops->lock_counts(ops->ctx, &count, 1, err);

    adapter->total_locked = count.found;
    return rc;
}

static enum rc insert_deletion(struct application_process *application, int64_t content,
                               struct err *err)
{
    struct removal_adapter *adapter = &application->adapter;
    struct sim *sim = application->proc->sim;
    struct fake_deletion *deletion = &sim->removals->deletions[content];
    enum rc rc = link_call(&adapter->votes_link, err);

    if (rc == RC_OK)
        rc = link_lock(&adapter->votes_link, &deletion->row, err);
    if (rc != RC_OK)
        return rc;
    if (deletion->now.found)
        return err_fail(err, RC_REJECT, DB_DUPLICATE_CODE, "it is deleted already");
    fake_votes_write_deletion(&adapter->votes, deletion);
    deletion->now.found = true;
    return link_answer(&adapter->votes_link, err);
}

static void delete_content(struct application_process *application, int64_t content)
{
    struct removal_adapter *adapter = &application->adapter;
    struct sim *sim = application->proc->sim;
    struct err err;
    enum rc rc = link_begin(&adapter->votes_link, &err);

    adapter->total_locked = false;
    if (rc == RC_OK && sim_chance(sim, 500))
        rc = lock_total(adapter, content, &err);
    if (rc == RC_OK)
        rc = insert_deletion(application, content, &err);
    if (rc == RC_OK && sim_chance(sim, 300))
        sched_pause(&sim->sched, sim_between(sim, 1, 300));
    if (rc == RC_OK && !sim_chance(sim, sim->plan.roll_back))
        link_commit(&adapter->votes_link, &err);
    else
        link_rollback(&adapter->votes_link);
}

static void mark_remark(struct application_process *application, int64_t content)
{
    const struct removal_store *ops = &application->adapter.ops;
    struct err err;
    bool found;
    int64_t item_id;

    if (ops->mark(ops->ctx, content, &found, &item_id, &err) != RC_OK)
        link_rollback(&application->adapter.sink_link);
}

static void thread(void *arg)
{
    struct application_process *application = arg;
    struct proc *proc = application->proc;
    struct sim *sim = proc->sim;

    while (sim->writing && !proc->stopping) {
        sched_pause(&sim->sched, sim_between(sim, 10, 2000));
        if (sim_chance(sim, 500))
            delete_content(application, sim_between(sim, 1, SIM_CONTENTS));
        else
            mark_remark(application, sim_between(sim, 1, SIM_CONTENTS));
    }
    proc_exit(proc);
}

static void start(struct proc *proc)
{
    struct application_process *application = proc->role;

    proc_start(proc, "app", application->number);
    removal_adapter_init(&application->adapter, proc);
    proc_thread(proc, thread, application);
}

static void end(struct proc *proc)
{
    struct application_process *application = proc->role;

    removal_adapter_close(&application->adapter);
}

size_t application_bytes(void)
{
    return sizeof(struct application_process);
}

void application_add(void *memory, struct sim *sim, size_t number)
{
    struct application_process *application = memory;

    application->number = number;
    application->proc = proc_add(sim, application, start, end);
}
