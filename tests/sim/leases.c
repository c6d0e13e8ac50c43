/* SPDX-License-Identifier: MIT */
/* The shared fake of the lease tables on a simulated connection. */
#include "tests/sim/tables.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static struct lane_lease *lease_at(const struct lease_edge *edge, size_t number)
{
    struct tables *tables = edge->link.db->sim->tables;

    return edge->of_shards ? &tables->shards[edge->handler][number] : &tables->leases[number];
}

static struct fake_lease *find_lease(void *ctx, const char *lane)
{
    const struct lease_edge *edge = ctx;
    const struct tables *tables = edge->link.db->sim->tables;

    if (edge->of_shards) /* "retry:HANDLER:NUMBER" */
        return &lease_at(edge, strtoul(strrchr(lane, ':') + 1, NULL, 10) % TASK_SHARDS)->base;
    for (size_t i = 0; i < edge->lane_count; i++)
        if (strcmp(tables->lanes[i].name, lane) == 0)
            return &lease_at(edge, i)->base;
    abort(); /* no lane has this name */
    return NULL;
}

static enum rc send_call(void *ctx, struct err *err)
{
    struct lease_edge *edge = ctx;

    return link_call(&edge->link, err);
}

static enum rc get_answer(void *ctx, struct err *err)
{
    struct lease_edge *edge = ctx;

    return link_answer(&edge->link, err);
}

static int64_t read_clock(void *ctx)
{
    const struct lease_edge *edge = ctx;

    return db_clock(edge->link.db);
}

static enum rc wait_for_row(void *ctx, struct fake_lease *base, struct err *err)
{
    struct lease_edge *edge = ctx;
    const struct lane_lease *lease = (const struct lane_lease *)base;
    struct sim *sim = edge->link.db->sim;
    int64_t until_ms = sim_now(sim) + edge->link.db->lock_wait_ms;

    while (lease->row.owner) {
        if (sim_now(sim) >= until_ms)
            return err_fail(err, RC_RETRY, DB_LOCK_WAIT_CODE, "lock wait time-out");
        sched_pause(&sim->sched, 3);
    }
    return RC_OK;
}

static void note_beat(void *ctx, struct fake_lease *base)
{
    const struct lease_edge *edge = ctx;
    struct lane_lease *lease = (struct lane_lease *)base;

    lease->beaten_ms = sim_now(edge->link.db->sim);
}

/* Where the database's clock has run fast, the former holder may still believe its own lease. */
static void note_take(void *ctx, struct fake_lease *base, int64_t lease_ms)
{
    const struct lease_edge *edge = ctx;
    struct sim *sim = edge->link.db->sim;
    struct lane_lease *lease = (struct lane_lease *)base;
    int64_t fence_ms = lease->beaten_ms + lease_ms;
    int64_t epoch = base->epoch + 1;

    if (base->owner[0] == '\0' || fence_ms < sim_now(sim))
        fence_ms = sim_now(sim);
    lease->fences_ms[epoch % LEASE_FENCES] = fence_ms;
    lease->beaten_ms = sim_now(sim);
    sim_tell(sim, edge->link.proc->name, STORY_ALL, "takes lane %lld with epoch %lld",
             lease - lease_at(edge, 0), epoch, 0);
}

static void note_release(void *ctx, struct fake_lease *base)
{
    const struct lease_edge *edge = ctx;

    sim_tell(edge->link.db->sim, edge->link.proc->name, STORY_ALL, "releases lane %lld, epoch %lld",
             (const struct lane_lease *)base - lease_at(edge, 0), base->epoch, 0);
}

struct lease_store tables_leases(struct lease_edge *edge)
{
    struct tables *tables = edge->link.db->sim->tables;

    edge->store = (struct fake_lease_store){
        .hooks = {edge, send_call, get_answer, read_clock},
        .name = edge->link.proc->name,
        .weight = 1,
        .instances = edge->of_shards ? &tables->retries[edge->handler] : &tables->relays,
        .lease_count = edge->lane_count,
        .find = find_lease,
        .wait = wait_for_row,
        .on_beat = note_beat,
        .on_take = note_take,
        .on_release = note_release,
    };
    assert(edge->lane_count <= FAKE_LEASES_MAX);
    for (size_t i = 0; i < edge->lane_count; i++)
        edge->store.leases[i] = &lease_at(edge, i)->base;
    return fake_lease_store_ops(&edge->store);
}
