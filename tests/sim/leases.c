/* SPDX-License-Identifier: MIT */
#include "tests/sim/tables.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct lane_lease *leases_of(const struct lease_edge *edge)
{
    struct tables *tables = edge->link.db->world->tables;

    return edge->of_shards ? tables->shards[edge->handler] : tables->leases;
}

static struct lease_board *board_of(const struct lease_edge *edge)
{
    struct tables *tables = edge->link.db->world->tables;

    return edge->of_shards ? &tables->retries[edge->handler] : &tables->relays;
}

static struct lane_lease *lease_at(const struct lease_edge *edge, const char *lane)
{
    struct tables *tables = edge->link.db->world->tables;

    if (edge->of_shards) /* "retry:HANDLER:NUMBER" */
        return &tables->shards[edge->handler]
                              [strtoul(strrchr(lane, ':') + 1, NULL, 10) % TASK_SHARDS];
    for (size_t i = 0; i < edge->lane_count; i++)
        if (strcmp(tables->lanes[i].name, lane) == 0)
            return &tables->leases[i];
    abort(); /* not a lane of these */
    return NULL;
}

/* A statement that changes the row waits for who has it locked. */
static enum rc lease_wait(struct lease_edge *edge, const struct lane_lease *lease, struct err *err)
{
    struct world *world = edge->link.db->world;
    int64_t until_ms = world_now(world) + edge->link.db->lock_wait_ms;

    while (lease->row.owner) {
        if (world_now(world) >= until_ms)
            return err_fail(err, RC_RETRY, DB_LOCK_WAIT_CODE, "lock wait time-out");
        sched_pause(&world->sched, 3);
    }
    return RC_OK;
}

static void instance_seen(struct lease_board *board, const char *name, int64_t now_ms)
{
    size_t at = 0;

    while (at < board->instance_count && strcmp(board->instances[at].name, name) != 0)
        at++;
    if (at == board->instance_count) {
        assert(at < TABLE_INSTANCES_MAX);
        board->instance_count++;
        snprintf(board->instances[at].name, sizeof(board->instances[at].name), "%s", name);
    }
    board->instances[at].seen_ms = now_ms;
}

static enum rc store_beat(void *ctx, int64_t lease_ms, struct err *err)
{
    struct lease_edge *edge = ctx;
    struct world *world = edge->link.db->world;
    enum rc rc = link_call(&edge->link, err);

    if (rc != RC_OK)
        return rc;
    instance_seen(board_of(edge), edge->link.proc->name, db_clock(edge->link.db));
    rc = link_answer(&edge->link, err);
    if (rc == RC_OK)
        rc = link_call(&edge->link, err);
    for (size_t i = 0; rc == RC_OK && i < edge->lane_count; i++) {
        struct lane_lease *lease = &leases_of(edge)[i];

        if (strcmp(lease->owner, edge->link.proc->name) != 0)
            continue;
        rc = lease_wait(edge, lease, err);
        if (rc != RC_OK || strcmp(lease->owner, edge->link.proc->name) != 0)
            continue;
        lease->until_ms = db_clock(edge->link.db) + lease_ms;
        lease->beaten_ms = world_now(world);
    }
    return rc == RC_OK ? link_answer(&edge->link, err) : rc;
}

static enum rc store_look(void *ctx, const char *const *lanes, size_t count,
                          struct lease_view *views, struct err *err)
{
    struct lease_edge *edge = ctx;
    enum rc rc = link_call(&edge->link, err);

    memset(views, 0, count * sizeof(*views));
    for (size_t i = 0; rc == RC_OK && i < count; i++) {
        struct lane_lease *lease = lease_at(edge, lanes[i]);

        if (lease->made) {
            snprintf(views[i].owner, sizeof(views[i].owner), "%s", lease->owner);
            views[i].epoch = lease->epoch;
            views[i].left_ms = lease->until_ms - db_clock(edge->link.db);
        }
        lease->made = true;
    }
    return rc == RC_OK ? link_answer(&edge->link, err) : rc;
}

/* By name: a row of names in the order of the sort. */
static enum rc store_instances(void *ctx, int64_t lease_ms, lease_on_instance on_instance,
                               void *on_instance_ctx, struct err *err)
{
    struct lease_edge *edge = ctx;
    const struct lease_board *board = board_of(edge);
    enum rc rc = link_call(&edge->link, err);
    const char *last = "";

    while (rc == RC_OK) {
        const char *next = NULL;

        for (size_t i = 0; i < board->instance_count; i++) {
            const struct lease_instance *one = &board->instances[i];

            if (one->seen_ms > db_clock(edge->link.db) - lease_ms &&
                one->seen_ms < db_clock(edge->link.db) + lease_ms * LEASE_LENGTHS_MAX &&
                strcmp(one->name, last) > 0 && (!next || strcmp(one->name, next) < 0))
                next = one->name;
        }
        if (!next)
            return link_answer(&edge->link, err);
        rc = on_instance(on_instance_ctx, next, 1, err);
        last = next;
    }
    return rc;
}

static enum rc store_take(void *ctx, const char *lane, int64_t lease_ms, bool *taken,
                          int64_t *epoch, struct err *err)
{
    struct lease_edge *edge = ctx;
    struct world *world = edge->link.db->world;
    struct lane_lease *lease = lease_at(edge, lane);
    enum rc rc = link_call(&edge->link, err);

    *taken = false;
    if (rc == RC_OK)
        rc = lease_wait(edge, lease, err);
    if (rc != RC_OK)
        return rc;
    if (lease->owner[0] == '\0' || lease->until_ms < db_clock(edge->link.db)) {
        /* Where the database's clock has run fast, the holder may still believe its own. */
        int64_t fence_ms = lease->beaten_ms + lease_ms;

        if (lease->owner[0] == '\0' || fence_ms < world_now(world))
            fence_ms = world_now(world);
        snprintf(lease->owner, sizeof(lease->owner), "%s", edge->link.proc->name);
        lease->epoch++;
        lease->fences_ms[lease->epoch % LEASE_FENCES] = fence_ms;
        lease->until_ms = db_clock(edge->link.db) + lease_ms;
        lease->beaten_ms = world_now(world);
        *taken = true;
        world_tell(world, edge->link.proc->name, STORY_ALL, "takes lane %lld with epoch %lld",
                   lease - leases_of(edge), lease->epoch, 0);
    }
    rc = link_answer(&edge->link, err);
    if (rc != RC_OK || !*taken)
        return rc;
    rc = link_call(&edge->link, err);
    if (rc != RC_OK)
        return rc;
    if (strcmp(lease->owner, edge->link.proc->name) != 0)
        return err_fail(err, RC_RETRY, 0, "lane %s was taken and lost at once", lane);
    *epoch = lease->epoch;
    return link_answer(&edge->link, err);
}

static bool is_mine(const struct lease_edge *edge, const struct lane_lease *lease, int64_t epoch)
{
    return strcmp(lease->owner, edge->link.proc->name) == 0 && lease->epoch == epoch;
}

static enum rc store_shorten(void *ctx, const char *lane, int64_t epoch, int64_t length_ms,
                             struct err *err)
{
    struct lease_edge *edge = ctx;
    struct lane_lease *lease = lease_at(edge, lane);
    enum rc rc = link_call(&edge->link, err);

    if (rc == RC_OK)
        rc = lease_wait(edge, lease, err);
    if (rc != RC_OK)
        return rc;
    if (lease->epoch == epoch &&
        lease->until_ms > db_clock(edge->link.db) + length_ms * LEASE_LENGTHS_MAX)
        lease->until_ms = db_clock(edge->link.db) + length_ms;
    return link_answer(&edge->link, err);
}

static enum rc store_tell(void *ctx, const char *lane, int64_t epoch, const struct lease_news *news,
                          struct err *err)
{
    struct lease_edge *edge = ctx;
    enum rc rc = link_call(&edge->link, err);

    (void)lane;
    (void)epoch;
    (void)news;
    return rc == RC_OK ? link_answer(&edge->link, err) : rc;
}

static enum rc store_release(void *ctx, const char *lane, int64_t epoch, struct err *err)
{
    struct lease_edge *edge = ctx;
    struct world *world = edge->link.db->world;
    struct lane_lease *lease = lease_at(edge, lane);
    enum rc rc = link_call(&edge->link, err);

    if (rc == RC_OK)
        rc = lease_wait(edge, lease, err);
    if (rc != RC_OK)
        return rc;
    if (is_mine(edge, lease, epoch)) {
        lease->owner[0] = '\0';
        world_tell(world, edge->link.proc->name, STORY_ALL, "releases lane %lld, epoch %lld",
                   lease - leases_of(edge), epoch, 0);
    }
    return link_answer(&edge->link, err);
}

static enum rc store_leave(void *ctx, struct err *err)
{
    struct lease_edge *edge = ctx;
    struct lease_board *board = board_of(edge);
    enum rc rc = link_call(&edge->link, err);

    if (rc != RC_OK)
        return rc;
    for (size_t i = 0; i < board->instance_count; i++) {
        if (strcmp(board->instances[i].name, edge->link.proc->name) == 0)
            board->instances[i] = board->instances[--board->instance_count];
    }
    return link_answer(&edge->link, err);
}

struct lease_store tables_leases(struct lease_edge *edge)
{
    return (struct lease_store){
        .ctx = edge,
        .beat = store_beat,
        .look = store_look,
        .instances = store_instances,
        .take = store_take,
        .shorten = store_shorten,
        .tell = store_tell,
        .release = store_release,
        .leave = store_leave,
    };
}
