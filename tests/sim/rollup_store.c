/* SPDX-License-Identifier: MIT */
/* The shared fake of the roll-up's store on a simulated connection. */
#include "tests/sim/rankings.h"
#include "tests/sim/removals.h"
#include "tests/sim/sink.h"

static struct sim *sim_of(const struct rollup_adapter *adapter)
{
    return adapter->link.db->sim;
}

static enum rc send_call(void *ctx, struct err *err)
{
    struct rollup_adapter *adapter = ctx;

    return link_call(&adapter->link, err);
}

static enum rc get_answer(void *ctx, struct err *err)
{
    struct rollup_adapter *adapter = ctx;

    return link_answer(&adapter->link, err);
}

static int64_t read_clock(void *ctx)
{
    const struct rollup_adapter *adapter = ctx;

    return db_clock(adapter->link.db);
}

static void read_total(void *ctx, int64_t content_id, struct fake_total *total)
{
    const struct rollup_adapter *adapter = ctx;
    const struct fake_tally_version *row = &sim_of(adapter)->sink->totals[content_id].old;

    *total = (struct fake_total){row->found, row->votes, row->seq, row->changed_ms};
}

static enum rc begin_locked(void *ctx, struct err *err)
{
    struct rollup_adapter *adapter = ctx;
    enum rc rc = link_begin(&adapter->link, err);

    if (rc == RC_OK)
        rc = link_call(&adapter->link, err);
    if (rc == RC_OK)
        rc = link_lock(&adapter->link, &sim_of(adapter)->sink->state_row, err);
    if (rc == RC_OK)
        rc = link_answer(&adapter->link, err);
    if (rc != RC_OK)
        link_rollback(&adapter->link);
    return rc;
}

static enum rc reach_commit(void *ctx, struct err *err)
{
    struct rollup_adapter *adapter = ctx;
    enum rc rc = link_call(&adapter->link, err);

    if (rc == RC_OK && !adapter->link.session->open)
        rc = err_fail(err, RC_RETRY, 2006, "server has gone away");
    if (rc != RC_OK)
        link_rollback(&adapter->link);
    return rc;
}

/* The promise C12: what lists show changes only when a window is finished. */
static void check_lists(struct sim *sim)
{
    for (int64_t content = 1; content <= SIM_CONTENTS; content++) {
        const struct fake_remark *remark = &sim->sink->remarks[content];
        int64_t listed = fake_remark_listed_votes(remark, &sim->sink->state);

        if (remark->found && listed != remark->listed_votes)
            sim_fail(sim, content,
                     "roll-up: lists show %lld votes of content %lld, which had %lld when window "
                     "%lld was finished",
                     (long long)listed, (long long)content, (long long)remark->listed_votes,
                     (long long)sim->sink->state.finished_window);
    }
}

static void free_row(void *ctx)
{
    struct rollup_adapter *adapter = ctx;

    if (!adapter->fake.unfenced)
        check_lists(sim_of(adapter));
    rankings_note(sim_of(adapter));
    link_rollback(&adapter->link);
}

/* An application inserts remarks of contents that may long have votes. */
static void remarks_appear(struct sim *sim)
{
    for (int64_t content = 1; content <= SIM_CONTENTS && !sim->healed; content++) {
        struct fake_remark *remark = &sim->sink->remarks[content];

        if (remark->found || !sim_chance(sim, 20) || removals_was_removed(sim, content))
            continue;
        remark->found = true;
        remark->due = true;
        removals_add_remark(sim, content);
        rankings_note(sim);
        sim_tell(sim, "application", content, "inserts the remark of content %lld", content, 0, 0);
    }
}

static enum rc call_look(void *ctx, struct err *err)
{
    enum rc rc = send_call(ctx, err);

    if (rc == RC_OK)
        remarks_appear(sim_of(ctx));
    return rc;
}

static enum rc call_read(void *ctx, struct err *err)
{
    enum rc rc = send_call(ctx, err);

    remarks_appear(sim_of(ctx));
    return rc;
}

static void tell_take(void *ctx, const struct singleton_lease *lease)
{
    const struct rollup_adapter *adapter = ctx;

    sim_tell(sim_of(adapter), adapter->link.proc->name, STORY_DETAIL,
             "takes the roll-up with epoch %lld", lease->epoch, 0, 0);
}

/* The promise: a remark never gets an older total. */
static void check_remark(void *ctx, const struct fake_remark *remark, const struct rollup_row *row)
{
    const struct rollup_adapter *adapter = ctx;
    struct sim *sim = sim_of(adapter);

    if (remark->votes_seq > row->seq)
        sim_fail(sim, row->place.content_id,
                 "roll-up: %s takes the remark of content %lld back from seq %lld to %lld",
                 adapter->link.proc->name, (long long)row->place.content_id,
                 (long long)remark->votes_seq, (long long)row->seq);
    sim_tell(sim, adapter->link.proc->name, row->place.content_id,
             "rolls up content %lld: votes %lld of seq %lld", row->place.content_id, row->votes,
             row->seq);
}

static uint64_t count_connects(void *ctx)
{
    const struct rollup_adapter *adapter = ctx;

    return adapter->link.connects;
}

void rollup_adapter_init(struct rollup_adapter *adapter, struct proc *proc)
{
    struct sink_tables *tables = proc->sim->sink;

    link_init(&adapter->link, proc, proc->sim->sink_db);
    adapter->fake = (struct fake_rollup){
        .hooks = {adapter, send_call, get_answer, read_clock},
        .state = &tables->state,
        .remarks = tables->remarks,
        .content_id_max = SIM_CONTENTS,
        .read_total = read_total,
        .unfenced = proc->sim->fault == FAULT_ROLLUP_UNFENCED,
        .call_look = call_look,
        .call_read = call_read,
        .begin = begin_locked,
        .commit = reach_commit,
        .unlock = free_row,
        .connects = count_connects,
        .on_take = tell_take,
        .on_remark = check_remark,
    };
    adapter->ops = fake_rollup_ops(&adapter->fake);
}
