/* SPDX-License-Identifier: MIT */
/* The shared fake of the lease tables on a simulated connection. */
#include "tests/sim/tables.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static struct lane_lease *lease_at(const struct lease_adapter *adapter, size_t number)
{
    struct tables *tables = adapter->link.db->sim->tables;

    return adapter->of_shards ? &tables->shards[adapter->handler][number] : &tables->leases[number];
}

static struct fake_lease *find_lease(void *ctx, const char *lane)
{
    const struct lease_adapter *adapter = ctx;
    const struct tables *tables = adapter->link.db->sim->tables;

    if (adapter->of_shards) /* "retry:HANDLER:NUMBER" */
        return &lease_at(adapter, strtoul(strrchr(lane, ':') + 1, NULL, 10) % TASK_SHARDS)->base;
    for (size_t i = 0; i < adapter->lane_count; i++)
        if (strcmp(tables->lanes[i].name, lane) == 0)
            return &lease_at(adapter, i)->base;
    abort(); /* no lane has this name */
    return NULL;
}

static enum rc send_call(void *ctx, struct err *err)
{
    struct lease_adapter *adapter = ctx;

    return link_call(&adapter->link, err);
}

static enum rc get_answer(void *ctx, struct err *err)
{
    struct lease_adapter *adapter = ctx;

    return link_answer(&adapter->link, err);
}

static int64_t read_clock(void *ctx)
{
    const struct lease_adapter *adapter = ctx;

    return db_clock(adapter->link.db);
}

static enum rc wait_for_row(void *ctx, struct fake_lease *base, struct err *err)
{
    struct lease_adapter *adapter = ctx;
    const struct lane_lease *lease = (const struct lane_lease *)base;
    struct sim *sim = adapter->link.db->sim;
    int64_t until_ms = sim_now(sim) + adapter->link.db->lock_wait_ms;

    while (lease->row.owner) {
        if (sim_now(sim) >= until_ms)
            return err_fail(err, RC_RETRY, DB_LOCK_WAIT_CODE, "lock wait time-out");
        sched_pause(&sim->sched, 3);
    }
    return RC_OK;
}

static void note_beat(void *ctx, struct fake_lease *base)
{
    const struct lease_adapter *adapter = ctx;
    struct lane_lease *lease = (struct lane_lease *)base;

    lease->beaten_ms = sim_now(adapter->link.db->sim);
}

/* Where the database's clock has run fast, the former holder may still believe its own lease. */
static void note_take(void *ctx, struct fake_lease *base, int64_t lease_ms)
{
    const struct lease_adapter *adapter = ctx;
    struct sim *sim = adapter->link.db->sim;
    struct lane_lease *lease = (struct lane_lease *)base;
    int64_t fence_ms = lease->beaten_ms + lease_ms;
    int64_t epoch = base->epoch + 1;

    if (base->owner[0] == '\0' || fence_ms < sim_now(sim))
        fence_ms = sim_now(sim);
    lease->fences_ms[epoch % LEASE_FENCES] = fence_ms;
    lease->beaten_ms = sim_now(sim);
    sim_tell(sim, adapter->link.proc->name, STORY_ALL, "takes lane %lld with epoch %lld",
             lease - lease_at(adapter, 0), epoch, 0);
}

static void note_release(void *ctx, struct fake_lease *base)
{
    const struct lease_adapter *adapter = ctx;

    sim_tell(adapter->link.db->sim, adapter->link.proc->name, STORY_ALL,
             "releases lane %lld, epoch %lld",
             (const struct lane_lease *)base - lease_at(adapter, 0), base->epoch, 0);
}

struct lease_store tables_leases(struct lease_adapter *adapter)
{
    struct tables *tables = adapter->link.db->sim->tables;

    adapter->store = (struct fake_lease_store){
        .hooks = {adapter, send_call, get_answer, read_clock},
        .name = adapter->link.proc->name,
        .weight = 1,
        .instances = adapter->of_shards ? &tables->retries[adapter->handler] : &tables->relays,
        .lease_count = adapter->lane_count,
        .find = find_lease,
        .wait = wait_for_row,
        .on_beat = note_beat,
        .on_take = note_take,
        .on_release = note_release,
    };
    assert(adapter->lane_count <= FAKE_LEASES_MAX);
    for (size_t i = 0; i < adapter->lane_count; i++)
        adapter->store.leases[i] = &lease_at(adapter, i)->base;
    return fake_lease_store_ops(&adapter->store);
}
