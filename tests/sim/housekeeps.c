/* SPDX-License-Identifier: MIT */
#include "common/loop.h"
#include "consumer/maintenance/housekeep.h"
#include "tests/sim/months.h"
#include "tests/sim/roles.h"

#include <stdlib.h>

#define LEASE_MS 900
/* The engine waits by the calendar of real databases: here a month passes meanwhile. */
#define WAIT_MS_MAX 200

struct housekeep_process {
    struct proc *proc;
    size_t number;
    struct housekeep_adapter adapter;
    struct housekeep housekeep;
};

static void thread(void *arg)
{
    struct housekeep_process *process = arg;
    struct proc *proc = process->proc;
    struct sim *sim = proc->sim;

    while (!proc->stopping) {
        int64_t wait_ms;

        /* In the end an operator lets as many rows be moved as there are. */
        if (sim->healed)
            process->housekeep.config.rules.move_rows_max = SIM_EVENTS_MAX;
        wait_ms = housekeep_step(&process->housekeep, proc_clock(proc));
        if (wait_ms == LOOP_END)
            break;
        if (!proc->stopping)
            sched_idle(&sim->sched, wait_ms < WAIT_MS_MAX ? wait_ms : WAIT_MS_MAX);
    }
    housekeep_leave(&process->housekeep);
    proc_exit(proc);
}

static void start(struct proc *proc)
{
    struct housekeep_process *process = proc->role;
    struct sim *sim = proc->sim;
    struct housekeep_config config = {
        .store = &process->adapter.ops,
        .owner = proc->name,
        .rules = sim->months->rules,
        .interval_ms = sim->plan.housekeep_ms * DB_CALENDAR_SPEED,
        .lease_ms = LEASE_MS * DB_CALENDAR_SPEED,
        .rng = sim_rng,
    };

    proc_start(proc, "housekeep", process->number);
    housekeep_adapter_init(&process->adapter, proc);
    if (housekeep_init(&process->housekeep, &config, NULL) != RC_OK)
        abort(); /* no memory */
    proc_thread(proc, thread, process);
}

static void end(struct proc *proc)
{
    struct housekeep_process *process = proc->role;

    link_close(&process->adapter.link);
    housekeep_done(&process->housekeep);
}

size_t housekeeper_bytes(void)
{
    return sizeof(struct housekeep_process);
}

void housekeeper_add(void *memory, struct sim *sim, size_t number)
{
    struct housekeep_process *process = memory;

    process->number = number;
    process->proc = proc_add(sim, process, start, end);
}
