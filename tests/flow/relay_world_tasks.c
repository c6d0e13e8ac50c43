/* SPDX-License-Identifier: MIT */
#include "tests/flow/relay_world.h"

#include <stdio.h>
#include <string.h>

static size_t first_task(const struct world *world, int key)
{
    size_t at = 0;

    while (at < world->task_count &&
           (world->tasks[at] == 0 || world->rows[world->tasks[at]].key != key))
        at++;
    return at;
}

size_t world_key_tasks(const struct world *world, int key)
{
    size_t count = 0;

    for (size_t i = 0; i < world->task_count; i++)
        count += world->tasks[i] != 0 && world->rows[world->tasks[i]].key == key;
    return count;
}

size_t world_tasks(const struct world *world)
{
    size_t count = 0;

    for (int key = 0; key < WORLD_KEYS; key++)
        count += world_key_tasks(world, key);
    return count;
}

void world_run_task(struct world *world, int key)
{
    size_t at = first_task(world, key);

    if (at == world->task_count)
        return;
    world_append_record(world, world->tasks[at]);
    world->rows[world->tasks[at]].state = OUTBOX_DELETED;
    world->tasks[at] = 0;
}

void world_task_step(struct world *world)
{
    if (world->task_count > 0 && world_chance(world, world->task_chance))
        world_run_task(world, (int)world_below(world, WORLD_KEYS));
}

enum rc world_move_rows(void *ctx, const struct relay_move *moves, size_t count, int64_t epoch,
                        bool *fenced, struct err *err)
{
    struct world *world = ctx;
    enum rc rc;
    bool failed = world_fails(world, world->faults.database, &rc, err);

    *fenced = false;
    if (world_chance(world, world->faults.move))
        return err_fail(err, RC_FATAL, 0, "the retry queue takes nothing");
    if (failed && world_chance(world, 500))
        return rc;
    if (epoch != world->epoch) {
        *fenced = true;
        return failed ? rc : RC_OK;
    }
    for (size_t i = 0; i < count; i++) {
        struct world_row *row = &world->rows[moves[i].seq];

        if (row->state != OUTBOX_COMMITTED)
            continue;
        row->state = OUTBOX_MOVED;
        world->tasks[world->task_count++] = moves[i].seq;
    }
    return failed ? rc : RC_OK;
}

static void key_text(int key, char text[32])
{
    snprintf(text, 32, "outbox.step/key-%d", key);
}

enum rc world_load_keys(void *ctx, size_t keys_max, deleter_on_key on_key, void *on_key_ctx,
                        struct err *err)
{
    struct world *world = ctx;
    size_t count = 0;
    enum rc rc;

    if (world_fails(world, world->faults.database, &rc, err))
        return rc;
    rc = RC_OK;
    for (int key = 0; key < WORLD_KEYS && count < keys_max && rc == RC_OK; key++) {
        char text[32];

        key_text(key, text);
        if (world_key_tasks(world, key) == 0)
            continue;
        count++;
        rc = on_key(on_key_ctx, text, err);
    }
    return rc;
}

enum rc world_keys_left(void *ctx, struct lane_key *keys, size_t count, struct err *err)
{
    struct world *world = ctx;
    enum rc rc;

    if (world_fails(world, world->faults.database, &rc, err))
        return rc;
    for (size_t i = 0; i < count; i++) {
        keys[i].left = false;
        for (int key = 0; key < WORLD_KEYS; key++) {
            char text[32];

            key_text(key, text);
            if (strcmp(text, keys[i].ordering_key) == 0)
                keys[i].left = world_key_tasks(world, key) > 0;
        }
    }
    return RC_OK;
}
