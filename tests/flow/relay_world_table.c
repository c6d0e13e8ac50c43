/* SPDX-License-Identifier: MIT */
#include "tests/flow/relay_world.h"

#include <stdio.h>

static enum outbox_state read_state(void *ctx, int64_t seq)
{
    const struct world *world = ctx;

    return world->rows[seq].state;
}

static int64_t read_made_ms(void *ctx, int64_t seq)
{
    const struct world *world = ctx;

    return world->rows[seq].made_ms;
}

static int64_t read_clock(void *ctx)
{
    const struct world *world = ctx;

    return world->now_ms;
}

static void show_row(void *ctx, int64_t seq, char key[FAKE_KEY_SIZE], struct relay_row *row)
{
    const struct world *world = ctx;
    const struct world_row *known = &world->rows[seq];
    int len = snprintf(key, FAKE_KEY_SIZE, "key-%d", known->key);

    *row = (struct relay_row){.seq = seq, .epoch = world->epoch, .size = 10, .created_ms = 1};
    row->id = (struct bytes){"id", 2};
    row->aggregate_type = (struct bytes){"step", 4};
    row->aggregate_id = (struct bytes){key, (size_t)len};
    row->type = (struct bytes){"Step", 4};
    row->oversize = known->oversize && !world->healed;
    if (!row->oversize)
        row->payload = (struct bytes){"0123456789", 10};
}

static enum rc send_call(void *ctx, struct err *err)
{
    struct world *world = ctx;
    enum rc rc;

    return world_fails(world, world->faults.database, &rc, err) ? rc : RC_OK;
}

static enum rc get_answer(void *ctx, struct err *err)
{
    (void)err;
    world_pass(ctx);
    return RC_OK;
}

static enum rc call_read(void *ctx, enum rc *broken, struct err *err)
{
    *broken = send_call(ctx, err);
    return RC_OK;
}

static struct world *world_of(void *ctx)
{
    return ((struct fake_source *)ctx)->hooks.ctx;
}

static int64_t lowest_unsettled(const struct world *world)
{
    return world->outbox.settled + 1;
}

static enum rc source_writers(void *ctx, struct source_writers *writers, struct err *err)
{
    struct world *world = world_of(ctx);
    enum rc rc;

    *writers = (struct source_writers){.known = world->writers_known, .asked_ms = world->now_ms};
    if (world_fails(world, world->faults.database, &rc, err))
        return rc;
    for (int64_t seq = lowest_unsettled(world); seq < world->outbox.seq_next; seq++) {
        uint64_t id = world->rows[seq].writer;

        if (world->rows[seq].state != OUTBOX_WRITTEN)
            continue;
        if (writers->oldest == 0 || id < writers->oldest)
            writers->oldest = id;
        if (id > writers->newest)
            writers->newest = id;
    }
    return RC_OK;
}

static enum rc source_look(void *ctx, int64_t from, int64_t above, struct source_look *look,
                           struct err *err)
{
    struct world *world = world_of(ctx);
    enum rc rc;

    world->now_ms += world->look_takes_ms;
    world->look_takes_ms = 0;
    rc = fake_source_look(ctx, from, above, look, err);
    if (rc == RC_OK)
        world->look_from = from;
    return rc;
}

static enum rc source_restart(void *ctx, int64_t below, struct source_restart *restart,
                              struct err *err)
{
    enum rc rc = fake_source_restart(ctx, below, restart, err);

    if (world_of(ctx)->next_hidden)
        restart->next_seq = 0;
    return rc;
}

static enum rc source_nodes(void *ctx, struct source_nodes *nodes, struct err *err)
{
    struct world *world = world_of(ctx);
    enum rc rc;

    nodes->what[0] = '\0';
    if (world_fails(world, world->faults.database, &rc, err))
        return rc;
    snprintf(nodes->what, sizeof(nodes->what), "%s", world->several_nodes ? "a cluster" : "");
    return RC_OK;
}

struct source world_source(struct world *world)
{
    world->source = (struct fake_source){
        .hooks = {world, send_call, get_answer, read_clock},
        .table = &world->outbox,
        .state = read_state,
        .created_ms = read_made_ms,
        .show = show_row,
        .call_read = call_read,
    };
    return (struct source){.ctx = &world->source,
                           .read = fake_source_read,
                           .probe = fake_source_probe,
                           .writers = source_writers,
                           .look = source_look,
                           .restart = source_restart,
                           .nodes = source_nodes};
}

static enum rc delete_ranges(void *ctx, const struct seq_range *ranges, size_t count, int64_t epoch,
                             bool *fenced, struct err *err)
{
    struct world *world = ctx;
    enum rc rc;
    bool failed = world_fails(world, world->faults.database, &rc, err);

    *fenced = false;
    /* Half of the failed ones were done, and only their answer was lost. */
    if (failed && world_chance(world, 500))
        return rc;
    if (epoch != world->epoch) {
        *fenced = true;
        return failed ? rc : RC_OK;
    }
    for (int64_t seq = ranges[0].from;
         seq <= fake_outbox_scan_to(&world->outbox, ranges[count - 1].to); seq++) {
        struct world_row *row = &world->rows[seq];

        if (!fake_outbox_in_ranges(seq, ranges, count))
            continue;
        if (row->published == 0 || row->state == OUTBOX_MOVED)
            world->wrong_deletes++;
        if (row->state == OUTBOX_COMMITTED)
            row->state = OUTBOX_DELETED;
    }
    return failed ? rc : RC_OK;
}

struct deleter_ops world_deleter(struct world *world)
{
    return (struct deleter_ops){.ctx = world,
                                .delete_ranges = delete_ranges,
                                .move_rows = world_move_rows,
                                .load_keys = world_load_keys,
                                .keys_left = world_keys_left};
}
