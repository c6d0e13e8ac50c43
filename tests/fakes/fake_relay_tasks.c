/* SPDX-License-Identifier: MIT */
#include "tests/fakes/fake_relay.h"

#include <stdio.h>
#include <string.h>

static size_t first_task(const struct fake_relay *fake, int key)
{
    size_t at = 0;

    while (at < fake->task_count &&
           (fake->tasks[at] == 0 || fake->rows[fake->tasks[at]].key != key))
        at++;
    return at;
}

size_t fake_relay_key_tasks(const struct fake_relay *fake, int key)
{
    size_t count = 0;

    for (size_t i = 0; i < fake->task_count; i++)
        count += fake->tasks[i] != 0 && fake->rows[fake->tasks[i]].key == key;
    return count;
}

size_t fake_relay_tasks(const struct fake_relay *fake)
{
    size_t count = 0;

    for (int key = 0; key < FAKE_RELAY_KEYS; key++)
        count += fake_relay_key_tasks(fake, key);
    return count;
}

static bool has_task(const struct fake_relay *fake, int64_t seq, const struct fake_move *move)
{
    for (size_t i = 0; i < fake->task_count; i++)
        if (fake->tasks[i] == seq &&
            (!move || (fake->moves[i].epoch == move->epoch && fake->moves[i].term == move->term &&
                       fake->moves[i].row == move->row)))
            return true;
    return false;
}

/* Whether the task is published; it ends without a record if its row is read again. */
static bool is_passed(struct fake_relay *fake, size_t at)
{
    int64_t seq = fake->tasks[at];

    if (!fake->position)
        return true;
    switch (position_record_cover(fake->position, fake->moves[at].epoch, fake->moves[at].term,
                                  fake->moves[at].row)) {
    case POSITION_PASSED:
        return true;
    case POSITION_BEFORE:
        return false;
    case POSITION_UNKNOWN:
        fake->undecided++;
        return false;
    case POSITION_RETURNS:
        break;
    }
    fake->replaced++;
    fake->tasks[at] = 0;
    if (fake->rows[seq].state == OUTBOX_MOVED && !has_task(fake, seq, NULL))
        fake->rows[seq].state = OUTBOX_COMMITTED;
    return false;
}

void fake_relay_run_task(struct fake_relay *fake, int key)
{
    size_t at = first_task(fake, key);

    if (at == fake->task_count || !is_passed(fake, at))
        return;
    fake_relay_append_record(fake, fake->tasks[at]);
    fake->rows[fake->tasks[at]].state = OUTBOX_DELETED;
    fake->tasks[at] = 0;
}

void fake_relay_task_step(struct fake_relay *fake)
{
    if (fake->task_count > 0 && fake_relay_chance(fake, fake->task_chance))
        fake_relay_run_task(fake, (int)fake_relay_below(fake, FAKE_RELAY_KEYS));
}

static bool is_equal(struct bytes a, struct bytes b)
{
    if (!a.data || !b.data)
        return a.data == b.data;
    return a.len == b.len && memcmp(a.data, b.data, a.len) == 0;
}

/* Counts a move that has a copy of its row. */
static void check_copy(struct fake_relay *fake, const struct relay_move *move)
{
    char key[FAKE_KEY_SIZE];
    struct relay_row row;

    if (!move->row)
        return;
    fake_relay_show_row(fake, move->seq, key, &row);
    fake->copies++;
    fake->wrong_copies += move->row->seq != row.seq || !is_equal(move->row->id, row.id) ||
                          !is_equal(move->row->aggregate_type, row.aggregate_type) ||
                          !is_equal(move->row->aggregate_id, row.aggregate_id) ||
                          !is_equal(move->row->type, row.type) ||
                          !is_equal(move->row->headers, row.headers) ||
                          /* A row may be healed after it was read without its payload. */
                          (!move->row->oversize && !is_equal(move->row->payload, row.payload));
}

static enum rc move_rows(void *ctx, const struct relay_move *moves, size_t count, int64_t epoch,
                         bool *fenced, struct err *err)
{
    struct fake_relay *fake = ctx;
    enum rc rc;
    bool failed = fake_relay_fails(fake, fake->faults.database, &rc, err);

    *fenced = false;
    if (fake_relay_chance(fake, fake->faults.move))
        return err_fail(err, RC_FATAL, 0, "the retry queue takes nothing");
    if (failed && fake_relay_chance(fake, 500))
        return rc;
    if (epoch != fake->epoch) {
        *fenced = true;
        return failed ? rc : RC_OK;
    }
    for (size_t i = 0; i < count; i++) {
        struct fake_relay_row *row = &fake->rows[moves[i].seq];
        const struct fake_move move = {
            epoch, moves[i].term, fake->stream_moves ? (uint64_t)fake->stream_moves[i].seq : 0};

        if (fake->position ? has_task(fake, moves[i].seq, &move) : row->state != OUTBOX_COMMITTED)
            continue;
        row->state = OUTBOX_MOVED;
        check_copy(fake, &moves[i]);
        fake->moves[fake->task_count] = move;
        fake->tasks[fake->task_count++] = moves[i].seq;
    }
    return failed ? rc : RC_OK;
}

static void key_text(int key, char text[32])
{
    snprintf(text, 32, "outbox.step/key-%d", key);
}

static enum rc load_keys(void *ctx, size_t keys_max, diverter_on_key on_key, void *on_key_ctx,
                         struct err *err)
{
    struct fake_relay *fake = ctx;
    size_t count = 0;
    enum rc rc;

    if (fake_relay_fails(fake, fake->faults.database, &rc, err))
        return rc;
    rc = RC_OK;
    for (int key = 0; key < FAKE_RELAY_KEYS && count < keys_max && rc == RC_OK; key++) {
        char text[32];

        key_text(key, text);
        if (fake_relay_key_tasks(fake, key) == 0)
            continue;
        count++;
        rc = on_key(on_key_ctx, text, err);
    }
    return rc;
}

static enum rc keys_left(void *ctx, struct lane_key *keys, size_t count, struct err *err)
{
    struct fake_relay *fake = ctx;
    enum rc rc;

    if (fake_relay_fails(fake, fake->faults.database, &rc, err))
        return rc;
    for (size_t i = 0; i < count; i++) {
        keys[i].left = false;
        for (int key = 0; key < FAKE_RELAY_KEYS; key++) {
            char text[32];

            key_text(key, text);
            if (strcmp(text, keys[i].ordering_key) == 0)
                keys[i].left = fake_relay_key_tasks(fake, key) > 0;
        }
    }
    return RC_OK;
}

struct diverter_ops fake_relay_diverter(struct fake_relay *fake)
{
    return (struct diverter_ops){
        .ctx = fake, .move_rows = move_rows, .load_keys = load_keys, .keys_left = keys_left};
}
