/* SPDX-License-Identifier: MIT */
#include "tests/fakes/fake_relay.h"

#include <stdio.h>

static enum outbox_state read_state(void *ctx, int64_t seq)
{
    const struct fake_relay *fake = ctx;

    return fake->rows[seq].state;
}

static int64_t read_made_ms(void *ctx, int64_t seq)
{
    const struct fake_relay *fake = ctx;

    return fake->rows[seq].made_ms;
}

static int64_t read_clock(void *ctx)
{
    const struct fake_relay *fake = ctx;

    return fake->now_ms;
}

void fake_relay_show_row(void *ctx, int64_t seq, char key[FAKE_KEY_SIZE], struct relay_row *row)
{
    const struct fake_relay *fake = ctx;
    const struct fake_relay_row *known = &fake->rows[seq];
    int len = snprintf(key, FAKE_KEY_SIZE, "key-%d", known->key);

    *row = (struct relay_row){.seq = seq, .epoch = fake->epoch, .size = 10, .created_ms = 1};
    row->id = (struct bytes){"id", 2};
    row->aggregate_type = (struct bytes){"step", 4};
    row->aggregate_id = (struct bytes){key, (size_t)len};
    row->type = (struct bytes){"Step", 4};
    row->oversize = known->oversize && !fake->healed;
    if (row->oversize)
        row->size = UINT32_MAX;
    if (!row->oversize)
        row->payload = (struct bytes){"0123456789", 10};
}

static enum rc send_call(void *ctx, struct err *err)
{
    struct fake_relay *fake = ctx;
    enum rc rc;

    return fake_relay_fails(fake, fake->faults.database, &rc, err) ? rc : RC_OK;
}

static enum rc get_answer(void *ctx, struct err *err)
{
    (void)err;
    fake_relay_pass(ctx);
    return RC_OK;
}

static enum rc call_read(void *ctx, enum rc *broken, struct err *err)
{
    *broken = send_call(ctx, err);
    return RC_OK;
}

static struct fake_relay *fake_relay_of(void *ctx)
{
    return ((struct fake_source *)ctx)->hooks.ctx;
}

static int64_t lowest_unsettled(const struct fake_relay *fake)
{
    return fake->outbox.settled + 1;
}

static enum rc source_writers(void *ctx, struct source_writers *writers, struct err *err)
{
    struct fake_relay *fake = fake_relay_of(ctx);
    enum rc rc;

    *writers = (struct source_writers){.known = fake->writers_known, .asked_ms = fake->now_ms};
    if (fake_relay_fails(fake, fake->faults.database, &rc, err))
        return rc;
    for (int64_t seq = lowest_unsettled(fake); seq < fake->outbox.seq_next; seq++) {
        uint64_t id = fake->rows[seq].writer;

        if (fake->rows[seq].state != OUTBOX_WRITTEN)
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
    struct fake_relay *fake = fake_relay_of(ctx);
    enum rc rc;

    fake->now_ms += fake->look_takes_ms;
    fake->look_takes_ms = 0;
    rc = fake_source_look(ctx, from, above, look, err);
    if (rc == RC_OK)
        fake->look_from = from;
    return rc;
}

static enum rc source_restart(void *ctx, int64_t below, struct source_restart *restart,
                              struct err *err)
{
    enum rc rc = fake_source_restart(ctx, below, restart, err);

    if (fake_relay_of(ctx)->next_hidden)
        restart->next_seq = 0;
    return rc;
}

static enum rc source_nodes(void *ctx, struct source_nodes *nodes, struct err *err)
{
    struct fake_relay *fake = fake_relay_of(ctx);
    enum rc rc;

    nodes->what[0] = '\0';
    if (fake_relay_fails(fake, fake->faults.database, &rc, err))
        return rc;
    snprintf(nodes->what, sizeof(nodes->what), "%s", fake->several_nodes ? "a cluster" : "");
    return RC_OK;
}

struct source fake_relay_source(struct fake_relay *fake)
{
    fake->source = (struct fake_source){
        .hooks = {fake, send_call, get_answer, read_clock},
        .table = &fake->outbox,
        .state = read_state,
        .created_ms = read_made_ms,
        .show = fake_relay_show_row,
        .call_read = call_read,
    };
    return (struct source){.ctx = &fake->source,
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
    struct fake_relay *fake = ctx;
    enum rc rc;
    bool failed = fake_relay_fails(fake, fake->faults.database, &rc, err);

    *fenced = false;
    /* Half of the failed ones were done, and only their answer was lost. */
    if (failed && fake_relay_chance(fake, 500))
        return rc;
    if (epoch != fake->epoch) {
        *fenced = true;
        return failed ? rc : RC_OK;
    }
    for (int64_t seq = ranges[0].from;
         seq <= fake_outbox_scan_to(&fake->outbox, ranges[count - 1].to); seq++) {
        struct fake_relay_row *row = &fake->rows[seq];

        if (!fake_outbox_in_ranges(seq, ranges, count))
            continue;
        if (row->published == 0 || row->state == OUTBOX_MOVED)
            fake->wrong_deletes++;
        if (row->state == OUTBOX_COMMITTED)
            row->state = OUTBOX_DELETED;
    }
    return failed ? rc : RC_OK;
}

struct deleter_ops fake_relay_deleter(struct fake_relay *fake)
{
    return (struct deleter_ops){.ctx = fake, .delete_ranges = delete_ranges};
}
