/* SPDX-License-Identifier: MIT */
#include "tests/sim/months.h"

#include "consumer/apply/date.h"
#include "consumer/maintenance/housekeep.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#define MONTH_DAYS 31

enum {
    NO_SUCH_PARTITION = 1735,
    SAME_NAME_PARTITION = 1517,
};

static struct sim *sim_of(const struct housekeep_adapter *adapter)
{
    return adapter->link.db->sim;
}

static struct months *months_of(const struct housekeep_adapter *adapter)
{
    return sim_of(adapter)->months;
}

static int64_t now_ms(const struct housekeep_adapter *adapter)
{
    return db_calendar_ms(adapter->link.db);
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

static void state_settle(void *ctx, struct fake_row *row, bool commit)
{
    struct sim *sim = ctx;
    struct months *months = (struct months *)row;

    if (!commit) {
        months->now = months->old;
        months->folded_count = 0;
        return;
    }
    for (size_t i = 0; i < months->folded_count; i++)
        fold_check(sim, months->folded[i]);
    months->folded_count = 0;
    if (months->now.row.begin_day != months->old.row.begin_day)
        begin_check(sim, months->now.row.begin_day);
    months->old = months->now;
}

/* The session may have ended during a call: its rows are another one's then. */
static enum rc open_check(const struct housekeep_adapter *adapter, struct err *err)
{
    if (link_is_open(&adapter->link))
        return RC_OK;
    return err_fail(err, RC_RETRY, 2006, "server has gone away");
}

/* A transaction that has the row of housekeep_state locked. */
static enum rc state_begin(struct housekeep_adapter *adapter, struct err *err)
{
    struct link *link = &adapter->link;
    enum rc rc = link_begin(link, err);

    if (rc == RC_OK)
        rc = link_call(link, err);
    if (rc == RC_OK)
        rc = link_lock(link, &months_of(adapter)->row, err);
    if (rc == RC_OK)
        link_wrote(link, &months_of(adapter)->row, state_settle);
    if (rc == RC_OK)
        rc = link_answer(link, err);
    if (rc == RC_OK)
        rc = open_check(adapter, err);
    if (rc != RC_OK)
        link_rollback(link);
    return rc;
}

static bool is_held(const struct housekeep_adapter *adapter, const struct singleton_lease *lease)
{
    const struct housekeep_state *row = &months_of(adapter)->now.row;
    enum sim_fault fault = sim_of(adapter)->fault;

    if (fault == FAULT_HOUSEKEEP_UNFENCED)
        return true;
    return row->epoch == lease->epoch &&
           (fault == FAULT_SINGLETON_OWNER_IGNORED || strcmp(row->owner, lease->owner) == 0);
}

/* As singleton_mysql_check(). */
static enum rc begin_held(struct housekeep_adapter *adapter, const struct singleton_lease *lease,
                          bool *held, struct err *err)
{
    enum rc rc = state_begin(adapter, err);

    *held = rc == RC_OK && is_held(adapter, lease);
    if (rc == RC_OK && !*held)
        link_rollback(&adapter->link);
    return rc;
}

static enum rc commit_held(struct housekeep_adapter *adapter, struct err *err)
{
    const struct proc *proc = adapter->link.proc;
    const struct months_state *state = &months_of(adapter)->now;

    /* The promise: a process that has lost the lease writes nothing. A session that ended has lost
     * its transaction, and the row may be another one's. */
    if (link_is_open(&adapter->link) &&
        (state->holder != proc || state->holder_life != proc->lives))
        sim_fail(sim_of(adapter), STORY_ALL, "fence: %s works under the lease of %s, epoch %lld",
                 proc->name, state->holder ? state->holder->name : "no process",
                 (long long)state->row.epoch);
    return link_commit(&adapter->link, err);
}

static void lease_renew(struct housekeep_adapter *adapter, const struct singleton_lease *lease)
{
    months_of(adapter)->now.row.lease_until_ms = now_ms(adapter) + lease->lease_ms;
}

/* Rows that may be deleted appear as time passes. */
static void rows_appear(struct housekeep_adapter *adapter)
{
    struct sim *sim = sim_of(adapter);
    struct months *months = months_of(adapter);
    size_t kind = (size_t)sim_below(sim, HOUSEKEEP_KINDS);

    if (!sim->healed && months->aged_count[kind] < MONTHS_AGED_MAX)
        months->aged_ms[kind][months->aged_count[kind]++] = now_ms(adapter);
}

static enum rc store_look(void *ctx, struct housekeep_state *state, struct err *err)
{
    struct housekeep_adapter *adapter = ctx;
    enum rc rc = link_call(&adapter->link, err);

    if (rc != RC_OK)
        return rc;
    rows_appear(adapter);
    *state = months_of(adapter)->old.row;
    state->now_ms = now_ms(adapter);
    state->newest_day = months_newest_day(sim_of(adapter));
    return link_answer(&adapter->link, err);
}

static enum rc store_take(void *ctx, const struct singleton_lease *lease, bool *taken,
                          struct err *err)
{
    struct housekeep_adapter *adapter = ctx;
    struct housekeep_state *row = &months_of(adapter)->now.row;
    enum rc rc = state_begin(adapter, err);

    *taken = false;
    adapter->denied = false;
    if (rc != RC_OK)
        return rc;
    if (row->epoch != lease->epoch - 1 ||
        !fake_singleton_lease_is_free(row->owner, row->lease_until_ms, now_ms(adapter), lease)) {
        link_rollback(&adapter->link);
        return RC_OK;
    }
    snprintf(row->owner, sizeof(row->owner), "%s", lease->owner);
    row->epoch = lease->epoch;
    months_of(adapter)->now.holder = adapter->link.proc;
    months_of(adapter)->now.holder_life = adapter->link.proc->lives;
    months_of(adapter)->now.round_ms = now_ms(adapter);
    lease_renew(adapter, lease);
    rc = link_commit(&adapter->link, err);
    *taken = rc == RC_OK;
    sim_tell(sim_of(adapter), adapter->link.proc->name, STORY_DETAIL,
             "takes the housekeeping with epoch %lld: %lld", lease->epoch, *taken, 0);
    return rc;
}

static enum rc store_renew(void *ctx, const struct singleton_lease *lease, bool *held,
                           struct err *err)
{
    struct housekeep_adapter *adapter = ctx;
    enum rc rc = begin_held(adapter, lease, held, err);

    if (rc != RC_OK || !*held)
        return rc;
    lease_renew(adapter, lease);
    return commit_held(adapter, err);
}

static enum rc store_read_parts(void *ctx, struct housekeep_part *parts, size_t max, size_t *count,
                                struct err *err)
{
    struct housekeep_adapter *adapter = ctx;
    const struct months_parts *from = &months_of(adapter)->ddl.old;
    enum rc rc = link_call(&adapter->link, err);

    if (rc != RC_OK)
        return rc;
    assert(from->count <= max);
    memcpy(parts, from->parts, from->count * sizeof(*parts));
    *count = from->count;
    return link_answer(&adapter->link, err);
}

/* Rows of the partition behind an id. */
static uint64_t rows_count(const struct housekeep_adapter *adapter,
                           const struct housekeep_part *part, int64_t after_id)
{
    const struct sim *sim = sim_of(adapter);
    uint64_t rows = 0;
    int64_t from_day;
    int64_t until_day;
    size_t at;

    if (!months_find(&months_of(adapter)->ddl.old, part->name, &at, &from_day, &until_day))
        return 0;
    for (size_t i = 0; i < sim->event_count; i++) {
        const struct sink_vote *vote = &sim->sink->votes[i];

        rows += months_is_row(vote, from_day, until_day) && vote->id > after_id;
    }
    return rows;
}

static enum rc store_count_rows(void *ctx, const struct housekeep_part *part, uint64_t max,
                                uint64_t *rows, struct err *err)
{
    struct housekeep_adapter *adapter = ctx;
    enum rc rc = link_call(&adapter->link, err);

    if (rc != RC_OK)
        return rc;
    *rows = rows_count(adapter, part, 0);
    *rows = *rows < max ? *rows : max;
    return link_answer(&adapter->link, err);
}

/* The promise: a month goes when vote_base has all of it. */
static void drop_rows(struct sim *sim)
{
    const struct months_ddl *ddl = &sim->months->ddl;

    for (size_t i = 0; i < sim->event_count; i++) {
        struct sink_vote *vote = &sim->sink->votes[i];

        if (!months_is_row(vote, ddl->drops_from_day, ddl->drops_until_day))
            continue;
        if (vote->folded == 0)
            sim_fail(sim, sim->events[i].key,
                     "lost: event %zu is dropped with its month, and vote_base does not have it",
                     i);
        vote->now_found = vote->old_found = false;
        vote->dropped = true;
        sim_tell(sim, "sink", sim->events[i].key, "event %lld is dropped with its month",
                 (int64_t)i, 0, 0);
    }
}

static void ddl_settle(void *ctx, struct fake_row *row, bool commit)
{
    struct sim *sim = ctx;
    struct months_ddl *ddl = (struct months_ddl *)row;

    if (!commit) {
        ddl->now = ddl->old;
        return;
    }
    if (ddl->now.count < ddl->old.count) {
        drop_rows(sim);
        months_check_totals(sim);
    }
    ddl->old = ddl->now;
    sim_tell(sim, "sink", STORY_DETAIL, "vote_document has %lld partitions, from day %lld on",
             (int64_t)ddl->now.count, ddl->now.parts[0].limit_day, 0);
}

/* A statement that changes partitions waits for all transactions that use the table, and is one of
 * its own. */
static enum rc ddl_begin(struct housekeep_adapter *adapter, struct err *err)
{
    struct link *link = &adapter->link;
    struct months *months = months_of(adapter);
    enum rc rc = link_begin(link, err);

    if (rc == RC_OK)
        rc = link_call(link, err);
    if (rc == RC_OK)
        rc = months_lock_all(link, months->log_users, err);
    if (rc == RC_OK)
        rc = link_lock(link, &months->ddl.row, err);
    if (rc == RC_OK)
        link_wrote(link, &months->ddl.row, ddl_settle);
    if (rc != RC_OK)
        link_rollback(link);
    return rc;
}

/* Why the database refuses the statement; NULL: it takes it. */
static const char *make_fault(const struct months_parts *parts, const struct housekeep_part *part,
                              const struct housekeep_part *last)
{
    const struct housekeep_part *end = &parts->parts[parts->count - 1];
    int64_t from_day;
    int64_t until_day;
    size_t at;

    if (months_find(parts, part->name, &at, &from_day, &until_day))
        return "a partition has the name";
    if (parts->count == MONTHS_PARTS_MAX)
        return "too many partitions";
    if ((end->limit_day == HOUSEKEEP_NO_LIMIT) != (last != NULL))
        return "not where the last partition is";
    if (last)
        end--;
    return end->limit_day >= part->limit_day ? "not behind all others" : NULL;
}

static enum rc store_make_part(void *ctx, const struct housekeep_part *part,
                               const struct housekeep_part *last, struct err *err)
{
    struct housekeep_adapter *adapter = ctx;
    struct months_parts *parts = &months_of(adapter)->ddl.now;
    enum rc rc = ddl_begin(adapter, err);
    const char *fault;

    if (rc != RC_OK)
        return rc;
    fault = make_fault(parts, part, last);
    if (fault) {
        link_rollback(&adapter->link);
        return err_fail(err, RC_REJECT, SAME_NAME_PARTITION, "%s: %s", part->name, fault);
    }
    if (last)
        parts->parts[parts->count] = parts->parts[parts->count - 1];
    parts->parts[last ? parts->count - 1 : parts->count] = *part;
    parts->count++;
    return link_commit(&adapter->link, err);
}

static enum rc store_move_begin(void *ctx, const struct singleton_lease *lease, int64_t begin_day,
                                bool *held, struct err *err)
{
    struct housekeep_adapter *adapter = ctx;
    struct months *months = months_of(adapter);
    enum rc rc = begin_held(adapter, lease, held, err);

    if (rc != RC_OK || !*held)
        return rc;
    rc = link_call(&adapter->link, err);
    if (rc == RC_OK && months->ddl.old.parts[0].limit_day < begin_day)
        rc = err_fail(err, RC_RETRY, 0, "an earlier partition is there");
    if (rc == RC_OK && sim_of(adapter)->fault != FAULT_BEGIN_UNLOCKED)
        rc = months_lock_all(&adapter->link, months->begin_readers, err);
    if (rc == RC_OK)
        rc = link_answer(&adapter->link, err);
    if (rc == RC_OK)
        rc = open_check(adapter, err);
    if (rc != RC_OK) {
        link_rollback(&adapter->link);
        return rc;
    }
    if (months->now.row.begin_day < begin_day) {
        months->now.row.begin_day = begin_day;
        if (sim_of(adapter)->fault != FAULT_FOLD_GOES_ON)
            months->now.folded_id = 0;
    }
    lease_renew(adapter, lease);
    return commit_held(adapter, err);
}

/* Finds the event of the partition's next row, by id, that is not in vote_base. */
static bool fold_next(const struct housekeep_adapter *adapter, int64_t from_day, int64_t until_day,
                      int64_t after_id, size_t *number)
{
    const struct sim *sim = sim_of(adapter);
    const struct sink_vote *next = NULL;

    for (size_t i = 0; i < sim->event_count; i++) {
        const struct sink_vote *vote = &sim->sink->votes[i];

        if (months_is_row(vote, from_day, until_day) && vote->id > after_id &&
            (!next || vote->id < next->id)) {
            next = vote;
            *number = i;
        }
    }
    return next != NULL;
}

static void fold_add(struct housekeep_adapter *adapter, size_t number)
{
    const struct event *event = &sim_of(adapter)->events[number];
    const struct sink_vote *vote = &sim_of(adapter)->sink->votes[number];
    struct months *months = months_of(adapter);
    struct months_base *base = &months->now.base[event->key];

    months->folded[months->folded_count++] = number;
    if (vote->seq > base->seq) {
        base->seq = vote->seq;
        base->votes = vote->votes;
    }
    base->row_count++;
    base->vote_sum += event->voting ? 1 : -1;
}

/* The fault: vote_base and how far it is are written in two transactions. */
static enum rc fold_apart(struct housekeep_adapter *adapter, const struct singleton_lease *lease,
                          struct err *err)
{
    bool held = false;
    int64_t folded_id = months_of(adapter)->now.folded_id;
    enum rc rc;

    months_of(adapter)->now.folded_id = months_of(adapter)->old.folded_id;
    rc = commit_held(adapter, err);
    if (rc == RC_OK)
        rc = begin_held(adapter, lease, &held, err);
    if (rc != RC_OK || !held)
        return rc;
    months_of(adapter)->now.folded_id = folded_id;
    return commit_held(adapter, err);
}

static enum rc store_fold(void *ctx, const struct singleton_lease *lease,
                          const struct housekeep_part *part, size_t rows_max, uint64_t *rows,
                          bool *held, struct err *err)
{
    struct housekeep_adapter *adapter = ctx;
    struct months *months = months_of(adapter);
    int64_t from_day = 0;
    int64_t until_day = 0;
    size_t number = 0;
    size_t at = 0;
    enum rc rc = begin_held(adapter, lease, held, err);

    *rows = 0;
    if (rc != RC_OK || !*held)
        return rc;
    rc = link_call(&adapter->link, err);
    if (rc == RC_OK && !months_find(&months->ddl.old, part->name, &at, &from_day, &until_day))
        rc = err_fail(err, RC_REJECT, NO_SUCH_PARTITION, "no partition %s", part->name);
    if (rc == RC_OK && months->now.row.begin_day < until_day)
        rc = err_fail(err, RC_RETRY, 0, "the log begins before the end of %s", part->name);
    if (rc == RC_OK)
        rc = open_check(adapter, err);
    if (rc != RC_OK) {
        link_rollback(&adapter->link);
        return rc;
    }
    assert(rows_max <= MONTHS_FOLD_MAX);
    for (; *rows < rows_max &&
           fold_next(adapter, from_day, until_day, months->now.folded_id, &number);
         ++*rows) {
        fold_add(adapter, number);
        months->now.folded_id = sim_of(adapter)->sink->votes[number].id;
    }
    lease_renew(adapter, lease);
    if (sim_of(adapter)->fault == FAULT_FOLD_APART && *rows > 0)
        return fold_apart(adapter, lease, err);
    return commit_held(adapter, err);
}

/* As drop_check(): a statement of its own. */
static enum rc drop_check(struct housekeep_adapter *adapter, const struct housekeep_part *part,
                          struct err *err)
{
    const struct months_state *state = &months_of(adapter)->old;
    enum rc rc = link_call(&adapter->link, err);

    if (rc != RC_OK)
        return rc;
    if (state->row.begin_day < part->limit_day || rows_count(adapter, part, state->folded_id) > 0)
        return err_fail(err, RC_REJECT, 0, "partition %s has rows that are not in vote_base",
                        part->name);
    return link_answer(&adapter->link, err);
}

static enum rc store_drop_part(void *ctx, const struct housekeep_part *part, struct err *err)
{
    struct housekeep_adapter *adapter = ctx;
    struct months_ddl *ddl = &months_of(adapter)->ddl;
    struct months_parts *parts = &ddl->now;
    enum rc rc = drop_check(adapter, part, err);
    uint64_t connects = adapter->link.connects;
    size_t at;

    if (rc == RC_OK)
        rc = ddl_begin(adapter, err);
    /* The check holds only for its own session: a new one checks again. */
    if (rc == RC_OK && adapter->link.connects != connects) {
        link_rollback(&adapter->link);
        rc = err_fail(err, RC_RETRY, 2006, "server has gone away");
    }
    if (rc != RC_OK)
        return rc;
    if (!months_find(parts, part->name, &at, &ddl->drops_from_day, &ddl->drops_until_day)) {
        link_rollback(&adapter->link);
        return RC_OK;
    }
    parts->count--;
    memmove(&parts->parts[at], &parts->parts[at + 1], (parts->count - at) * sizeof(*parts->parts));
    return link_commit(&adapter->link, err);
}

static size_t aged_count(const struct months *months, size_t kind, int64_t before_ms)
{
    size_t count = 0;

    while (count < months->aged_count[kind] && months->aged_ms[kind][count] < before_ms)
        count++;
    return count;
}

static enum rc store_delete_old(void *ctx, enum housekeep_kind kind, int64_t days, size_t rows_max,
                                uint64_t *rows, struct err *err)
{
    struct housekeep_adapter *adapter = ctx;
    struct months *months = months_of(adapter);
    enum rc rc = link_call(&adapter->link, err);
    size_t count;

    *rows = 0;
    adapter->denied = adapter->denied || rc == RC_FATAL;
    if (rc != RC_OK)
        return rc;
    if (days <= 0 || days != months->rules.keep_days[kind])
        sim_fail(sim_of(adapter), STORY_ALL, "retention: %s deletes from %s what is %lld days old",
                 adapter->link.proc->name, housekeep_kind_name(kind), (long long)days);
    count = aged_count(months, kind, now_ms(adapter) - days * MS_PER_DAY);
    count = count < rows_max ? count : rows_max;
    months->aged_count[kind] -= count;
    memmove(months->aged_ms[kind], months->aged_ms[kind] + count,
            months->aged_count[kind] * sizeof(int64_t));
    *rows = count;
    return link_answer(&adapter->link, err);
}

static enum rc store_count_old(void *ctx, enum housekeep_kind kind, int64_t days, uint64_t max,
                               uint64_t *rows, struct err *err)
{
    struct housekeep_adapter *adapter = ctx;
    enum rc rc = link_call(&adapter->link, err);

    *rows = aged_count(months_of(adapter), kind, now_ms(adapter) - days * MS_PER_DAY);
    *rows = *rows < max ? *rows : max;
    return rc == RC_OK ? link_answer(&adapter->link, err) : rc;
}

/* The promise: a round that ends leaves nothing behind that was old when it began. */
static void retention_check(const struct housekeep_adapter *adapter)
{
    struct sim *sim = sim_of(adapter);
    const struct months *months = months_of(adapter);

    for (size_t kind = 0; kind < HOUSEKEEP_KINDS && !adapter->denied; kind++) {
        int64_t days = months->rules.keep_days[kind];

        if (days > 0 &&
            aged_count(months, kind, months->now.round_ms - (days + MONTH_DAYS) * MS_PER_DAY) > 0)
            sim_fail(sim, STORY_ALL, "retention: %s ends a round, and %s has old rows",
                     adapter->link.proc->name, housekeep_kind_name((enum housekeep_kind)kind));
    }
}

static enum rc store_finish(void *ctx, const struct singleton_lease *lease, bool *held,
                            struct err *err)
{
    struct housekeep_adapter *adapter = ctx;
    struct housekeep_state *row = &months_of(adapter)->now.row;
    enum rc rc = state_begin(adapter, err);

    /* As singleton_mysql_check_end(): the COMMIT of the last try may have worked. */
    *held = rc == RC_OK &&
            (is_held(adapter, lease) || (row->epoch == lease->epoch && row->owner[0] == '\0'));
    if (rc != RC_OK)
        return rc;
    if (!is_held(adapter, lease)) {
        link_rollback(&adapter->link);
        return RC_OK;
    }
    retention_check(adapter);
    row->owner[0] = '\0';
    row->lease_until_ms = row->finished_ms = now_ms(adapter);
    return commit_held(adapter, err);
}

static void store_release(void *ctx, const struct singleton_lease *lease)
{
    struct housekeep_adapter *adapter = ctx;
    bool held = false;

    if (begin_held(adapter, lease, &held, NULL) != RC_OK || !held)
        return;
    months_of(adapter)->now.row.owner[0] = '\0';
    (void)commit_held(adapter, NULL);
}

void housekeep_adapter_init(struct housekeep_adapter *adapter, struct proc *proc)
{
    link_init(&adapter->link, proc, proc->sim->sink_db);
    adapter->denied = false;
    adapter->ops = (struct housekeep_store){
        .ctx = adapter,
        .read_state = store_look,
        .take = store_take,
        .renew = store_renew,
        .read_parts = store_read_parts,
        .count_rows = store_count_rows,
        .make_part = store_make_part,
        .move_begin = store_move_begin,
        .fold = store_fold,
        .drop_part = store_drop_part,
        .delete_old = store_delete_old,
        .count_old = store_count_old,
        .finish = store_finish,
        .release = store_release,
    };
}
