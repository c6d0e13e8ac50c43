/* SPDX-License-Identifier: MIT */
#include "tests/fakes/fake_relay.h"

#include "common/hash.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

void fake_relay_init(struct fake_relay *fake, uint64_t seed)
{
    memset(fake, 0, sizeof(*fake));
    fake->rng = seed;
    fake->now_ms = 1000000;
    fake->outbox.seq_next = 1;
    fake->writer_next = 100;
    fake->epoch = 1;
    fake->writers_known = true;
    fake->task_chance = 50;
}

uint64_t fake_relay_below(struct fake_relay *fake, uint64_t limit)
{
    return rng_next(&fake->rng) % limit;
}

bool fake_relay_chance(struct fake_relay *fake, unsigned thousandths)
{
    return thousandths > 0 && fake_relay_below(fake, 1000) < thousandths;
}

/* Writers */

static int64_t reserve(struct fake_relay *fake, int key, int n, uint64_t writer)
{
    int64_t seq = fake->outbox.seq_next++;

    assert(seq <= FAKE_RELAY_ROWS_MAX);
    fake->rows[seq] = (struct fake_relay_row){
        .state = OUTBOX_RESERVED, .key = key, .n = n, .writer = writer, .made_ms = fake->now_ms};
    return seq;
}

static void spoil(struct fake_relay *fake, struct fake_relay_row *row)
{
    if (!fake_relay_chance(fake, fake->faults.bad_row))
        return;
    switch (fake_relay_below(fake, 3)) {
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

static void writer_begin(struct fake_relay *fake, struct fake_relay_writer *writer)
{
    int key = (int)fake_relay_below(fake, FAKE_RELAY_KEYS);

    if (fake->key_locked[key] || fake->outbox.seq_next + 8 > FAKE_RELAY_ROWS_MAX)
        return;
    fake->key_locked[key] = true;
    *writer = (struct fake_relay_writer){.busy = true, .key = key};
    writer->id = fake->writer_next++;
    writer->count = 1 + (int)fake_relay_below(fake, 3);
    writer->first = fake->outbox.seq_next;
    writer->will_roll_back = fake_relay_chance(fake, fake->faults.roll_back);
    for (int i = 0; i < writer->count; i++)
        reserve(fake, key, fake->key_next[key] + i, writer->id);
    writer->act_ms = fake->now_ms + (int64_t)fake_relay_below(fake, 3);
}

static void writer_end(struct fake_relay *fake, struct fake_relay_writer *writer)
{
    for (int64_t seq = writer->first; seq < writer->first + writer->count; seq++)
        fake->rows[seq].state = writer->will_roll_back ? OUTBOX_NONE : OUTBOX_COMMITTED;
    if (!writer->will_roll_back)
        fake->key_next[writer->key] += writer->count;
    fake->key_locked[writer->key] = false;
    writer->busy = false;
}

static void writer_step(struct fake_relay *fake, struct fake_relay_writer *writer)
{
    if (!writer->busy) {
        if (fake->writing && fake_relay_chance(fake, 100))
            writer_begin(fake, writer);
        return;
    }
    if (fake->now_ms < writer->act_ms)
        return;
    if (writer->written) {
        writer_end(fake, writer);
        return;
    }
    writer->written = true;
    for (int64_t seq = writer->first; seq < writer->first + writer->count; seq++) {
        fake->rows[seq].state = OUTBOX_WRITTEN;
        spoil(fake, &fake->rows[seq]);
    }
    writer->act_ms = fake->now_ms + (int64_t)fake_relay_below(fake, 4);
    if (fake_relay_chance(fake, fake->faults.hold))
        writer->act_ms += (int64_t)fake_relay_below(fake, 6000);
}

int64_t fake_relay_reserve(struct fake_relay *fake, int key)
{
    int64_t seq = reserve(fake, key, fake->key_next[key]++, fake->writer_next++);

    fake->rows[seq].state = OUTBOX_WRITTEN;
    return seq;
}

void fake_relay_commit(struct fake_relay *fake, int64_t seq)
{
    fake->rows[seq].state = OUTBOX_COMMITTED;
}

void fake_relay_roll_back(struct fake_relay *fake, int64_t seq)
{
    fake->rows[seq].state = OUTBOX_NONE;
}

int64_t fake_relay_append(struct fake_relay *fake, int key)
{
    int64_t seq = fake_relay_reserve(fake, key);

    fake_relay_commit(fake, seq);
    return seq;
}

void fake_relay_lose_rows(struct fake_relay *fake, int64_t from)
{
    size_t kept = 0;

    assert(fake->message_count == 0 && fake->ghost_count == 0);
    for (int64_t seq = fake->outbox.seq_next - 1; seq >= from; seq--) {
        fake->key_next[fake->rows[seq].key] = fake->rows[seq].n;
        fake->rows[seq] = (struct fake_relay_row){.state = OUTBOX_NONE};
    }
    for (size_t i = 0; i < fake->log_count; i++) {
        if (fake->log[i] < from)
            fake->log[kept++] = fake->log[i];
    }
    fake->log_count = kept;
    fake->outbox.seq_next = from;
    fake->outbox.settled = 0;
}

/* The broker */

void fake_relay_append_record(struct fake_relay *fake, int64_t seq)
{
    assert(fake->log_count < FAKE_RELAY_LOG_MAX);
    fake->log_transactions[fake->log_count] = 0;
    fake->log[fake->log_count++] = seq;
    fake->rows[seq].published++;
}

static void append_sent(struct fake_relay *fake, int64_t seq)
{
    fake_relay_append_record(fake, seq);
    fake->log_transactions[fake->log_count - 1] = fake->transaction;
}

static void report(struct fake_relay_message *message, enum rc rc)
{
    if (message->report_due || message->state == MESSAGE_REPORTED)
        return;
    message->report_due = true;
    message->report = rc;
}

/* One request to one partition: all of its records or none. After a refused one the producer sends
 * nothing any more. */
static void request(struct fake_relay *fake, int partition)
{
    struct fake_relay_message *batch[8];
    size_t size = 1 + (size_t)fake_relay_below(fake, 8);
    size_t count = 0;
    bool bad = false;

    for (size_t i = 0; i < fake->message_count && count < size; i++) {
        struct fake_relay_message *message = &fake->messages[i];

        if (message->partition == partition && message->state == MESSAGE_QUEUED) {
            batch[count++] = message;
            bad = bad || (fake->rows[message->seq].bad && !fake->healed);
        }
    }
    for (size_t i = 0; i < count; i++) {
        if (bad) {
            report(batch[i], RC_REJECT);
            fake->rows[batch[i]->seq].refused++;
            batch[i]->state = MESSAGE_REPORTED;
            fake->finished = true;
            continue;
        }
        batch[i]->state = MESSAGE_APPENDED;
        append_sent(fake, batch[i]->seq);
        if (fake->now_ms >= fake->silent_until_ms)
            report(batch[i], RC_OK);
    }
}

static void ghost_step(struct fake_relay *fake)
{
    if (fake->ghost_count == 0 || !fake_relay_chance(fake, 100))
        return;
    append_sent(fake, fake->ghosts[0].seq);
    fake->ghost_count--;
    memmove(fake->ghosts, fake->ghosts + 1, fake->ghost_count * sizeof(fake->ghosts[0]));
}

static void broker_step(struct fake_relay *fake)
{
    ghost_step(fake);
    if (fake_relay_chance(fake, fake->faults.broker))
        fake->down_until_ms = fake->now_ms + (int64_t)fake_relay_below(fake, 3000);
    if (fake_relay_chance(fake, fake->faults.lost_answer))
        fake->silent_until_ms = fake->now_ms + (int64_t)fake_relay_below(fake, 20);
    if (fake->now_ms < fake->down_until_ms || fake->finished)
        return;
    if (fake_relay_chance(fake, 300))
        request(fake, (int)fake_relay_below(fake, FAKE_RELAY_PARTITIONS));
}

void fake_relay_tick(struct fake_relay *fake)
{
    fake->now_ms++;
    fake_relay_task_step(fake);
    for (size_t i = 0; i < FAKE_RELAY_WRITERS; i++)
        writer_step(fake, &fake->writers[i]);
    broker_step(fake);
}

/* A call takes time: writers and broker continue, sometimes for long. */
void fake_relay_pass(struct fake_relay *fake)
{
    if (!fake->calls_advance)
        return;
    for (size_t i = 0; i < FAKE_RELAY_WRITERS; i++) {
        if (fake_relay_chance(fake, 300))
            writer_step(fake, &fake->writers[i]);
    }
    if (fake_relay_chance(fake, 300))
        broker_step(fake);
    for (int64_t ms = fake_relay_chance(fake, 50) ? (int64_t)fake_relay_below(fake, 12) : 0; ms > 0;
         ms--)
        fake_relay_tick(fake);
}

bool fake_relay_fails(struct fake_relay *fake, unsigned chance, enum rc *rc, struct err *err)
{
    fake_relay_pass(fake);
    fake->calls++;
    *rc = fake->fail_rc;
    if (fake->calls != fake->fail_call) {
        if (!fake_relay_chance(fake, chance))
            return false;
        *rc = fake_relay_chance(fake, 100) ? RC_FATAL : RC_RETRY;
    }
    err_set(err, "the call fails");
    return true;
}

/* The first messages of each partition may be on the wire already; they arrive later, in order. */
static void leave_ghosts(struct fake_relay *fake)
{
    size_t left[FAKE_RELAY_PARTITIONS];

    for (size_t i = 0; i < FAKE_RELAY_PARTITIONS; i++)
        left[i] =
            fake_relay_chance(fake, fake->faults.ghost) ? (size_t)fake_relay_below(fake, 6) : 0;
    for (size_t i = 0; i < fake->message_count; i++) {
        const struct fake_relay_message *message = &fake->messages[i];

        if (message->state != MESSAGE_QUEUED || left[message->partition] == 0 ||
            fake->ghost_count == FAKE_RELAY_MESSAGES_MAX || fake->finished)
            continue;
        /* The broker refuses it and all later requests: a sequence number is missing. */
        if (fake->rows[message->seq].bad && !fake->healed) {
            left[message->partition] = 0;
            continue;
        }
        left[message->partition]--;
        fake->ghosts[fake->ghost_count++] = *message;
    }
    fake->message_count = 0;
    fake->finished = false;
}

void fake_relay_kill(struct fake_relay *fake)
{
    leave_ghosts(fake);
}

static enum rc broker_topic_open(void *ctx, const char *topic, size_t topic_index, struct err *err)
{
    enum rc rc;

    (void)topic;
    (void)topic_index;
    return fake_relay_fails(ctx, ((struct fake_relay *)ctx)->faults.database, &rc, err) ? RC_RETRY
                                                                                        : RC_OK;
}

static enum rc broker_send(void *ctx, const char *topic, size_t topic_index,
                           const struct relay_row *row, uint64_t ticket, struct err *err)
{
    struct fake_relay *fake = ctx;
    const struct fake_relay_row *known = &fake->rows[row->seq];
    enum rc rc;

    (void)topic;
    (void)topic_index;
    assert(known->state >= OUTBOX_COMMITTED);
    if (fake_relay_fails(fake, 0, &rc, err))
        return rc == RC_RETRY ? RC_FATAL : rc;
    if (known->sync_bad && !fake->healed)
        return err_fail(err, RC_REJECT, 0, "refused before it was sent");
    if (fake->finished)
        return err_fail(err, RC_FATAL, 0, "the producer is finished");
    if (fake->message_count == FAKE_RELAY_MESSAGES_MAX)
        return err_fail(err, RC_RETRY, 0, "no room");
    fake->messages[fake->message_count++] = (struct fake_relay_message){
        .seq = row->seq, .ticket = ticket, .partition = known->key % FAKE_RELAY_PARTITIONS};
    return RC_OK;
}

static enum rc broker_poll(void *ctx, broker_on_report on_report, void *on_report_ctx,
                           struct err *err)
{
    struct fake_relay *fake = ctx;
    const struct err why = {.text = "the broker says no"};
    size_t kept = 0;

    fake_relay_pass(fake);
    for (size_t i = 0; i < fake->message_count; i++) {
        struct fake_relay_message *message = &fake->messages[i];

        /* Partitions report on their own: some of them now, some later. */
        if (message->report_due && fake_relay_chance(fake, 700)) {
            on_report(on_report_ctx, message->ticket, message->report,
                      message->report == RC_OK ? NULL : &why);
            continue;
        }
        fake->messages[kept++] = *message;
    }
    fake->message_count = kept;
    return fake->finished ? err_fail(err, RC_FATAL, 0, "the producer is finished") : RC_OK;
}

static void broker_purge(void *ctx)
{
    struct fake_relay *fake = ctx;

    for (size_t i = 0; i < fake->message_count; i++)
        report(&fake->messages[i], RC_RETRY);
    /* Requests in flight may have arrived. */
    for (size_t i = 0; i < fake->message_count; i++) {
        if (fake->messages[i].state == MESSAGE_QUEUED)
            fake->messages[i].state = MESSAGE_REPORTED;
    }
}

static void broker_reset(void *ctx)
{
    leave_ghosts(ctx);
}

struct broker fake_relay_broker(struct fake_relay *fake)
{
    return (struct broker){.ctx = fake,
                           .topic_open = broker_topic_open,
                           .send = broker_send,
                           .poll = broker_poll,
                           .purge = broker_purge,
                           .reset = broker_reset};
}

/* Results */

size_t fake_relay_left(const struct fake_relay *fake)
{
    size_t left = 0;

    for (int64_t seq = 1; seq < fake->outbox.seq_next; seq++)
        left += fake->rows[seq].state == OUTBOX_COMMITTED;
    return left;
}

size_t fake_relay_overtaken(const struct fake_relay *fake)
{
    static bool seen[FAKE_RELAY_ROWS_MAX + 1];
    int next[FAKE_RELAY_KEYS] = {0};
    size_t overtaken = 0;

    memset(seen, 0, sizeof(seen));
    for (size_t i = 0; i < fake->log_count; i++) {
        const struct fake_relay_row *row = &fake->rows[fake->log[i]];

        if (seen[fake->log[i]])
            continue;
        seen[fake->log[i]] = true;
        overtaken += row->n != next[row->key];
        if (row->n >= next[row->key])
            next[row->key] = row->n + 1;
    }
    return overtaken;
}

size_t fake_relay_lost(const struct fake_relay *fake)
{
    size_t lost = 0;

    for (int64_t seq = 1; seq < fake->outbox.seq_next; seq++) {
        const struct fake_relay_row *row = &fake->rows[seq];

        lost += row->state >= OUTBOX_COMMITTED && row->published == 0;
    }
    return lost;
}
