/* SPDX-License-Identifier: MIT */
#include "common/loop.h"
#include "outbox/lease/leases.h"
#include "outbox/relay/deleter.h"
#include "outbox/relay/lane.h"
#include "outbox/relay/reader.h"
#include "outbox/relay/sender.h"
#include "tests/sim/broker.h"
#include "tests/sim/log_lane.h"
#include "tests/sim/roles.h"
#include "tests/sim/tables.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#define STOP_MS 800

struct relay_process;

/* A lane that reads the binary log has `log` instead of reader and deleter. */
struct lane_runtime {
    struct relay_process *relay;
    size_t number;
    struct lane lane;
    struct reader reader;
    struct sender sender;
    struct deleter deleter;
    struct log_lane log;
    struct lane_origin origin;
    struct lane_adapter read_adapter;
    struct lane_adapter delete_adapter;
    struct producer producer;
    struct fiber *threads[LANE_STEPS];
    bool busy[LANE_STEPS]; /* the thread still runs */
};

struct relay_process {
    struct proc *proc;
    size_t number;
    struct lane_runtime runtimes[SIM_LANES_MAX];
    size_t count;
    struct lease_adapter lease_adapter;
    struct leases leases;
    bool renewer_busy;
};

static void wake(void *ctx, enum lane_step step)
{
    struct lane_runtime *runtime = ctx;

    if (runtime->threads[step])
        sched_wake(&runtime->relay->proc->sim->sched, runtime->threads[step]);
}

static int64_t time_ms(void *ctx)
{
    const struct lane_runtime *runtime = ctx;

    return proc_clock(runtime->relay->proc);
}

/* A loop of common/loop.h: step, sleep, step, until the process stops. */
static void loop(struct proc *proc, loop_step step, void *engine)
{
    struct sim *sim = proc->sim;

    while (!proc->stopping) {
        int64_t wait_ms = step(engine, proc_clock(proc));

        assert(wait_ms >= 0);
        if (!proc->stopping)
            sched_idle(&sim->sched, wait_ms + (sim_chance(sim, 30) ? 5 : 0));
    }
}

static int64_t run_reader(void *arg, int64_t now_ms)
{
    struct lane_runtime *runtime = arg;

    return runtime->lane.is_stream ? stream_reader_step(&runtime->log.reader, now_ms)
                                   : reader_step(&runtime->reader, now_ms);
}

static int64_t run_deleter(void *arg, int64_t now_ms)
{
    struct lane_runtime *runtime = arg;

    return runtime->lane.is_stream ? stream_keeper_step(&runtime->log.keeper, now_ms)
                                   : deleter_step(&runtime->deleter, now_ms);
}

static void reader_thread(void *arg)
{
    struct lane_runtime *runtime = arg;

    loop(runtime->relay->proc, run_reader, runtime);
    runtime->busy[LANE_READER] = false;
}

static void sender_thread(void *arg)
{
    struct lane_runtime *runtime = arg;

    loop(runtime->relay->proc, sender_step, &runtime->sender);
    runtime->busy[LANE_SENDER] = false;
}

static void deleter_thread(void *arg)
{
    struct lane_runtime *runtime = arg;

    loop(runtime->relay->proc, run_deleter, runtime);
    runtime->busy[LANE_DELETER] = false;
}

static void renewer_thread(void *arg)
{
    struct relay_process *relay = arg;

    loop(relay->proc, leases_step, &relay->leases);
    relay->renewer_busy = false;
}

static bool threads_run(const struct relay_process *relay)
{
    for (size_t i = 0; i < relay->count; i++) {
        if (log_lane_runs(&relay->runtimes[i].log))
            return true;
        for (size_t step = 0; step < LANE_STEPS; step++)
            if (relay->runtimes[i].busy[step])
                return true;
    }
    return relay->renewer_busy;
}

/* Stops as relay_command.c does; one thread runs all steps. */
static void finish(struct relay_process *relay)
{
    struct proc *proc = relay->proc;
    struct sim *sim = proc->sim;
    int64_t until_ms = sim_now(sim) + STOP_MS;

    leases_drain(&relay->leases, proc_clock(proc));
    while (sim_now(sim) < until_ms && !leases_drained(&relay->leases)) {
        int64_t now_ms = proc_clock(proc);

        for (size_t i = 0; i < relay->count; i++) {
            struct lane_runtime *runtime = &relay->runtimes[i];

            sender_step(&runtime->sender, now_ms);
            run_deleter(runtime, now_ms);
            run_reader(runtime, now_ms);
        }
        sched_pause(&sim->sched, 2);
    }
    leases_release(&relay->leases);
}

static void main_thread(void *arg)
{
    struct relay_process *relay = arg;
    struct sched *sched = &relay->proc->sim->sched;

    while (!relay->proc->stopping)
        sched_idle(sched, 10000);
    for (size_t i = 0; i < relay->count; i++) {
        if (relay->runtimes[i].lane.is_stream)
            log_lane_stop(&relay->runtimes[i].log);
        for (enum lane_step step = 0; step < LANE_STEPS; step++)
            wake(&relay->runtimes[i], step);
    }
    while (threads_run(relay))
        sched_pause(sched, 1);
    finish(relay);
    proc_exit(relay->proc);
}

static struct relay_metrics *metrics_fresh(size_t number, const char *lane)
{
    struct relay_metrics *metrics = relay_metrics_of(number, lane);
    struct metric *metric = &metrics->published;

    for (; metric <= &metrics->send_seconds; metric++)
        atomic_store(&metric->value, 0);
    return metrics;
}

/* Its limits are small, so that long lists are met. */
static enum rc open_table(struct lane_runtime *runtime)
{
    struct lane *lane = &runtime->lane;
    struct source source = tables_source(&runtime->read_adapter);
    struct deleter_ops deletes = tables_deleter(&runtime->delete_adapter);
    struct diverter_ops diverts = tables_diverter(&runtime->delete_adapter);
    struct broker broker = producer_ops(&runtime->producer);
    enum rc rc = reader_init(&runtime->reader, lane, &source, sim_rng(), NULL);

    if (rc == RC_OK)
        rc = sender_init(&runtime->sender, lane, &broker, sim_rng(), NULL);
    if (rc == RC_OK)
        rc = deleter_init(&runtime->deleter, lane, &deletes, &diverts, sim_rng(), NULL);
    runtime->reader.ranges_max = 3;
    runtime->deleter.ranges_max = 2;
    runtime->deleter.diverter.rows_max = 3;
    runtime->lane.diverted.key_rows_max = 10;
    return rc;
}

static enum rc open_log(struct lane_runtime *runtime)
{
    struct broker broker = producer_ops(&runtime->producer);

    log_lane_open(&runtime->log, &runtime->lane, &runtime->delete_adapter);
    return sender_init(&runtime->sender, &runtime->lane, &broker, sim_rng(), NULL);
}

static void runtime_start(struct relay_process *relay, size_t number)
{
    struct lane_runtime *runtime = &relay->runtimes[number];
    struct sim *sim = relay->proc->sim;
    const struct lane_settings *own = &sim->settings.lanes[number];
    enum rc rc;

    runtime->relay = relay;
    runtime->number = number;
    link_init(&runtime->read_adapter.link, relay->proc, sim->main_db);
    link_init(&runtime->delete_adapter.link, relay->proc, sim->main_db);
    runtime->origin = (struct lane_origin){.lane = &runtime->lane};
    /* A process that freezes in a transaction loses its locks. */
    runtime->delete_adapter.link.idle_ms_max = sim->settings.relay.lease_ms / 3;
    runtime->read_adapter.origin = runtime->delete_adapter.origin = &runtime->origin;
    runtime->read_adapter.lane = runtime->delete_adapter.lane = number;
    producer_init(&runtime->producer, relay->proc, number);
    runtime->producer.epoch = &runtime->sender.epoch;
    rc = lane_init(&runtime->lane, own, &sim->settings,
                   metrics_fresh(relay->number * SIM_LANES_MAX + number, own->name), NULL);
    runtime->lane.wake = wake;
    runtime->lane.wake_ctx = runtime;
    runtime->lane.time_ms = time_ms;
    runtime->lane.time_ctx = runtime;
    if (rc == RC_OK)
        rc = runtime->lane.is_stream ? open_log(runtime) : open_table(runtime);
    assert(rc == RC_OK);
    runtime->lane.diverted.moves_max = 6;
    for (size_t step = 0; step < LANE_STEPS; step++)
        runtime->busy[step] = true;
    runtime->threads[LANE_READER] = proc_thread(relay->proc, reader_thread, runtime);
    runtime->threads[LANE_SENDER] = proc_thread(relay->proc, sender_thread, runtime);
    runtime->threads[LANE_DELETER] = proc_thread(relay->proc, deleter_thread, runtime);
    runtime->producer.sender = runtime->threads[LANE_SENDER];
    runtime->producer.network = proc_thread(relay->proc, producer_main, &runtime->producer);
    if (runtime->lane.is_stream)
        log_lane_start(&runtime->log);
}

static void start(struct proc *proc)
{
    struct relay_process *relay = proc->role;
    struct sim *sim = proc->sim;
    struct lease_store store;

    proc_start(proc, "relay", relay->number);
    relay->count = sim->plan.lanes;
    link_init(&relay->lease_adapter.link, proc, sim->main_db);
    relay->lease_adapter.lane_count = relay->count;
    store = tables_leases(&relay->lease_adapter);
    leases_init(&relay->leases, "relay", "lane", proc->name, &store, sim->settings.relay.lease_ms,
                sim_rng());
    for (size_t i = 0; i < relay->count; i++) {
        runtime_start(relay, i);
        leases_add(&relay->leases, &relay->runtimes[i].lane.lease);
    }
    relay->renewer_busy = true;
    proc_thread(proc, renewer_thread, relay);
    proc_thread(proc, main_thread, relay);
}

static void end(struct proc *proc)
{
    struct relay_process *relay = proc->role;

    for (size_t i = 0; i < relay->count; i++) {
        struct lane_runtime *runtime = &relay->runtimes[i];

        producer_gone(&runtime->producer);
        link_close(&runtime->read_adapter.link);
        link_close(&runtime->delete_adapter.link);
        if (runtime->lane.is_stream) {
            log_lane_close(&runtime->log);
        } else {
            deleter_done(&runtime->deleter);
            reader_done(&runtime->reader);
        }
        sender_done(&runtime->sender);
        lane_done(&runtime->lane);
        memset(runtime->threads, 0, sizeof(runtime->threads));
    }
    link_close(&relay->lease_adapter.link);
    leases_done(&relay->leases);
}

size_t relays_diverted_keys(const struct sim *sim)
{
    size_t keys = 0;

    for (size_t i = 0; i < sim->proc_count; i++) {
        const struct proc *proc = &sim->procs[i];
        struct relay_process *relay = proc->role;

        if (proc->start != start || !proc->alive)
            continue;
        for (size_t lane = 0; lane < relay->count; lane++)
            if (lane_epoch(&relay->runtimes[lane].lane, proc_clock(proc)) != 0)
                keys += atomic_load(&relay->runtimes[lane].lane.diverted.count);
    }
    return keys;
}

size_t relay_bytes(void)
{
    return sizeof(struct relay_process);
}

void relay_add(void *memory, struct sim *sim, size_t number)
{
    struct relay_process *relay = memory;

    relay->number = number;
    relay->proc = proc_add(sim, relay, start, end);
}
