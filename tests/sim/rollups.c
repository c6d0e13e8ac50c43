/* SPDX-License-Identifier: MIT */
#include "common/loop.h"
#include "consumer/rollup/rollup.h"
#include "tests/sim/roles.h"
#include "tests/sim/sink.h"

#include <stdlib.h>

#define LEASE_MS 900
#define ROWS_MAX 4

struct rollup_process {
    struct proc *proc;
    size_t number;
    struct rollup_adapter adapter;
    struct rollup rollup;
};

static void thread(void *arg)
{
    struct rollup_process *process = arg;
    struct proc *proc = process->proc;
    struct sim *sim = proc->sim;

    while (!proc->stopping) {
        int64_t wait_ms = rollup_step(&process->rollup, proc_clock(proc));

        if (wait_ms == LOOP_END)
            break;
        if (!proc->stopping)
            sched_idle(&sim->sched, wait_ms);
    }
    rollup_leave(&process->rollup);
    proc_exit(proc);
}

static void start(struct proc *proc)
{
    struct rollup_process *process = proc->role;
    const struct sim *sim = proc->sim;
    struct rollup_config config = {
        .store = &process->adapter.ops,
        .owner = proc->name,
        .interval_ms = sim->settings.rollup.interval_ms,
        .overlap_ms = sim->settings.rollup.overlap_ms,
        .lease_ms = LEASE_MS,
        .batch_rows_max = ROWS_MAX,
        .rng = sim_rng,
    };

    proc_start(proc, "rollup", process->number);
    rollup_adapter_init(&process->adapter, proc);
    if (rollup_init(&process->rollup, &config, NULL) != RC_OK)
        abort(); /* no memory */
    proc_thread(proc, thread, process);
}

static void end(struct proc *proc)
{
    struct rollup_process *process = proc->role;

    link_close(&process->adapter.link);
    rollup_done(&process->rollup);
}

size_t rollup_bytes(void)
{
    return sizeof(struct rollup_process);
}

void rollup_add(void *memory, struct sim *sim, size_t number)
{
    struct rollup_process *process = memory;

    process->number = number;
    process->proc = proc_add(sim, process, start, end);
}
