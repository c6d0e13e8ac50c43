/* SPDX-License-Identifier: MIT */
#include "tests/sim/log_lane.h"

#include "common/loop.h"

#include <assert.h>
#include <string.h>

#define FOR_EVER_MS 1000000000

static void wake_fiber(const struct log_lane *own, struct fiber *fiber)
{
    if (fiber)
        sched_wake(&own->proc->sim->sched, fiber);
}

static void wake_pump(void *ctx, bool reader)
{
    const struct log_lane *own = ctx;

    if (reader)
        lane_wake(own->lane, LANE_READER);
    else
        wake_fiber(own, own->pump_fiber);
}

static void connect_adapter(struct lane_adapter *adapter, const struct lane_adapter *as,
                            struct lane_origin *origin)
{
    *adapter = (struct lane_adapter){.lane = as->lane, .origin = origin};
    link_init(&adapter->link, as->link.proc, as->link.db);
}

void log_lane_open(struct log_lane *own, struct lane *lane, struct lane_adapter *diverts)
{
    const struct diverter_ops diverter = tables_diverter(diverts);
    struct position_store positions;
    struct cleaner_ops cleaner;
    struct stream_ops stream;
    enum rc rc;

    memset(own, 0, sizeof(*own));
    own->lane = lane;
    own->proc = diverts->link.proc;
    own->cleaner_origin = (struct lane_origin){.lane = lane, .of_cleaner = true};
    connect_adapter(&own->log.adapter, diverts, diverts->origin);
    connect_adapter(&own->store.reads, diverts, diverts->origin);
    connect_adapter(&own->store.saves, diverts, diverts->origin);
    connect_adapter(&own->cleans, diverts, &own->cleaner_origin);
    /* A process that freezes in a transaction loses its locks. */
    own->store.saves.link.idle_ms_max = diverts->link.idle_ms_max;
    positions = binlog_positions(&own->store);
    cleaner = binlog_cleaner(&own->cleans);
    stream = binlog_stream(&own->log);
    rc = stream_pump_init(&own->pump, &stream, lane->batches[0].rows_max,
                          lane->batches[0].arena_size, NULL);
    own->pump.wake = wake_pump;
    own->pump.wake_ctx = own;
    stream_keeper_init(&own->keeper, lane, &positions, &diverter, sim_rng());
    if (rc == RC_OK)
        rc = stream_reader_init(&own->reader, lane, &own->pump, &own->keeper, &positions, sim_rng(),
                                NULL);
    assert(rc == RC_OK);
    stream_cleaner_init(&own->cleaner, lane, &cleaner, sim_rng());
    /* Small, so that long lists are met. */
    own->keeper.diverter.rows_max = 3;
    own->cleaner.rows_max = 5;
}

/* A loop of common/loop.h. */
static void run_loop(struct log_lane *own, loop_step step, void *engine)
{
    struct sim *sim = own->proc->sim;

    while (!own->proc->stopping) {
        int64_t wait_ms = step(engine, proc_clock(own->proc));

        if (wait_ms == LOOP_END)
            return;
        if (wait_ms == LOOP_WAKEUP)
            wait_ms = FOR_EVER_MS;
        assert(wait_ms >= 0);
        if (!own->proc->stopping)
            sched_idle(&sim->sched, wait_ms + (sim_chance(sim, 30) ? 5 : 0));
    }
}

static void pump_thread(void *arg)
{
    struct log_lane *own = arg;

    run_loop(own, stream_pump_step, &own->pump);
    own->pump_runs = false;
}

/* The promise: the cleaner finds no row that never came through the log. */
static int64_t step_cleaner(void *arg, int64_t now_ms)
{
    struct log_lane *own = arg;
    int64_t wait_ms = stream_cleaner_step(&own->cleaner, now_ms);
    int64_t unpublished = metric_value(&own->lane->metrics->unpublished);

    if (unpublished > 0)
        sim_fail(own->proc->sim, STORY_ALL,
                 "cleaner: %s says that %lld rows of %s never came through the log",
                 own->proc->name, (long long)unpublished, own->lane->name);
    return wait_ms;
}

static void cleaner_thread(void *arg)
{
    struct log_lane *own = arg;

    run_loop(own, step_cleaner, own);
    own->cleaner_runs = false;
}

void log_lane_start(struct log_lane *own)
{
    own->pump_runs = own->cleaner_runs = true;
    own->pump_fiber = proc_thread(own->proc, pump_thread, own);
    own->cleaner_fiber = proc_thread(own->proc, cleaner_thread, own);
    own->log.pump = own->pump_fiber;
}

void log_lane_stop(struct log_lane *own)
{
    stream_pump_stop(&own->pump);
    wake_fiber(own, own->cleaner_fiber);
}

bool log_lane_runs(const struct log_lane *own)
{
    return own->pump_runs || own->cleaner_runs;
}

void log_lane_close(struct log_lane *own)
{
    if (!own->lane)
        return;
    own->pump_runs = own->cleaner_runs = false;
    own->pump_fiber = own->cleaner_fiber = NULL;
    stream_reader_done(&own->reader);
    stream_keeper_done(&own->keeper);
    stream_pump_done(&own->pump);
    stream_cleaner_done(&own->cleaner);
    binlog_reader_gone(&own->log);
    link_close(&own->store.reads.link);
    link_close(&own->store.saves.link);
    link_close(&own->cleans.link);
    own->lane = NULL;
}
