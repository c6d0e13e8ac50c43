/* SPDX-License-Identifier: MIT */
#include "tests/flow/relay_world.h"

#include "common/hash.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

void world_init(struct world *world, uint64_t seed)
{
    memset(world, 0, sizeof(*world));
    world->rng = seed;
    world->now_ms = 1000000;
    world->outbox.seq_next = 1;
    world->writer_next = 100;
    world->epoch = 1;
    world->writers_known = true;
    world->task_chance = 50;
}

uint64_t world_below(struct world *world, uint64_t limit)
{
    return rng_next(&world->rng) % limit;
}

bool world_chance(struct world *world, unsigned thousandths)
{
    return thousandths > 0 && world_below(world, 1000) < thousandths;
}

/* Writers */

static int64_t reserve(struct world *world, int key, int n, uint64_t writer)
{
    int64_t seq = world->outbox.seq_next++;

    assert(seq <= WORLD_ROWS_MAX);
    world->rows[seq] = (struct world_row){
        .state = OUTBOX_RESERVED, .key = key, .n = n, .writer = writer, .made_ms = world->now_ms};
    return seq;
}

static void spoil(struct world *world, struct world_row *row)
{
    if (!world_chance(world, world->faults.bad_row))
        return;
    switch (world_below(world, 3)) {
    case 0:
        row->sync_bad = true;
        break;
    case 1:
        row->oversize = true;
        break;
    default:
        row->bad = true;
        break;
    }
}

static void writer_begin(struct world *world, struct world_writer *writer)
{
    int key = (int)world_below(world, WORLD_KEYS);

    if (world->key_locked[key] || world->outbox.seq_next + 8 > WORLD_ROWS_MAX)
        return;
    world->key_locked[key] = true;
    *writer = (struct world_writer){.busy = true, .key = key};
    writer->id = world->writer_next++;
    writer->count = 1 + (int)world_below(world, 3);
    writer->first = world->outbox.seq_next;
    writer->will_roll_back = world_chance(world, world->faults.roll_back);
    for (int i = 0; i < writer->count; i++)
        reserve(world, key, world->key_next[key] + i, writer->id);
    writer->act_ms = world->now_ms + (int64_t)world_below(world, 3);
}

static void writer_end(struct world *world, struct world_writer *writer)
{
    for (int64_t seq = writer->first; seq < writer->first + writer->count; seq++)
        world->rows[seq].state = writer->will_roll_back ? OUTBOX_NONE : OUTBOX_COMMITTED;
    if (!writer->will_roll_back)
        world->key_next[writer->key] += writer->count;
    world->key_locked[writer->key] = false;
    writer->busy = false;
}

static void writer_step(struct world *world, struct world_writer *writer)
{
    if (!writer->busy) {
        if (world->writing && world_chance(world, 100))
            writer_begin(world, writer);
        return;
    }
    if (world->now_ms < writer->act_ms)
        return;
    if (writer->written) {
        writer_end(world, writer);
        return;
    }
    writer->written = true;
    for (int64_t seq = writer->first; seq < writer->first + writer->count; seq++) {
        world->rows[seq].state = OUTBOX_WRITTEN;
        spoil(world, &world->rows[seq]);
    }
    writer->act_ms = world->now_ms + (int64_t)world_below(world, 4);
    if (world_chance(world, world->faults.hold))
        writer->act_ms += (int64_t)world_below(world, 6000);
}

int64_t world_reserve(struct world *world, int key)
{
    int64_t seq = reserve(world, key, world->key_next[key]++, world->writer_next++);

    world->rows[seq].state = OUTBOX_WRITTEN;
    return seq;
}

void world_commit(struct world *world, int64_t seq)
{
    world->rows[seq].state = OUTBOX_COMMITTED;
}

void world_roll_back(struct world *world, int64_t seq)
{
    world->rows[seq].state = OUTBOX_NONE;
}

int64_t world_append(struct world *world, int key)
{
    int64_t seq = world_reserve(world, key);

    world_commit(world, seq);
    return seq;
}

void world_lose_rows(struct world *world, int64_t from)
{
    size_t kept = 0;

    assert(world->message_count == 0 && world->ghost_count == 0);
    for (int64_t seq = world->outbox.seq_next - 1; seq >= from; seq--) {
        world->key_next[world->rows[seq].key] = world->rows[seq].n;
        world->rows[seq] = (struct world_row){.state = OUTBOX_NONE};
    }
    for (size_t i = 0; i < world->log_count; i++) {
        if (world->log[i] < from)
            world->log[kept++] = world->log[i];
    }
    world->log_count = kept;
    world->outbox.seq_next = from;
    world->outbox.settled = 0;
}

/* The broker */

void world_append_record(struct world *world, int64_t seq)
{
    assert(world->log_count < WORLD_LOG_MAX);
    world->log[world->log_count++] = seq;
    world->rows[seq].published++;
}

static void report(struct world_message *message, enum rc rc)
{
    if (message->report_due || message->state == MESSAGE_REPORTED)
        return;
    message->report_due = true;
    message->report = rc;
}

/* One request to one partition: all of its records or none. After a refused one the producer sends
 * nothing any more. */
static void request(struct world *world, int partition)
{
    struct world_message *batch[8];
    size_t size = 1 + (size_t)world_below(world, 8);
    size_t count = 0;
    bool bad = false;

    for (size_t i = 0; i < world->message_count && count < size; i++) {
        struct world_message *message = &world->messages[i];

        if (message->partition == partition && message->state == MESSAGE_QUEUED) {
            batch[count++] = message;
            bad = bad || (world->rows[message->seq].bad && !world->healed);
        }
    }
    for (size_t i = 0; i < count; i++) {
        if (bad) {
            report(batch[i], RC_REJECT);
            world->rows[batch[i]->seq].refused++;
            batch[i]->state = MESSAGE_REPORTED;
            world->finished = true;
            continue;
        }
        batch[i]->state = MESSAGE_APPENDED;
        world_append_record(world, batch[i]->seq);
        if (world->now_ms >= world->silent_until_ms)
            report(batch[i], RC_OK);
    }
}

static void ghost_step(struct world *world)
{
    if (world->ghost_count == 0 || !world_chance(world, 100))
        return;
    world_append_record(world, world->ghosts[0].seq);
    world->ghost_count--;
    memmove(world->ghosts, world->ghosts + 1, world->ghost_count * sizeof(world->ghosts[0]));
}

static void broker_step(struct world *world)
{
    ghost_step(world);
    if (world_chance(world, world->faults.broker))
        world->down_until_ms = world->now_ms + (int64_t)world_below(world, 3000);
    if (world_chance(world, world->faults.lost_answer))
        world->silent_until_ms = world->now_ms + (int64_t)world_below(world, 20);
    if (world->now_ms < world->down_until_ms || world->finished)
        return;
    if (world_chance(world, 300))
        request(world, (int)world_below(world, WORLD_PARTITIONS));
}

void world_tick(struct world *world)
{
    world->now_ms++;
    world_task_step(world);
    for (size_t i = 0; i < WORLD_WRITERS; i++)
        writer_step(world, &world->writers[i]);
    broker_step(world);
}

/* A call takes its time: the others go on, and sometimes for long. */
void world_pass(struct world *world)
{
    if (!world->calls_advance)
        return;
    for (size_t i = 0; i < WORLD_WRITERS; i++) {
        if (world_chance(world, 300))
            writer_step(world, &world->writers[i]);
    }
    if (world_chance(world, 300))
        broker_step(world);
    for (int64_t ms = world_chance(world, 50) ? (int64_t)world_below(world, 12) : 0; ms > 0; ms--)
        world_tick(world);
}

bool world_fails(struct world *world, unsigned chance, enum rc *rc, struct err *err)
{
    world_pass(world);
    world->calls++;
    *rc = world->fail_rc;
    if (world->calls != world->fail_call) {
        if (!world_chance(world, chance))
            return false;
        *rc = world_chance(world, 100) ? RC_FATAL : RC_RETRY;
    }
    err_set(err, "the world says no");
    return true;
}

/* The first messages of each partition may be on the wire already; they arrive later, in order. */
static void leave_ghosts(struct world *world)
{
    size_t left[WORLD_PARTITIONS];

    for (size_t i = 0; i < WORLD_PARTITIONS; i++)
        left[i] = world_chance(world, world->faults.ghost) ? (size_t)world_below(world, 6) : 0;
    for (size_t i = 0; i < world->message_count; i++) {
        const struct world_message *message = &world->messages[i];

        if (message->state != MESSAGE_QUEUED || left[message->partition] == 0 ||
            world->ghost_count == WORLD_MESSAGES_MAX || world->finished)
            continue;
        /* The broker refuses it, and what was sent after it, too: its number is missing. */
        if (world->rows[message->seq].bad && !world->healed) {
            left[message->partition] = 0;
            continue;
        }
        left[message->partition]--;
        world->ghosts[world->ghost_count++] = *message;
    }
    world->message_count = 0;
    world->finished = false;
}

void world_kill(struct world *world)
{
    leave_ghosts(world);
}

static enum rc broker_topic_open(void *ctx, const char *topic, size_t topic_index, struct err *err)
{
    enum rc rc;

    (void)topic;
    (void)topic_index;
    return world_fails(ctx, ((struct world *)ctx)->faults.database, &rc, err) ? RC_RETRY : RC_OK;
}

static enum rc broker_send(void *ctx, const char *topic, size_t topic_index,
                           const struct relay_row *row, uint64_t ticket, struct err *err)
{
    struct world *world = ctx;
    const struct world_row *known = &world->rows[row->seq];
    enum rc rc;

    (void)topic;
    (void)topic_index;
    assert(known->state >= OUTBOX_COMMITTED);
    if (world_fails(world, 0, &rc, err))
        return rc == RC_RETRY ? RC_FATAL : rc;
    if (known->sync_bad && !world->healed)
        return err_fail(err, RC_REJECT, 0, "refused before it was sent");
    if (world->finished)
        return err_fail(err, RC_FATAL, 0, "the producer is finished");
    if (world->message_count == WORLD_MESSAGES_MAX)
        return err_fail(err, RC_RETRY, 0, "no room");
    world->messages[world->message_count++] = (struct world_message){
        .seq = row->seq, .ticket = ticket, .partition = known->key % WORLD_PARTITIONS};
    return RC_OK;
}

static enum rc broker_poll(void *ctx, broker_on_report on_report, void *on_report_ctx,
                           struct err *err)
{
    struct world *world = ctx;
    const struct err why = {.text = "the broker says no"};
    size_t kept = 0;

    world_pass(world);
    for (size_t i = 0; i < world->message_count; i++) {
        struct world_message *message = &world->messages[i];

        /* Partitions report on their own: some of them now, some later. */
        if (message->report_due && world_chance(world, 700)) {
            on_report(on_report_ctx, message->ticket, message->report,
                      message->report == RC_OK ? NULL : &why);
            continue;
        }
        world->messages[kept++] = *message;
    }
    world->message_count = kept;
    return world->finished ? err_fail(err, RC_FATAL, 0, "the producer is finished") : RC_OK;
}

static void broker_purge(void *ctx)
{
    struct world *world = ctx;

    for (size_t i = 0; i < world->message_count; i++)
        report(&world->messages[i], RC_RETRY);
    /* What was on the wire may have arrived. */
    for (size_t i = 0; i < world->message_count; i++) {
        if (world->messages[i].state == MESSAGE_QUEUED)
            world->messages[i].state = MESSAGE_REPORTED;
    }
}

static void broker_reset(void *ctx)
{
    leave_ghosts(ctx);
}

struct broker world_broker(struct world *world)
{
    return (struct broker){world,       broker_topic_open, broker_send,
                           broker_poll, broker_purge,      broker_reset};
}

/* What came of it */

size_t world_left(const struct world *world)
{
    size_t left = 0;

    for (int64_t seq = 1; seq < world->outbox.seq_next; seq++)
        left += world->rows[seq].state == OUTBOX_COMMITTED;
    return left;
}

size_t world_overtaken(const struct world *world)
{
    static bool seen[WORLD_ROWS_MAX + 1];
    int next[WORLD_KEYS] = {0};
    size_t overtaken = 0;

    memset(seen, 0, sizeof(seen));
    for (size_t i = 0; i < world->log_count; i++) {
        const struct world_row *row = &world->rows[world->log[i]];

        if (seen[world->log[i]])
            continue;
        seen[world->log[i]] = true;
        overtaken += row->n != next[row->key];
        if (row->n >= next[row->key])
            next[row->key] = row->n + 1;
    }
    return overtaken;
}

size_t world_lost(const struct world *world)
{
    size_t lost = 0;

    for (int64_t seq = 1; seq < world->outbox.seq_next; seq++) {
        const struct world_row *row = &world->rows[seq];

        lost += row->state >= OUTBOX_COMMITTED && row->published == 0;
    }
    return lost;
}
