/* SPDX-License-Identifier: MIT */
/* The shared fake of the housekeeping's store on a simulated connection, and its promises. */
#include "tests/sim/months.h"

#include "consumer/apply/date.h"

#include <assert.h>
#include <string.h>

#define MONTH_DAYS 31

static struct sim *sim_of(const struct housekeep_adapter *adapter)
{
    return adapter->link.db->sim;
}

static struct months *months_of(const struct housekeep_adapter *adapter)
{
    return sim_of(adapter)->months;
}

/* The tables */

static size_t row_count(void *ctx)
{
    const struct sim *sim = ctx;

    return sim->event_count;
}

static bool read_row(void *ctx, size_t n, struct fake_log_row *row)
{
    const struct sim *sim = ctx;
    const struct fake_vote *vote = &sim->sink->votes[n].base;

    if (!vote->old_found)
        return false;
    *row = (struct fake_log_row){
        .id = vote->id,
        .day = vote->day,
        .content_id = sim->events[n].key,
        .seq = vote->vote.content_seq,
        .votes = vote->vote.votes,
        .voting = sim->events[n].voting == 1,
    };
    return true;
}

static void note_fold(void *ctx, size_t n)
{
    const struct sim *sim = ctx;
    struct months *months = sim->months;

    assert(months->folded_count < FAKE_FOLD_ROWS_MAX);
    months->folded[months->folded_count++] = n;
}

/* The promise: a row of the log is in vote_base once. */
static void fold_check(struct sim *sim, size_t number)
{
    struct sink_vote *vote = &sim->sink->votes[number];

    vote->folded++;
    if (vote->folded > 1)
        sim_fail(sim, sim->events[number].key, "vote_base: event %zu was added %d times", number,
                 vote->folded);
    sim_tell(sim, "sink", sim->events[number].key, "event %lld is added to vote_base",
             (int64_t)number, 0, 0);
}

/* The promise: months that must be kept stay in the log. */
static void begin_check(struct sim *sim, int64_t begin_day)
{
    int64_t today = db_calendar_ms(sim->sink_db) / MS_PER_DAY;

    if (begin_day > date_month_begin(today + MONTH_DAYS, -sim->months->rules.keep_months))
        sim_fail(sim, STORY_ALL,
                 "log_begin: it is day %lld, %lld months are to be kept, and the log begins on "
                 "day %lld",
                 (long long)today, (long long)sim->months->rules.keep_months, (long long)begin_day);
    sim_tell(sim, "sink", STORY_ALL, "the log begins on day %lld", begin_day, 0, 0);
}

static void check_settled(void *ctx, bool commit)
{
    struct sim *sim = ctx;
    struct months *months = sim->months;
    int64_t begin_day = months->tables.now.state.begin_day;

    for (size_t i = 0; commit && i < months->folded_count; i++)
        fold_check(sim, months->folded[i]);
    months->folded_count = 0;
    if (commit && begin_day != months->tables.old.state.begin_day)
        begin_check(sim, begin_day);
    if (commit)
        months->old_holder = months->now_holder;
    else
        months->now_holder = months->old_holder;
}

/* The promise: a month goes when vote_base has all of it. */
static void drop_rows(struct sim *sim, const struct fake_days *days)
{
    for (size_t i = 0; i < sim->event_count; i++) {
        struct sink_vote *vote = &sim->sink->votes[i];

        if (!vote->base.old_found || vote->base.day < days->from || vote->base.day >= days->until)
            continue;
        if (vote->folded == 0)
            sim_fail(sim, sim->events[i].key,
                     "lost: event %zu is dropped with its month, and vote_base does not have it",
                     i);
        vote->base.now_found = vote->base.old_found = false;
        vote->dropped = true;
        sim_tell(sim, "sink", sim->events[i].key, "event %lld is dropped with its month",
                 (int64_t)i, 0, 0);
    }
}

static void check_parts(void *ctx, const struct fake_days *dropped)
{
    struct sim *sim = ctx;
    const struct fake_parts *parts = &sim->months->tables.parts_old;

    if (dropped) {
        drop_rows(sim, dropped);
        months_check_totals(sim);
    }
    sim_tell(sim, "sink", STORY_DETAIL, "vote_document has %lld partitions, from day %lld on",
             (int64_t)parts->count, parts->parts[0].limit_day, 0);
}

void housekeep_tables_init(struct fake_housekeep_tables *tables, struct sim *sim)
{
    *tables = (struct fake_housekeep_tables){
        .ctx = sim,
        .row_count = row_count,
        .read_row = read_row,
        .on_fold = note_fold,
        .on_settle = check_settled,
        .on_parts = check_parts,
    };
}

/* A connection */

/* Rows that may be deleted appear as time passes. */
static void rows_appear(struct housekeep_adapter *adapter)
{
    struct sim *sim = sim_of(adapter);
    struct fake_housekeep_tables *tables = &sim->months->tables;
    size_t kind = (size_t)sim_below(sim, HOUSEKEEP_KINDS);

    if (!sim->healed && tables->made_count[kind] < FAKE_OLD_ROWS_MAX)
        tables->made_ms[kind][tables->made_count[kind]++] = db_calendar_ms(adapter->link.db);
}

/* Of the session: the adapter begins with its link. */
static enum rc send_call(void *ctx, struct err *err)
{
    struct housekeep_adapter *adapter = ctx;
    enum rc rc = link_call(&adapter->link, err);

    if (adapter->fake.op == FAKE_READ_STATE && rc == RC_OK)
        rows_appear(adapter);
    adapter->denied = adapter->denied || (adapter->fake.op == FAKE_DELETE_OLD && rc == RC_FATAL);
    return rc;
}

static int64_t read_calendar(void *ctx)
{
    const struct housekeep_adapter *adapter = ctx;

    return db_calendar_ms(adapter->link.db);
}

static enum rc lock_log(void *ctx, struct err *err)
{
    struct housekeep_adapter *adapter = ctx;

    return months_lock_all(&adapter->link, months_of(adapter)->log_users, err);
}

static enum rc lock_begin(void *ctx, struct err *err)
{
    struct housekeep_adapter *adapter = ctx;

    return months_lock_all(&adapter->link, months_of(adapter)->begin_readers, err);
}

static void note_take(void *ctx)
{
    struct housekeep_adapter *adapter = ctx;
    const struct proc *proc = adapter->link.proc;

    adapter->denied = false;
    months_of(adapter)->now_holder =
        (struct months_holder){proc, proc->lives, db_calendar_ms(adapter->link.db)};
    sim_tell(sim_of(adapter), proc->name, STORY_DETAIL, "takes the housekeeping with epoch %lld",
             months_of(adapter)->tables.now.state.epoch, 0, 0);
}

/* The promise: a process that has lost the lease writes nothing. A session that ended has lost its
 * transaction, and the row may be another one's. */
static void check_write(void *ctx)
{
    const struct housekeep_adapter *adapter = ctx;
    const struct proc *proc = adapter->link.proc;
    const struct months_holder *holder = &months_of(adapter)->now_holder;

    if (link_is_open(&adapter->link) && (holder->proc != proc || holder->life != proc->lives))
        sim_fail(sim_of(adapter), STORY_ALL, "fence: %s works under the lease of %s, epoch %lld",
                 proc->name, holder->proc ? holder->proc->name : "no process",
                 (long long)months_of(adapter)->tables.now.state.epoch);
}

/* The promise: a round that ends leaves nothing behind that was old when it began, unless it only
 * marks a part of it. */
static void check_retention(void *ctx)
{
    const struct housekeep_adapter *adapter = ctx;
    struct sim *sim = sim_of(adapter);
    const struct months *months = months_of(adapter);

    for (enum housekeep_kind kind = 0; kind < HOUSEKEEP_KINDS && !adapter->denied; kind++) {
        int64_t days = months->rules.keep_days[kind];
        int64_t before_ms = months->now_holder.round_ms - (days + MONTH_DAYS) * MS_PER_DAY;

        if (days > 0 && !housekeep_kind_marks(kind) &&
            fake_housekeep_made(&months->tables, kind, before_ms) > 0)
            sim_fail(sim, STORY_ALL, "retention: %s ends a round, and %s has old rows",
                     adapter->link.proc->name, housekeep_kind_name(kind));
    }
}

static enum rc delete_kept(void *ctx, enum housekeep_kind kind, int64_t days, size_t rows_max,
                           uint64_t *rows, struct err *err)
{
    const struct housekeep_adapter *adapter = ((struct fake_housekeep *)ctx)->ctx;

    if (days <= 0 || days != months_of(adapter)->rules.keep_days[kind])
        sim_fail(sim_of(adapter), STORY_ALL, "retention: %s deletes from %s what is %lld days old",
                 adapter->link.proc->name, housekeep_kind_name(kind), (long long)days);
    return fake_housekeep_ops(ctx).delete_old(ctx, kind, days, rows_max, rows, err);
}

void housekeep_adapter_init(struct housekeep_adapter *adapter, struct proc *proc)
{
    enum sim_fault fault = proc->sim->fault;

    link_init(&adapter->link, proc, proc->sim->sink_db);
    adapter->denied = false;
    adapter->fake = (struct fake_housekeep){
        .session = link_session(&adapter->link),
        .tables = &proc->sim->months->tables,
        .faults = {.unfenced = fault == FAULT_HOUSEKEEP_UNFENCED,
                   .owner_ignored = fault == FAULT_SINGLETON_OWNER_IGNORED,
                   .fold_apart = fault == FAULT_FOLD_APART,
                   .fold_continues = fault == FAULT_FOLD_GOES_ON},
        .ctx = adapter,
        .lock_log = lock_log,
        .lock_begin = fault == FAULT_BEGIN_UNLOCKED ? NULL : lock_begin,
        .on_take = note_take,
        .on_write = check_write,
        .on_finish = check_retention,
    };
    adapter->fake.session.hooks.call = send_call;
    adapter->fake.session.hooks.now_ms = read_calendar;
    adapter->ops = fake_housekeep_ops(&adapter->fake);
    adapter->ops.delete_old = delete_kept;
}
