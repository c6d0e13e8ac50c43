/* SPDX-License-Identifier: MIT */
#include "tests/fakes/fake_housekeep.h"

#include "consumer/apply/date.h"
#include "tests/fakes/fake_rollup.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

enum {
    SERVER_GONE = 2006,
    SAME_NAME_PARTITION = 1517,
    NO_SUCH_PARTITION = 1735,
};

static void settle_state(void *ctx, struct fake_row *row, bool commit)
{
    struct fake_housekeep_tables *tables = ctx;

    (void)row;
    if (tables->on_settle)
        tables->on_settle(tables->ctx, commit);
    if (commit)
        tables->old = tables->now;
    else
        tables->now = tables->old;
}

/* An answer arrives also when the server has ended the session meanwhile. */
static enum rc check_open(const struct fake_housekeep *fake, const struct fake_row *row,
                          struct err *err)
{
    if (fake_owns(&fake->session, row))
        return RC_OK;
    return err_fail(err, RC_RETRY, SERVER_GONE, "server has gone away");
}

/* A transaction that has the row of housekeep_state locked. */
static enum rc begin_locked(struct fake_housekeep *fake, struct err *err)
{
    struct fake_housekeep_tables *tables = fake->tables;
    enum rc rc = fake_begin(&fake->session, err);

    if (rc == RC_OK)
        rc = fake_call(&fake->session, err);
    if (rc == RC_OK)
        rc = fake_lock(&fake->session, &tables->row, err);
    if (rc == RC_OK)
        fake_wrote(&fake->session, &tables->row, settle_state, tables);
    if (rc == RC_OK)
        rc = fake_answer(&fake->session, err);
    if (rc == RC_OK)
        rc = check_open(fake, &tables->row, err);
    if (rc != RC_OK)
        fake_rollback(&fake->session);
    return rc;
}

static bool is_held(const struct fake_housekeep *fake, const struct singleton_lease *lease)
{
    const struct housekeep_state *state = &fake->tables->now.state;

    if (fake->faults.unfenced)
        return true;
    return state->epoch == lease->epoch &&
           (fake->faults.owner_ignored || strcmp(state->owner, lease->owner) == 0);
}

/* As singleton_mysql_check(). */
static enum rc begin_held(struct fake_housekeep *fake, const struct singleton_lease *lease,
                          bool *held, struct err *err)
{
    enum rc rc = begin_locked(fake, err);

    *held = rc == RC_OK && is_held(fake, lease);
    if (rc == RC_OK && !*held)
        fake_rollback(&fake->session);
    return rc;
}

static enum rc commit_held(struct fake_housekeep *fake, struct err *err)
{
    if (fake->on_write)
        fake->on_write(fake->ctx);
    return fake_commit(&fake->session, err);
}

static void renew_lease(struct fake_housekeep *fake, const struct singleton_lease *lease)
{
    fake->tables->now.state.lease_until_ms = fake_now_ms(&fake->session) + lease->lease_ms;
}

int64_t fake_housekeep_newest_day(const struct fake_housekeep_tables *tables)
{
    struct fake_log_row newest = {.day = INT64_MIN};
    struct fake_log_row row;

    for (size_t n = 0; n < tables->row_count(tables->ctx); n++)
        if (tables->read_row(tables->ctx, n, &row) && row.id > newest.id)
            newest = row;
    return newest.day;
}

static enum rc fake_read_state(void *ctx, struct housekeep_state *state, struct err *err)
{
    struct fake_housekeep *fake = ctx;
    enum rc rc;

    fake->op = FAKE_READ_STATE;
    rc = fake_call(&fake->session, err);
    if (rc != RC_OK)
        return rc;
    *state = fake->tables->old.state;
    state->now_ms = fake_now_ms(&fake->session);
    state->newest_day = fake_housekeep_newest_day(fake->tables);
    return fake_answer(&fake->session, err);
}

static enum rc fake_take(void *ctx, const struct singleton_lease *lease, bool *taken,
                         struct err *err)
{
    struct fake_housekeep *fake = ctx;
    struct housekeep_state *state = &fake->tables->now.state;
    enum rc rc;

    fake->op = FAKE_TAKE;
    *taken = false;
    rc = begin_locked(fake, err);
    if (rc != RC_OK)
        return rc;
    if (state->epoch != lease->epoch - 1 ||
        !fake_singleton_lease_is_free(state->owner, state->lease_until_ms,
                                      fake_now_ms(&fake->session), lease)) {
        fake_rollback(&fake->session);
        return RC_OK;
    }
    snprintf(state->owner, sizeof(state->owner), "%s", lease->owner);
    state->epoch = lease->epoch;
    renew_lease(fake, lease);
    if (fake->on_take)
        fake->on_take(fake->ctx);
    rc = fake_commit(&fake->session, err);
    *taken = rc == RC_OK;
    return rc;
}

static enum rc fake_renew(void *ctx, const struct singleton_lease *lease, bool *held,
                          struct err *err)
{
    struct fake_housekeep *fake = ctx;
    enum rc rc;

    fake->op = FAKE_RENEW;
    rc = begin_held(fake, lease, held, err);
    if (rc != RC_OK || !*held)
        return rc;
    renew_lease(fake, lease);
    return commit_held(fake, err);
}

static enum rc fake_read_parts(void *ctx, struct housekeep_part *parts, size_t max, size_t *count,
                               struct err *err)
{
    struct fake_housekeep *fake = ctx;
    const struct fake_parts *from = &fake->tables->parts_old;
    enum rc rc;

    fake->op = FAKE_READ_PARTS;
    *count = 0;
    rc = fake_call(&fake->session, err);
    if (rc != RC_OK)
        return rc;
    assert(from->count <= max);
    memcpy(parts, from->parts, from->count * sizeof(*parts));
    *count = from->count;
    return fake_answer(&fake->session, err);
}

bool fake_parts_find(const struct fake_parts *parts, const char *name, size_t *at,
                     struct fake_days *days)
{
    days->from = INT64_MIN;
    for (*at = 0; *at < parts->count; ++*at) {
        days->until = parts->parts[*at].limit_day;
        if (strcmp(parts->parts[*at].name, name) == 0)
            return true;
        days->from = days->until;
    }
    return false;
}

/* Finds the committed rows of these days behind an id, up to max, with the lowest ids; rows[] in
 * their order, ns[] their numbers. Returns how many. rows NULL: counts only. */
static size_t find_rows(const struct fake_housekeep_tables *tables, const struct fake_days *days,
                        int64_t after_id, struct fake_log_row *rows, size_t *ns, size_t max)
{
    size_t count = 0;

    for (size_t n = 0; n < tables->row_count(tables->ctx); n++) {
        struct fake_log_row row;
        size_t at = 0;

        if (!tables->read_row(tables->ctx, n, &row) || row.day < days->from ||
            row.day >= days->until || row.id <= after_id)
            continue;
        while (rows && at < count && rows[at].id < row.id)
            at++;
        if (at == max)
            continue;
        count += count < max;
        if (!rows)
            continue;
        memmove(&rows[at + 1], &rows[at], (count - 1 - at) * sizeof(*rows));
        memmove(&ns[at + 1], &ns[at], (count - 1 - at) * sizeof(*ns));
        rows[at] = row;
        ns[at] = n;
    }
    return count;
}

static enum rc fake_count_rows(void *ctx, const struct housekeep_part *part, uint64_t max,
                               uint64_t *rows, struct err *err)
{
    struct fake_housekeep *fake = ctx;
    struct fake_days days;
    size_t at;
    enum rc rc;

    fake->op = FAKE_COUNT_ROWS;
    *rows = 0;
    rc = fake_call(&fake->session, err);
    if (rc != RC_OK)
        return rc;
    if (fake_parts_find(&fake->tables->parts_old, part->name, &at, &days))
        *rows = find_rows(fake->tables, &days, 0, NULL, NULL, max);
    return fake_answer(&fake->session, err);
}

static void settle_parts(void *ctx, struct fake_row *row, bool commit)
{
    struct fake_housekeep_tables *tables = ctx;
    bool dropped = tables->parts_now.count < tables->parts_old.count;

    (void)row;
    if (!commit) {
        tables->parts_now = tables->parts_old;
        return;
    }
    tables->parts_old = tables->parts_now;
    if (tables->on_parts)
        tables->on_parts(tables->ctx, dropped ? &tables->drops : NULL);
}

/* A statement that changes partitions waits for all transactions that use the table, and is one of
 * its own. */
static enum rc begin_parts(struct fake_housekeep *fake, struct err *err)
{
    struct fake_housekeep_tables *tables = fake->tables;
    enum rc rc = fake_begin(&fake->session, err);

    if (rc == RC_OK)
        rc = fake_call(&fake->session, err);
    if (rc == RC_OK && fake->lock_log)
        rc = fake->lock_log(fake->ctx, err);
    if (rc == RC_OK)
        rc = fake_lock(&fake->session, &tables->parts_row, err);
    if (rc == RC_OK)
        fake_wrote(&fake->session, &tables->parts_row, settle_parts, tables);
    if (rc != RC_OK)
        fake_rollback(&fake->session);
    return rc;
}

/* Why the database refuses the statement; NULL: it takes it. */
static const char *find_make_fault(const struct fake_parts *parts,
                                   const struct housekeep_part *part,
                                   const struct housekeep_part *last)
{
    const struct housekeep_part *end = &parts->parts[parts->count - 1];
    struct fake_days days;
    size_t at;

    if (fake_parts_find(parts, part->name, &at, &days))
        return "a partition has the name";
    if (parts->count == FAKE_PARTS_MAX)
        return "too many partitions";
    if ((end->limit_day == HOUSEKEEP_NO_LIMIT) != (last != NULL))
        return "not where the last partition is";
    if (last && parts->count == 1)
        return NULL;
    if (last)
        end--;
    return end->limit_day >= part->limit_day ? "not behind all others" : NULL;
}

static enum rc fake_make_part(void *ctx, const struct housekeep_part *part,
                              const struct housekeep_part *last, struct err *err)
{
    struct fake_housekeep *fake = ctx;
    struct fake_parts *parts = &fake->tables->parts_now;
    const char *fault;
    enum rc rc;

    fake->op = FAKE_MAKE_PART;
    rc = begin_parts(fake, err);
    if (rc != RC_OK)
        return rc;
    fault = find_make_fault(parts, part, last);
    if (fault) {
        fake_rollback(&fake->session);
        return err_fail(err, RC_RETRY, SAME_NAME_PARTITION, "%s: %s", part->name, fault);
    }
    if (last)
        parts->parts[parts->count] = parts->parts[parts->count - 1];
    parts->parts[last ? parts->count - 1 : parts->count] = *part;
    parts->count++;
    return fake_commit(&fake->session, err);
}

/* As begin_in_transaction(): the check of the partitions, and the lock on log_begin. */
static enum rc lock_begin(struct fake_housekeep *fake, int64_t begin_day, struct err *err)
{
    enum rc rc = fake_call(&fake->session, err);

    if (rc == RC_OK && fake->tables->parts_old.parts[0].limit_day < begin_day)
        rc = err_fail(err, RC_RETRY, 0, "an earlier partition is there");
    if (rc == RC_OK && fake->lock_begin)
        rc = fake->lock_begin(fake->ctx, err);
    if (rc == RC_OK)
        rc = fake_answer(&fake->session, err);
    if (rc == RC_OK)
        rc = check_open(fake, &fake->tables->row, err);
    return rc;
}

static enum rc fake_move_begin(void *ctx, const struct singleton_lease *lease, int64_t begin_day,
                               bool *held, struct err *err)
{
    struct fake_housekeep *fake = ctx;
    struct fake_housekeep_rows *now = &fake->tables->now;
    enum rc rc;

    fake->op = FAKE_MOVE_BEGIN;
    rc = begin_held(fake, lease, held, err);
    if (rc != RC_OK || !*held)
        return rc;
    rc = lock_begin(fake, begin_day, err);
    if (rc != RC_OK) {
        fake_rollback(&fake->session);
        return rc;
    }
    if (now->state.begin_day < begin_day) {
        now->state.begin_day = begin_day;
        if (!fake->faults.fold_continues)
            now->folded_id = 0;
    }
    renew_lease(fake, lease);
    return commit_held(fake, err);
}

void fake_base_add(struct fake_base *base, const struct fake_log_row *row)
{
    if (row->seq > base->seq) {
        base->seq = row->seq;
        base->votes = row->votes;
    }
    base->row_count++;
    base->vote_sum += row->voting ? 1 : -1;
}

/* As read_fold_range(). */
static enum rc check_fold(struct fake_housekeep *fake, const struct housekeep_part *part,
                          struct fake_days *days, struct err *err)
{
    size_t at;
    enum rc rc = fake_call(&fake->session, err);

    if (rc == RC_OK && !fake_parts_find(&fake->tables->parts_old, part->name, &at, days))
        rc = err_fail(err, RC_RETRY, NO_SUCH_PARTITION, "no partition %s", part->name);
    if (rc == RC_OK && fake->tables->now.state.begin_day < days->until)
        rc = err_fail(err, RC_RETRY, 0, "the log begins before the end of %s", part->name);
    if (rc == RC_OK)
        rc = check_open(fake, &fake->tables->row, err);
    return rc;
}

static enum rc commit_fold_apart(struct fake_housekeep *fake, const struct singleton_lease *lease,
                                 struct err *err)
{
    struct fake_housekeep_tables *tables = fake->tables;
    int64_t folded_id = tables->now.folded_id;
    bool held = false;
    enum rc rc;

    tables->now.folded_id = tables->old.folded_id;
    rc = commit_held(fake, err);
    if (rc == RC_OK)
        rc = begin_held(fake, lease, &held, err);
    if (rc != RC_OK || !held)
        return rc;
    tables->now.folded_id = folded_id;
    return commit_held(fake, err);
}

static enum rc fake_fold(void *ctx, const struct singleton_lease *lease,
                         const struct housekeep_part *part, size_t rows_max, uint64_t *count,
                         bool *held, struct err *err)
{
    struct fake_housekeep *fake = ctx;
    struct fake_housekeep_tables *tables = fake->tables;
    struct fake_log_row rows[FAKE_FOLD_ROWS_MAX];
    size_t ns[FAKE_FOLD_ROWS_MAX];
    struct fake_days days;
    enum rc rc;

    fake->op = FAKE_FOLD;
    *count = 0;
    assert(rows_max <= FAKE_FOLD_ROWS_MAX);
    rc = begin_held(fake, lease, held, err);
    if (rc != RC_OK || !*held)
        return rc;
    rc = check_fold(fake, part, &days, err);
    if (rc != RC_OK) {
        fake_rollback(&fake->session);
        return rc;
    }
    *count = find_rows(tables, &days, tables->now.folded_id, rows, ns, rows_max);
    for (size_t i = 0; i < *count; i++) {
        assert(rows[i].content_id < FAKE_BASES_MAX);
        fake_base_add(&tables->now.bases[rows[i].content_id], &rows[i]);
        tables->now.folded_id = rows[i].id;
        if (tables->on_fold)
            tables->on_fold(tables->ctx, ns[i]);
    }
    renew_lease(fake, lease);
    if (fake->faults.fold_apart && *count > 0)
        return commit_fold_apart(fake, lease, err);
    return commit_held(fake, err);
}

/* As check_drop(): a statement of its own. *gone: the partition is dropped. */
static enum rc check_drop(struct fake_housekeep *fake, const struct housekeep_part *part,
                          bool *gone, struct err *err)
{
    const struct fake_housekeep_tables *tables = fake->tables;
    struct fake_days days;
    size_t at;
    enum rc rc = fake_call(&fake->session, err);

    if (rc != RC_OK)
        return rc;
    *gone = !fake_parts_find(&tables->parts_old, part->name, &at, &days);
    if (!*gone && (tables->old.state.begin_day < part->limit_day ||
                   find_rows(tables, &days, tables->old.folded_id, NULL, NULL, 1) > 0))
        return err_fail(err, RC_REJECT, 0, "partition %s has rows that are not in vote_base",
                        part->name);
    return fake_answer(&fake->session, err);
}

static enum rc fake_drop_part(void *ctx, const struct housekeep_part *part, struct err *err)
{
    struct fake_housekeep *fake = ctx;
    struct fake_housekeep_tables *tables = fake->tables;
    struct fake_parts *parts = &tables->parts_now;
    bool gone = false;
    uint64_t connects;
    size_t at;
    enum rc rc;

    fake->op = FAKE_DROP_PART;
    rc = check_drop(fake, part, &gone, err);
    if (rc != RC_OK || gone)
        return rc;
    connects = fake->session.connects(fake->session.hooks.ctx);
    rc = begin_parts(fake, err);
    /* The check holds only for its own session: a new one checks again. */
    if (rc == RC_OK && fake->session.connects(fake->session.hooks.ctx) != connects) {
        fake_rollback(&fake->session);
        rc = err_fail(err, RC_RETRY, SERVER_GONE, "server has gone away");
    }
    if (rc != RC_OK)
        return rc;
    if (!fake_parts_find(parts, part->name, &at, &tables->drops)) {
        fake_rollback(&fake->session);
        return RC_OK;
    }
    parts->count--;
    memmove(&parts->parts[at], &parts->parts[at + 1], (parts->count - at) * sizeof(*parts->parts));
    return fake_commit(&fake->session, err);
}

size_t fake_housekeep_made(const struct fake_housekeep_tables *tables, enum housekeep_kind kind,
                           int64_t before_ms)
{
    size_t count = 0;

    while (count < tables->made_count[kind] && tables->made_ms[kind][count] < before_ms)
        count++;
    return count;
}

static uint64_t count_old(const struct fake_housekeep *fake, enum housekeep_kind kind, int64_t days,
                          uint64_t max)
{
    uint64_t count =
        fake_housekeep_made(fake->tables, kind, fake_now_ms(&fake->session) - days * MS_PER_DAY);

    return count < max ? count : max;
}

static enum rc fake_delete_old(void *ctx, enum housekeep_kind kind, int64_t days, size_t rows_max,
                               uint64_t *rows, struct err *err)
{
    struct fake_housekeep *fake = ctx;
    struct fake_housekeep_tables *tables = fake->tables;
    enum rc rc;

    fake->op = FAKE_DELETE_OLD;
    *rows = 0;
    rc = fake_call(&fake->session, err);
    if (rc != RC_OK)
        return rc;
    *rows = count_old(fake, kind, days, rows_max);
    tables->made_count[kind] -= *rows;
    memmove(tables->made_ms[kind], tables->made_ms[kind] + *rows,
            tables->made_count[kind] * sizeof(int64_t));
    return fake_answer(&fake->session, err);
}

static enum rc fake_count_old(void *ctx, enum housekeep_kind kind, int64_t days, uint64_t max,
                              uint64_t *rows, struct err *err)
{
    struct fake_housekeep *fake = ctx;
    enum rc rc;

    fake->op = FAKE_COUNT_OLD;
    *rows = 0;
    rc = fake_call(&fake->session, err);
    if (rc != RC_OK)
        return rc;
    *rows = count_old(fake, kind, days, max);
    return fake_answer(&fake->session, err);
}

static enum rc fake_finish(void *ctx, const struct singleton_lease *lease, bool *held,
                           struct err *err)
{
    struct fake_housekeep *fake = ctx;
    struct housekeep_state *state = &fake->tables->now.state;
    enum rc rc;

    fake->op = FAKE_FINISH;
    rc = begin_locked(fake, err);
    /* As singleton_mysql_check_end(): the COMMIT of the last try may have worked. */
    *held = rc == RC_OK &&
            (is_held(fake, lease) || (state->epoch == lease->epoch && state->owner[0] == '\0'));
    if (rc != RC_OK)
        return rc;
    if (!is_held(fake, lease)) {
        fake_rollback(&fake->session);
        return RC_OK;
    }
    if (fake->on_finish)
        fake->on_finish(fake->ctx);
    state->owner[0] = '\0';
    state->lease_until_ms = state->finished_ms = fake_now_ms(&fake->session);
    return commit_held(fake, err);
}

static void fake_release(void *ctx, const struct singleton_lease *lease)
{
    struct fake_housekeep *fake = ctx;
    bool held = false;

    fake->op = FAKE_RELEASE;
    if (begin_held(fake, lease, &held, NULL) != RC_OK || !held)
        return;
    fake->tables->now.state.owner[0] = '\0';
    fake->tables->now.state.lease_until_ms = fake_now_ms(&fake->session);
    (void)commit_held(fake, NULL);
}

struct housekeep_store fake_housekeep_ops(struct fake_housekeep *fake)
{
    return (struct housekeep_store){
        .ctx = fake,
        .read_state = fake_read_state,
        .take = fake_take,
        .renew = fake_renew,
        .read_parts = fake_read_parts,
        .count_rows = fake_count_rows,
        .make_part = fake_make_part,
        .move_begin = fake_move_begin,
        .fold = fake_fold,
        .drop_part = fake_drop_part,
        .delete_old = fake_delete_old,
        .count_old = fake_count_old,
        .finish = fake_finish,
        .release = fake_release,
    };
}
