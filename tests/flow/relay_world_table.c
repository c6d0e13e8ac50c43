/* SPDX-License-Identifier: MIT */
#include "tests/flow/relay_world.h"

#include <assert.h>
#include <stdio.h>

static bool in_ranges(int64_t seq, const struct seq_range *ranges, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (seq >= ranges[i].from && seq <= ranges[i].to)
            return true;
    }
    return false;
}

/* From the lowest row that is not settled for good, or the first of the ranges. */
static int64_t scan_from(struct world *world, int64_t from)
{
    while (world->settled + 1 < world->seq_next &&
           (world->rows[world->settled + 1].state == ROW_NONE ||
            world->rows[world->settled + 1].state >= ROW_MOVED))
        world->settled++;
    return from > world->settled ? from : world->settled + 1;
}

static int64_t scan_to(const struct world *world, int64_t to)
{
    return to < world->seq_next ? to : world->seq_next - 1;
}

static void row_show(const struct world *world, int64_t seq, char key[16], struct relay_row *row)
{
    const struct world_row *known = &world->rows[seq];
    int len = snprintf(key, 16, "key-%d", known->key);

    *row = (struct relay_row){.seq = seq, .epoch = world->epoch, .size = 10, .created_ms = 1};
    row->id = (struct bytes){"id", 2};
    row->aggregate_type = (struct bytes){"step", 4};
    row->aggregate_id = (struct bytes){key, (size_t)len};
    row->type = (struct bytes){"Step", 4};
    row->oversize = known->oversize && !world->healed;
    if (!row->oversize)
        row->payload = (struct bytes){"0123456789", 10};
}

static enum rc source_read(void *ctx, const struct seq_range *ranges, size_t count, size_t rows_max,
                           source_on_row on_row, void *on_row_ctx, struct err *err)
{
    struct world *world = ctx;
    size_t rows = 0;
    enum rc rc;
    bool failed = world_fails(world, world->faults.database, &rc, err);

    for (size_t i = 1; i < count; i++)
        assert(ranges[i - 1].to < ranges[i].from);
    for (int64_t seq = scan_from(world, ranges[0].from);
         seq <= scan_to(world, ranges[count - 1].to) && rows < rows_max; seq++) {
        struct relay_row row;
        char key[16];

        if (world->rows[seq].state != ROW_COMMITTED || !in_ranges(seq, ranges, count))
            continue;
        /* A connection may break in the middle of a result. */
        if (failed && rows == 2)
            break;
        row_show(world, seq, key, &row);
        rows++;
        if (!on_row(on_row_ctx, &row))
            break;
    }
    world_pass(world);
    return failed ? rc : RC_OK;
}

static enum rc source_probe(void *ctx, const struct seq_range *ranges, size_t count, bool *busy,
                            bool *found, struct err *err)
{
    struct world *world = ctx;
    enum rc rc;

    *busy = *found = false;
    if (world_fails(world, world->faults.database, &rc, err))
        return rc;
    for (int64_t seq = scan_from(world, ranges[0].from);
         seq <= scan_to(world, ranges[count - 1].to); seq++) {
        if (!in_ranges(seq, ranges, count))
            continue;
        *busy = *busy || world->rows[seq].state == ROW_WRITTEN;
        *found = *found || world->rows[seq].state == ROW_COMMITTED;
    }
    return RC_OK;
}

static enum rc source_writers(void *ctx, struct source_writers *writers, struct err *err)
{
    struct world *world = ctx;
    enum rc rc;

    *writers = (struct source_writers){.known = world->writers_known, .asked_ms = world->now_ms};
    if (world_fails(world, world->faults.database, &rc, err))
        return rc;
    for (int64_t seq = scan_from(world, 1); seq < world->seq_next; seq++) {
        uint64_t id = world->rows[seq].writer;

        if (world->rows[seq].state != ROW_WRITTEN)
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
    struct world *world = ctx;
    enum rc rc;

    *look = (struct source_look){0};
    world->now_ms += world->look_takes_ms;
    world->look_takes_ms = 0;
    if (world_fails(world, world->faults.database, &rc, err))
        return rc;
    for (int64_t seq = scan_from(world, from); seq < world->seq_next; seq++) {
        if (world->rows[seq].state != ROW_COMMITTED)
            continue;
        if (look->oldest_seq == 0) {
            look->oldest_seq = seq;
            look->oldest_age_ms = world->now_ms - world->rows[seq].made_ms;
            if (look->oldest_age_ms < 0)
                look->oldest_age_ms = 0;
        }
        if (seq > above)
            look->newest_seq = seq;
    }
    world->look_from = from;
    return RC_OK;
}

static enum rc source_restart(void *ctx, int64_t below, struct source_restart *restart,
                              struct err *err)
{
    struct world *world = ctx;
    enum rc rc;

    *restart = (struct source_restart){.next_seq = world->next_hidden ? 0 : world->seq_next};
    if (world_fails(world, world->faults.database, &rc, err))
        return rc;
    for (int64_t seq = scan_from(world, 1); seq < below && seq < world->seq_next; seq++) {
        if (world->rows[seq].state != ROW_COMMITTED)
            continue;
        restart->low_seq = seq;
        break;
    }
    return RC_OK;
}

static enum rc source_nodes(void *ctx, struct source_nodes *nodes, struct err *err)
{
    struct world *world = ctx;
    enum rc rc;

    nodes->what[0] = '\0';
    if (world_fails(world, world->faults.database, &rc, err))
        return rc;
    snprintf(nodes->what, sizeof(nodes->what), "%s", world->several_nodes ? "a cluster" : "");
    return RC_OK;
}

struct source world_source(struct world *world)
{
    return (struct source){.ctx = world,
                           .read = source_read,
                           .probe = source_probe,
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
    for (int64_t seq = ranges[0].from; seq <= scan_to(world, ranges[count - 1].to); seq++) {
        struct world_row *row = &world->rows[seq];

        if (!in_ranges(seq, ranges, count))
            continue;
        if (row->published == 0 || row->state == ROW_MOVED)
            world->wrong_deletes++;
        if (row->state == ROW_COMMITTED)
            row->state = ROW_DELETED;
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
